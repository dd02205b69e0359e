"""Scores of stored vectors against the product of matrices that they stand for."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_index import made_rows

from medvrag_core.encoders.storage import Stored, pack, unpack
from medvrag_core.index.kernels.machine_code import assembly
from medvrag_core.index.kernels.vector_scores import scores_text, vector_scores
from medvrag_core.index.maxsim import score_pages

STORAGES = ("float32", "float16", "int8")


def asked(seed: int, rows: int, dim: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    query = rng.normal(size=(rows, dim)) * rng.uniform(0.2, 2, size=(rows, 1))
    return query.astype(np.float32)


def part(stored: Stored, rows: slice) -> Stored:
    return Stored(stored.vectors[rows], None if stored.scales is None else stored.scales[rows])


@settings(max_examples=60, deadline=None)  # the first example compiles
@given(
    st.integers(0, 999),
    st.lists(st.integers(1, 40), min_size=1, max_size=6),
    st.integers(1, 50),
    st.sampled_from([1, 16, 33, 128]),
    st.sampled_from(STORAGES),
    st.sampled_from([0.0, 0.3, 1.0]),
)
def test_scores_are_those_of_the_reference(
    seed: int, lengths: list[int], rows: int, dim: int, storage: str, backward: float
) -> None:
    vectors, offsets = made_rows(seed, lengths, dim)
    stored, query = pack(vectors, storage), asked(seed + 1, rows, dim)
    wanted = score_pages(query, unpack(stored), offsets, backward=backward)
    assert np.allclose(vector_scores(query, stored, offsets, backward=backward), wanted, rtol=1e-5, atol=1e-5)


@settings(max_examples=30, deadline=None)  # the first example compiles
@given(st.integers(0, 999), st.lists(st.integers(1, 40), min_size=2, max_size=6), st.integers(1, 40))
def test_a_page_gets_the_same_bits_in_any_company(seed: int, lengths: list[int], rows: int) -> None:
    vectors, offsets = made_rows(seed, lengths, 24)
    query = asked(seed + 1, rows, 24)
    for storage in STORAGES:
        stored = pack(vectors, storage)
        together = vector_scores(query, stored, offsets)
        for k, (a, b) in enumerate(pairwise(offsets)):
            alone = vector_scores(query, part(stored, slice(a, b)), np.array([0, b - a]))
            assert alone[0] == together[k]


def test_bc23_nothing_but_the_vectors_of_a_page_is_in_a_maximum() -> None:
    """Width 2 is filled up to 16, one query row to 16 lanes; neither wins over negative similarities."""
    page, query = np.array([[-0.6, 0.8]], dtype=np.float32), np.array([[1.0, 0.0]], dtype=np.float32)
    assert vector_scores(query, Stored(page), np.array([0, 1]))[0] == pytest.approx(-1.2)


def test_a_query_row_of_zeros_matches_nothing() -> None:
    query = np.array([[0.0, 0.0], [0.0, -1.0]], dtype=np.float32)
    page = np.array([[0.0, 1.0]], dtype=np.float32)
    wanted = score_pages(query, page, np.array([0, 1]))
    assert vector_scores(query, Stored(page), np.array([0, 1])) == pytest.approx(wanted)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize(
    ("triple", "cpu"),
    [
        ("x86_64-unknown-linux-gnu", "haswell"),
        ("aarch64-unknown-linux-gnu", "neoverse-n1"),
        ("arm64-apple-macosx", "apple-m1"),
    ],
)
def test_it_compiles_for_other_processors_without_calls_into_a_library(storage: str, triple: str, cpu: str) -> None:
    """Such as that for half precision on processors that cannot read it, which would not be found."""
    text = assembly(scores_text(storage, 5), triple=triple, cpu=cpu)
    assert "vector_scores" in text
    assert "extendhf" not in text
    assert "fmax" not in text.replace("fmaxnm", "")


def test_halves_are_widened_where_the_processor_cannot_read_them(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, offsets = made_rows(0, [5, 20], 32)
    stored, query = pack(vectors, "float16"), asked(1, 7, 32)
    read = vector_scores(query, stored, offsets)
    monkeypatch.setattr("medvrag_core.index.kernels.vector_scores.reads_halves", lambda: False)
    assert np.array_equal(vector_scores(query, stored, offsets), read)
