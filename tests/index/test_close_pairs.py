"""The search for close pairs against a comparison of all with all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medvrag_core.encoders.minilm import unit_rows
from medvrag_core.index import close_pairs as module
from medvrag_core.index.close_pairs import close_pairs, exact_cosines, into_cells


def made_vectors(rng: np.random.Generator, count: int, dim: int, groups: int, spread: float) -> Any:
    """Rows around some directions, with copies, a zero row, and all of them on one side of space or not."""
    bases = unit_rows(rng.normal(size=(groups, dim)) + rng.choice([0.0, 2.0]))
    rows = unit_rows(bases[rng.integers(0, groups, count)] + spread * rng.normal(size=(count, dim)) / np.sqrt(dim))
    rows[rng.integers(0, count, count // 5)] = rows[0]
    rows[-1] = 0
    return rows.astype(np.float32)


def all_pairs(vectors: Any, threshold: float) -> set[tuple[int, int]]:
    one, two = np.triu_indices(len(vectors), 1)
    close = exact_cosines(vectors, one, two) > threshold
    return set(zip(one[close].tolist(), two[close].tolist(), strict=True))


def found_pairs(vectors: Any, threshold: float, cells: Any = None) -> set[tuple[int, int]]:
    found: set[tuple[int, int]] = set()
    for one, two in close_pairs(vectors, threshold, cells):
        assert (one < two).all()
        found |= set(zip(one.tolist(), two.tolist(), strict=True))
    return found


@settings(max_examples=120, deadline=None)
@given(
    count=st.integers(2, 120),
    dim=st.integers(2, 40),
    groups=st.integers(1, 12),
    spread=st.sampled_from([0.0, 0.1, 0.25, 0.5, 2.0]),
    threshold=st.sampled_from([0.0, 0.3, 0.8, 0.97, 0.999, 1.0]),
    cells=st.sampled_from([None, 1, 2, 5, 30, 200]),
    blocks=st.sampled_from([(3, 2, 7), (2_048, 128, 1 << 21)]),
    seed=st.integers(0, 2**32 - 1),
)
def test_pairs_are_those_of_comparing_all_with_all(
    count: int,
    dim: int,
    groups: int,
    spread: float,
    threshold: float,
    cells: int | None,
    blocks: tuple[int, int, int],
    seed: int,
) -> None:
    vectors = made_vectors(np.random.default_rng(seed), count, dim, groups, spread)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in zip(("_ROWS_AT_ONCE", "_CELLS_AT_ONCE", "_SCORES_AT_ONCE"), blocks, strict=True):
            patch.setattr(module, name, value)
        given_cells = None if cells is None else into_cells(vectors, threshold, cells)
        found = found_pairs(vectors, threshold, given_cells)
    assert found == all_pairs(vectors, threshold)


@pytest.mark.parametrize("dim", [8, 128])
def test_thousands_of_vectors_lose_no_pair_and_cost_less_than_all_with_all(dim: int) -> None:
    rng = np.random.default_rng(dim)
    vectors = unit_rows(rng.normal(size=(6_000, dim))).astype(np.float32)
    near = unit_rows(vectors[:500] + 0.24 * unit_rows(rng.normal(size=(500, dim)))).astype(np.float32)
    vectors[1_000:1_500] = near
    cells = into_cells(vectors, 0.97)
    assert len(cells.pivots) > 100
    assert cells.products < 6_000 * 6_000 / 2 * 0.8
    reference = set()
    for start in range(0, 6_000, 500):
        one, two = np.nonzero(vectors[start : start + 500] @ vectors.T > 0.96)
        one += start
        close = (one < two) & (exact_cosines(vectors, one, two) > 0.97)
        reference |= set(zip(one[close].tolist(), two[close].tolist(), strict=True))
    assert len(reference) > 400
    assert found_pairs(vectors, 0.97, cells) == reference


def test_where_cells_save_nothing_all_are_compared_with_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FEW", 10)
    vectors = unit_rows(np.random.default_rng(0).normal(size=(300, 100))).astype(np.float32)
    assert len(into_cells(vectors, 0.1).pivots) == 1
    assert into_cells(vectors, 0.1).products == 300 * 301 // 2
    assert found_pairs(vectors, 0.1) == all_pairs(vectors, 0.1)


def test_no_more_pairs_at_a_time_than_fit_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SCORES_AT_ONCE", 1_000)
    same = np.ones((400, 1), dtype=np.float32)
    sizes = [len(one) for one, _ in close_pairs(same, 0.97)]
    assert sum(sizes) == 400 * 399 // 2
    assert max(sizes) <= 1_000


def test_a_cosine_depends_on_the_two_vectors_alone() -> None:
    rng = np.random.default_rng(1)
    vectors = unit_rows(rng.normal(size=(50, 77))).astype(np.float32)
    one, two = np.triu_indices(50, 1)
    whole = exact_cosines(vectors, one, two)
    assert (exact_cosines(vectors, two, one) == whole).all()
    assert all(exact_cosines(vectors, one[k : k + 1], two[k : k + 1])[0] == whole[k] for k in range(0, len(one), 7))


def test_a_threshold_that_is_no_cosine_is_refused_and_no_vector_has_no_pair() -> None:
    with pytest.raises(ValueError, match="not from 0 to 1"):
        list(close_pairs(np.ones((2, 2), dtype=np.float32), -0.5))
    assert list(close_pairs(np.zeros((0, 4), dtype=np.float32), 0.97)) == []
