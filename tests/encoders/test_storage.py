from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from medvrag_core.encoders.minilm import unit_rows
from medvrag_core.encoders.storage import pack, unpack
from medvrag_core.index.maxsim import two_way_score

rows = hnp.arrays(
    np.float32,
    hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=40),
    elements=st.floats(-1, 1, width=32, allow_subnormal=False),
).map(unit_rows)


@given(rows)
def test_float32_gives_back_what_was_given(vectors: NDArray[np.float32]) -> None:
    assert np.array_equal(unpack(pack(vectors, "float32")), vectors)


@given(rows)
def test_float16_is_off_by_its_last_bit(vectors: NDArray[np.float32]) -> None:
    stored = pack(vectors, "float16")
    assert stored.vectors.nbytes == vectors.nbytes // 2
    # 2^-25 is half of the smallest step that there is near zero.
    assert (np.abs(unpack(stored) - vectors) <= np.abs(vectors) * 2**-11 + 2**-25).all()


@given(rows)
def test_int8_is_off_by_half_a_step_of_its_row(vectors: NDArray[np.float32]) -> None:
    stored = pack(vectors, "int8")
    assert stored.vectors.dtype == np.int8 and stored.vectors.min() >= -127
    assert stored.scales is not None and stored.scales.shape == (len(vectors),)
    bound = np.abs(vectors).max(axis=1, keepdims=True) / 254
    assert (np.abs(unpack(stored) - vectors) <= bound * (1 + 1e-4)).all()
    assert np.array_equal(unpack(stored) == 0, stored.vectors == 0)


@given(rows, st.integers(0, 2**32 - 1))
def test_scores_move_by_no_more_than_the_stored_entries_allow(vectors: NDArray[np.float32], seed: int) -> None:
    dim = vectors.shape[1]
    query = unit_rows(np.random.default_rng(seed).normal(size=(5, dim)).astype(np.float32))
    exact = two_way_score(query, vectors)
    # A maximum moves by no more than what is under it, so each half of the score by no more than one product.
    product = np.sqrt(dim) * float(np.abs(vectors).max()) / 254
    assert abs(two_way_score(query, unpack(pack(vectors, "int8"))) - exact) <= 2 * product + 1e-5
    assert abs(two_way_score(query, unpack(pack(vectors, "float16"))) - exact) <= 2 * (np.sqrt(dim) * 2**-11) + 1e-5


def test_int8_of_typical_rows_is_much_closer_than_its_bound() -> None:
    rng = np.random.default_rng(0)
    pages = [unit_rows(rng.normal(size=(103, 128)).astype(np.float32)) for _ in range(20)]
    query = unit_rows(rng.normal(size=(15, 128)).astype(np.float32))
    moved = [two_way_score(query, unpack(pack(p, "int8"))) - two_way_score(query, p) for p in pages]
    assert max(map(abs, moved)) < 1e-3


@pytest.mark.parametrize("storage", ["float32", "float16", "int8"])
def test_a_row_of_zeros_stays_one(storage: str) -> None:
    vectors = np.zeros((2, 3), dtype=np.float32)
    assert np.array_equal(unpack(pack(vectors, storage)), vectors)  # type: ignore[arg-type]
