from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medvrag_core.index.maxsim import (
    gather_pages,
    one_way_score_pages,
    patch_scores,
    score_pages,
    two_way_score,
)


def unit_rows(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    rows = rng.normal(size=(n, d)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def loops(query: np.ndarray, page: np.ndarray) -> float:
    """The formula of paper section 3.2 spelled out."""
    forward = sum(max(float(q @ v) for v in page) for q in query) / len(query)
    backward = sum(max(float(q @ v) for q in query) for v in page) / len(page)
    return forward + backward


@given(st.integers(0, 10_000), st.integers(1, 6), st.lists(st.integers(1, 9), min_size=1, max_size=8))
@settings(max_examples=60, deadline=None)
def test_flat_scores_equal_the_formula(seed: int, m: int, lengths: list[int]) -> None:
    rng = np.random.default_rng(seed)
    query = unit_rows(rng, m, 5)
    pages = [unit_rows(rng, n, 5) for n in lengths]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    got = score_pages(query, np.concatenate(pages), offsets)
    assert np.allclose(got, [loops(query, p) for p in pages], atol=1e-5)
    assert np.allclose(got, [two_way_score(query, p) for p in pages], atol=1e-5)


@given(st.integers(0, 10_000))
@settings(max_examples=30, deadline=None)
def test_score_is_symmetric_and_blind_to_row_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = unit_rows(rng, 4, 6), unit_rows(rng, 7, 6)
    assert two_way_score(a, b) == pytest.approx(two_way_score(b, a), abs=1e-6)
    assert two_way_score(a, b) == pytest.approx(two_way_score(a, b[rng.permutation(7)]), abs=1e-6)


def test_bc23_negative_similarities_are_not_lifted_to_zero() -> None:
    query = np.array([[1.0, 0.0]], dtype=np.float32)
    page = np.array([[-0.6, 0.8]], dtype=np.float32)
    longer = np.array([[0.0, 1.0], [0.0, -1.0]], dtype=np.float32)
    scores = score_pages(query, np.concatenate([page, longer]), np.array([0, 1, 3]))
    assert scores[0] == pytest.approx(-1.2)


def test_a_page_without_vectors_is_refused() -> None:
    with pytest.raises(ValueError, match="page 1 has no vector"):
        score_pages(np.ones((1, 2), dtype=np.float32), np.ones((2, 2), dtype=np.float32), np.array([0, 1, 1, 2]))


def test_blocks_do_not_change_the_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    lengths = [3, 1, 8, 2, 5]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    vectors, query = unit_rows(rng, int(offsets[-1]), 4), unit_rows(rng, 3, 4)
    whole = score_pages(query, vectors, offsets)
    monkeypatch.setattr("medvrag_core.index.maxsim._ROWS_AT_ONCE", 4)
    assert np.allclose(score_pages(query, vectors, offsets), whole)


def test_gather_keeps_the_pages_asked_for() -> None:
    vectors = np.arange(12, dtype=np.float32).reshape(6, 2)
    rows, offsets = gather_pages(vectors, np.array([0, 2, 3, 6]), np.array([2, 0]))
    assert rows[:, 0].tolist() == [6, 8, 10, 0, 2]
    assert offsets.tolist() == [0, 3, 5]


def test_one_way_is_the_first_half() -> None:
    rng = np.random.default_rng(2)
    query, page = unit_rows(rng, 3, 4), unit_rows(rng, 5, 4)
    got = one_way_score_pages(query, page, np.array([0, 5]))[0]
    assert got == pytest.approx(float((query @ page.T).max(axis=1).mean()), abs=1e-6)
    assert patch_scores(query, page).shape == (5,)


@settings(deadline=None)
@given(seed=st.integers(0, 1000), backward=st.floats(0, 2))
def test_weighted_rows_count_in_the_forward_half_alone(seed: int, backward: float) -> None:
    rng = np.random.default_rng(seed)
    query, pages, offsets = unit_rows(rng, 4, 5), [unit_rows(rng, n, 5) for n in (1, 3, 6)], np.array([0, 1, 4, 10])
    weights = rng.uniform(0.1, 3, size=4).astype(np.float32)
    got = score_pages(weights[:, None] * query, np.concatenate(pages), offsets, backward=backward)
    for score, page in zip(got, pages, strict=True):
        similarity = query @ page.T
        expected = (weights * similarity.max(axis=1)).mean() + backward * similarity.max(axis=0).mean()
        assert score == pytest.approx(expected, abs=1e-5)
        assert score == pytest.approx(two_way_score(weights[:, None] * query, page, backward=backward), abs=1e-5)
