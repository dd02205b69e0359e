from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_index import made_rows

from medvrag_core.index.kernels.codes import PageCodes, page_codes, query_codes, score_bounds, tile_codes
from medvrag_core.index.maxsim import score_pages


def decoded(pages: PageCodes, dim: int) -> np.ndarray:
    """All vectors of all pages as their codes have them, without the repeated ones."""
    flat = (pages.codes.astype(np.float32) - 128).transpose(0, 2, 1, 3).reshape(len(pages.codes) * 16, -1)[:, :dim]
    parts = [
        flat[16 * start : 16 * start + rows] * scale
        for start, rows, scale in zip(pages.starts[:-1], pages.rows, pages.scales, strict=True)
    ]
    return np.concatenate(parts)


LENGTHS = st.lists(st.integers(1, 40), min_size=1, max_size=6)


@given(st.integers(0, 99), LENGTHS, st.sampled_from([1, 2, 6, 16, 33]))
def test_codes_are_off_by_half_a_step_at_most_and_the_stored_error_is_the_largest(
    seed: int, lengths: list[int], dim: int
) -> None:
    vectors, offsets = made_rows(seed, lengths, dim)
    pages = page_codes(vectors, offsets)
    back = decoded(pages, dim)
    steps = np.repeat(pages.scales, lengths)[:, None]
    assert (np.abs(back - vectors) <= steps * 0.5001).all()
    off = np.linalg.norm(back - vectors, axis=1)
    assert np.allclose(pages.errors, np.maximum.reduceat(off, offsets[:-1]), atol=1e-6)
    assert np.allclose(pages.norms, np.maximum.reduceat(np.linalg.norm(back, axis=1), offsets[:-1]), atol=1e-6)


@given(st.integers(0, 99), LENGTHS)
def test_the_codes_of_a_page_depend_on_no_other_page(seed: int, lengths: list[int]) -> None:
    vectors, offsets = made_rows(seed, lengths, 12)
    together = page_codes(vectors, offsets)
    for k, (a, b) in enumerate(pairwise(offsets)):
        alone = page_codes(vectors[a:b], np.array([0, b - a]))
        assert np.array_equal(alone.codes, together.codes[together.starts[k] : together.starts[k + 1]])
        assert alone.scales[0] == together.scales[k]


def test_the_last_block_repeats_the_last_vector() -> None:
    vectors, offsets = made_rows(0, [3], 4)
    rows = page_codes(vectors, offsets).codes[0, 0]
    assert (rows[2:] == rows[2]).all()
    assert (rows[0] != rows[2]).any()


def test_a_page_of_zeros_stays_one() -> None:
    pages = page_codes(np.zeros((2, 4), dtype=np.float32), np.array([0, 2]))
    assert (pages.codes == 128).all()
    assert pages.scales[0] == 1
    assert pages.errors[0] == 0


def test_tiles_hold_16_pages_and_give_no_say_to_what_is_repeated() -> None:
    vectors, offsets = made_rows(1, [4, 2, 1] * 6, 8)
    shares = np.repeat(1 / np.diff(offsets), np.diff(offsets)).astype(np.float32)
    tiles = tile_codes(vectors, offsets, shares, 4)
    assert tiles.codes.shape == (2, 4, 2, 16, 4)
    assert tiles.shares[0, :, 1].tolist() == [0.5, 0.5, 0, 0]
    assert tiles.shares[0, :, 2].tolist() == [1, 0, 0, 0]
    assert np.array_equal(tiles.codes[0, 1, :, 1], tiles.codes[0, 3, :, 1])
    assert not tiles.scales[1, 2:].any(), "where there is no page"


@given(st.integers(0, 99), st.integers(1, 60), st.integers(1, 24))
def test_a_query_takes_as_few_tiles_as_it_can_and_pads_without_weight(seed: int, rows: int, at_once: int) -> None:
    query = np.random.default_rng(seed).normal(size=(rows, 8)).astype(np.float32)
    codes = query_codes(query, at_once, zero=128)
    assert len(codes.codes) == -(-rows // at_once)
    assert codes.rows <= at_once
    assert codes.rows - rows / len(codes.codes) < 2, "hardly any row is scored twice"
    assert np.allclose(codes.weights[:rows], np.linalg.norm(query, axis=1) * codes.scale / rows)
    assert not codes.weights[rows:].any()
    assert len(codes.weights) % 16 == 0
    assert len(codes.weights) >= codes.rows * len(codes.codes)


def test_a_query_row_of_zeros_matches_nothing() -> None:
    codes = query_codes(np.array([[0, 0, 0, 0], [3, 0, 0, 4]], dtype=np.float32), 8, zero=128)
    assert not codes.codes[0, :, 0].any()
    assert np.isfinite(codes.errors).all()


@pytest.mark.parametrize("backward", [0.0, 0.5, 1.0])
@given(st.integers(0, 99), LENGTHS, st.integers(1, 30))
def test_no_score_is_farther_off_than_its_bound(backward: float, seed: int, lengths: list[int], rows: int) -> None:
    vectors, offsets = made_rows(seed, lengths, 16)
    rng = np.random.default_rng(seed + 1)
    query = rng.normal(size=(rows, 16)).astype(np.float32) * rng.uniform(0.1, 3, size=(rows, 1)).astype(np.float32)
    pages, coded = page_codes(vectors, offsets), query_codes(query, 24, zero=128)
    words = coded.codes.transpose(0, 2, 1, 3).reshape(len(coded.codes) * coded.rows, -1)[:rows]
    directions = words.astype(np.float32) * np.float32(coded.scale)
    weights = np.linalg.norm(query, axis=1)
    back = decoded(pages, 16)
    approximate = []
    for a, b in pairwise(offsets):
        similarity = directions @ back[a:b].T
        approximate.append((weights * similarity.max(axis=1)).mean() + backward * similarity.max(axis=0).mean())
    true = score_pages(query, vectors, offsets, backward=backward)
    assert (
        np.abs(np.array(approximate) - true) <= score_bounds(coded, pages.errors, pages.norms, backward) + 1e-5
    ).all()
