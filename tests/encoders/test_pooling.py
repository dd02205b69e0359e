from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medvrag_core.encoders.pooling import pool_vectors


def made_page(patches: int, seed: int) -> np.ndarray:
    vectors = np.random.default_rng(seed).standard_normal((patches, 16)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@settings(deadline=None)
@given(patches=st.integers(1, 60), at_most=st.integers(1, 70), seed=st.integers(0, 1000))
def test_every_patch_lies_in_one_cluster(patches: int, at_most: int, seed: int) -> None:
    vectors = made_page(patches, seed)
    pooled = pool_vectors(vectors, at_most)
    assert 1 <= len(pooled.vectors) <= min(at_most, patches)
    assert set(pooled.vector_of.tolist()) == set(range(len(pooled.vectors)))
    assert np.allclose(np.linalg.norm(pooled.vectors, axis=1), 1, atol=1e-5)
    firsts = [int(np.flatnonzero(pooled.vector_of == k)[0]) for k in range(len(pooled.vectors))]
    assert firsts == sorted(firsts)


def test_a_small_page_is_left_as_it_is() -> None:
    vectors = made_page(7, 0)
    pooled = pool_vectors(vectors, 7)
    assert np.allclose(pooled.vectors, vectors, atol=1e-6)
    assert pooled.vector_of.tolist() == list(range(7))


def test_copies_of_three_patches_are_found_again() -> None:
    vectors = made_page(3, 1)
    pooled = pool_vectors(np.tile(vectors, (5, 1)), 3)
    assert pooled.vector_of.tolist() == [0, 1, 2] * 5
    assert np.allclose(pooled.vectors, vectors, atol=1e-5)


def test_opposite_patches_do_not_cancel_out() -> None:
    vectors = np.array([[1, 0], [-1, 0]], dtype=np.float32)
    pooled = pool_vectors(vectors, 1)
    assert np.linalg.norm(pooled.vectors[0]) == pytest.approx(1)


def test_nothing_cannot_be_pooled() -> None:
    with pytest.raises(ValueError, match="cannot pool 0 vectors"):
        pool_vectors(np.zeros((0, 4), dtype=np.float32), 5)
