from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medvrag_core.encoders.pooling import pool_by_factor, pool_vectors


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


@settings(deadline=None, max_examples=40)
@given(patches=st.integers(1, 60), factor=st.integers(1, 9), seed=st.integers(0, 1000))
def test_by_a_factor_clusters_are_those_of_the_matrix_of_similarities(patches: int, factor: int, seed: int) -> None:
    from scipy.cluster.hierarchy import fcluster, linkage

    vectors = made_page(patches, seed)
    pooled = pool_by_factor(vectors, factor)
    if factor == 1 or patches == 1:
        assert np.allclose(pooled.vectors, vectors, atol=1e-6)
        return
    tree = linkage(1 - vectors @ vectors.T, method="ward", metric="euclidean")
    labels = fcluster(tree, max(1, patches // factor), criterion="maxclust")
    pairs = set(zip(labels.tolist(), pooled.vector_of.tolist(), strict=True))
    assert len(pairs) == len(set(labels.tolist())) == len(pooled.vectors)


@pytest.mark.gpu_path
@pytest.mark.parametrize("factor", [1, 2, 7])
def test_by_a_factor_vectors_are_those_of_colpali_engine(factor: int) -> None:
    from tiny_models import need

    need("colpali_engine")
    import torch
    from colpali_engine.compression.token_pooling import HierarchicalTokenPooler

    vectors = made_page(200, 5)
    theirs = HierarchicalTokenPooler().pool_embeddings(
        [torch.from_numpy(vectors)], pool_factor=factor, return_dict=True
    )
    pooled = pool_by_factor(vectors, factor)
    if factor == 1:  # which they put into one cluster, though nothing is merged
        assert np.array_equal(theirs.pooled_embeddings[0].numpy(), vectors)
        assert np.allclose(pooled.vectors, vectors, atol=1e-6)
        return
    clusters = [indices[0].tolist() for indices in theirs.cluster_id_to_indices[0].values() if len(indices[0])]
    ours = [np.flatnonzero(pooled.vector_of == row).tolist() for row in range(len(pooled.vectors))]
    assert sorted(clusters) == sorted(ours)
    order = [ours.index(cluster) for cluster in clusters]
    assert np.allclose(theirs.pooled_embeddings[0].numpy(), pooled.vectors[order], atol=1e-5)
