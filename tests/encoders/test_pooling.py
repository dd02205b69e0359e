from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medvrag_core.encoders.pooling import pool_vectors


def made_page(patches: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((patches, 16)).astype(np.float32)
    corners = np.sort(rng.random((patches, 2, 2)), axis=1).reshape(patches, 4).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True), corners


@settings(deadline=None)
@given(patches=st.integers(1, 60), at_most=st.integers(1, 70), seed=st.integers(0, 1000))
def test_every_patch_lies_in_one_cluster_whose_box_holds_it(patches: int, at_most: int, seed: int) -> None:
    vectors, boxes = made_page(patches, seed)
    pooled = pool_vectors(vectors, boxes, at_most)
    assert 1 <= len(pooled.vectors) <= min(at_most, patches)
    assert set(pooled.cluster_of.tolist()) == set(range(len(pooled.vectors)))
    assert np.allclose(np.linalg.norm(pooled.vectors, axis=1), 1, atol=1e-5)
    hull = pooled.boxes[pooled.cluster_of]
    assert (hull[:, :2] <= boxes[:, :2]).all() and (hull[:, 2:] >= boxes[:, 2:]).all()
    firsts = [int(np.flatnonzero(pooled.cluster_of == k)[0]) for k in range(len(pooled.vectors))]
    assert firsts == sorted(firsts)


def test_a_small_page_is_left_as_it_is() -> None:
    vectors, boxes = made_page(7, 0)
    pooled = pool_vectors(vectors, boxes, 7)
    assert np.allclose(pooled.vectors, vectors, atol=1e-6)
    assert (pooled.boxes == boxes).all()


def test_copies_of_three_patches_are_found_again() -> None:
    vectors, boxes = made_page(3, 1)
    pooled = pool_vectors(np.tile(vectors, (5, 1)), np.tile(boxes, (5, 1)), 3)
    assert pooled.cluster_of.tolist() == [0, 1, 2] * 5
    assert np.allclose(pooled.vectors, vectors, atol=1e-5)


def test_opposite_patches_do_not_cancel_out() -> None:
    vectors = np.array([[1, 0], [-1, 0]], dtype=np.float32)
    pooled = pool_vectors(vectors, np.zeros((2, 4), dtype=np.float32), 1)
    assert np.linalg.norm(pooled.vectors[0]) == pytest.approx(1)


def test_nothing_cannot_be_pooled() -> None:
    with pytest.raises(ValueError, match="cannot pool 0 vectors"):
        pool_vectors(np.zeros((0, 4), dtype=np.float32), np.zeros((0, 4), dtype=np.float32), 5)
