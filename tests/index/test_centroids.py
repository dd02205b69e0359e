"""Spherical k-means of many pages: what centroids are, that they are good, and that nothing but their page counts."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medvrag_core.index.centroids import PageCentroids, page_centroids

LENGTHS = st.lists(st.integers(1, 70), min_size=1, max_size=12)
COUNTS = (1, 4, 8, 16)


def made_pages(lengths: list[int], d: int = 32, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Unit rows around some six directions a page."""
    rng = np.random.default_rng(seed)
    parts = [rng.normal(size=(6, d))[rng.integers(6, size=n)] + 0.7 * rng.normal(size=(n, d)) for n in lengths]
    rows = np.concatenate(parts)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows.astype(np.float32), np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def centroids_of(found: PageCentroids, page: int) -> np.ndarray:
    return found.rows[found.offsets[page] : found.offsets[page + 1]]


def sizes_of(found: PageCentroids, page: int) -> np.ndarray:
    return found.sizes[found.offsets[page] : found.offsets[page + 1]]


def served(rows: np.ndarray, centers: np.ndarray) -> float:
    """Mean cosine of rows to their nearest center."""
    return float((rows @ centers.T).max(axis=1).mean())


def one_page(rows: np.ndarray, count: int) -> PageCentroids:
    return page_centroids(np.asarray(rows, dtype=np.float32), np.array([0, len(rows)]), count)


def of_each_count(vectors: np.ndarray, offsets: np.ndarray) -> tuple[PageCentroids, ...]:
    return tuple(page_centroids(vectors, offsets, count) for count in COUNTS)


def digest(found: tuple[PageCentroids, ...], page: int) -> list[bytes]:
    return [part.tobytes() for one in found for part in (centroids_of(one, page), sizes_of(one, page))]


@settings(max_examples=40, deadline=None)
@given(LENGTHS, st.integers(0, 10**6))
def test_unit_rows_as_many_as_asked_and_all_vectors_counted(lengths: list[int], seed: int) -> None:
    vectors, offsets = made_pages(lengths, seed=seed)
    for count, found in zip(COUNTS, of_each_count(vectors, offsets), strict=True):
        assert np.diff(found.offsets).tolist() == [min(count, n) for n in lengths]
        assert found.rows.dtype == np.float32
        np.testing.assert_allclose(np.linalg.norm(found.rows, axis=1), 1, atol=1e-5)
        assert found.sizes.min() >= 1
        assert [int(sizes_of(found, page).sum()) for page in range(len(lengths))] == lengths


@settings(max_examples=40, deadline=None)
@given(LENGTHS, st.sampled_from([3, 32, 129]), st.randoms(use_true_random=False))
def test_a_page_alone_or_among_others_in_any_order_is_the_same_to_the_last_bit(
    lengths: list[int], d: int, shuffler: random.Random
) -> None:
    vectors, offsets = made_pages(lengths, d)
    pages = [vectors[a:b] for a, b in itertools.pairwise(offsets)]
    together = of_each_count(vectors, offsets)
    order = list(range(len(pages)))
    shuffler.shuffle(order)
    moved = np.concatenate([[0], np.cumsum([lengths[k] for k in order])])
    shuffled = of_each_count(np.concatenate([pages[k] for k in order]), moved)
    for place, page in enumerate(order):
        alone = of_each_count(pages[page].copy(), np.array([0, lengths[page]]))
        assert digest(together, page) == digest(shuffled, place) == digest(alone, 0)


@pytest.mark.parametrize(("pages", "n", "d"), [(90, 103, 128), (12, 20, 1024), (2, 700, 128)])
def test_large_batches_change_no_bit(pages: int, n: int, d: int) -> None:
    vectors, offsets = made_pages([n] * pages, d)
    together = of_each_count(vectors, offsets)
    for page in (0, pages // 2, pages - 1):
        alone = of_each_count(vectors[offsets[page] : offsets[page + 1]], np.array([0, n]))
        assert digest(together, page) == digest(alone, 0)


def test_threads_change_no_bit() -> None:
    program = """
import hashlib, sys
import numpy as np
from medvrag_core.index.centroids import page_centroids
rng, digest = np.random.default_rng(0), hashlib.sha256()
for lengths, d in (([103] * 40 + [7, 1, 140], 128), ([24, 20, 5], 1024), ([900, 333], 128), ([50], 1100)):
    rows = rng.normal(size=(sum(lengths), d)).astype(np.float32)
    for count in (1, 4, 8, 16):
        one = page_centroids(rows, np.concatenate([[0], np.cumsum(lengths)]), count)
        digest.update(one.rows.tobytes() + one.sizes.tobytes())
print(digest.hexdigest())
"""
    printed = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "OPENBLAS_NUM_THREADS": threads},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for threads in ("1", "2")
    }
    assert len(printed) == 1


def test_pages_across_several_reads_of_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, offsets = made_pages([30, 5, 60, 31, 1, 9, 44])
    whole = of_each_count(vectors, offsets)
    monkeypatch.setattr("medvrag_core.index.centroids._WINDOW", 32 * 40)
    monkeypatch.setattr("medvrag_core.index.centroids._BLOCK", 1)
    pieces = of_each_count(vectors, offsets)
    assert [digest(whole, page) for page in range(7)] == [digest(pieces, page) for page in range(7)]


def test_a_page_with_few_vectors_keeps_them_at_unit_length() -> None:
    rows = np.array([[3, 0, 0], [0, 0.5, 0], [0, 0, 1]], dtype=np.float32)
    for count in (3, 8):
        found = one_page(rows, count)
        assert np.array_equal(found.rows, np.eye(3))
        assert found.sizes.tolist() == [1, 1, 1]


def test_sixteen_centroids_are_the_means_of_the_vectors_nearest_to_them() -> None:
    """The fixed point of k-means. Few pages of this kind take more rounds than are allowed."""
    vectors, offsets = made_pages([140] * 40, d=8)
    found = page_centroids(vectors, offsets, 16)
    settled = 0
    for page in range(40):
        rows, centers = vectors[offsets[page] : offsets[page + 1]], centroids_of(found, page)
        nearest = (rows @ centers.T).argmax(axis=1)
        sums = np.stack([rows[nearest == k].sum(axis=0) for k in range(16)])
        sums /= np.linalg.norm(sums, axis=1, keepdims=True)
        same_sizes = np.array_equal(np.bincount(nearest, minlength=16), sizes_of(found, page))
        settled += same_sizes and bool(np.allclose(sums, centers, atol=1e-5))
    assert settled >= 36


def merged(rows: np.ndarray, count: int) -> list[list[int]]:
    """Clusters of one row each, merged two at a time in the plainest form, so that the least of the sum
    of the rows' cosines to their centroids (which is the sum of the lengths of the sums) is lost."""
    clusters = [[k] for k in range(len(rows))]

    def served_by_own(some: list[int]) -> float:
        return float(np.linalg.norm(rows[some].sum(axis=0)))

    while len(clusters) > count:
        pairs = itertools.combinations(range(len(clusters)), 2)
        one, other = min(
            pairs,
            key=lambda pair: (
                served_by_own(clusters[pair[0]])
                + served_by_own(clusters[pair[1]])
                - served_by_own(clusters[pair[0]] + clusters[pair[1]])
            ),
        )
        clusters[one] += clusters.pop(other)
    return clusters


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 16), min_size=1, max_size=4), st.integers(1, 15), st.integers(0, 10**6))
def test_merging_is_as_in_its_plainest_form(lengths: list[int], count: int, seed: int) -> None:
    vectors, offsets = made_pages(lengths, seed=seed)
    found = page_centroids(vectors, offsets, count)
    for page in range(len(lengths)):
        rows = vectors[offsets[page] : offsets[page + 1]].astype(np.float64)
        clusters = merged(rows, count)
        means = np.stack([rows[some].sum(axis=0) for some in clusters])
        means /= np.linalg.norm(means, axis=1, keepdims=True)
        np.testing.assert_allclose(centroids_of(found, page), means, atol=1e-5)
        assert sizes_of(found, page).tolist() == [len(some) for some in clusters]


def test_vectors_are_served_better_than_by_k_means_from_random_rows() -> None:
    lengths = [103] * 60
    vectors, offsets = made_pages(lengths, d=64, seed=4)
    rng = np.random.default_rng(0)
    for count in (4, 8, 16):
        found = page_centroids(vectors, offsets, count)
        ours, theirs = [], []
        for page in range(len(lengths)):
            rows = vectors[offsets[page] : offsets[page + 1]]
            ours.append(served(rows, centroids_of(found, page)))
            theirs.append(served(rows, plain_k_means(rows, rows[rng.choice(len(rows), count, replace=False)])))
        assert np.mean(ours) > np.mean(theirs) + 0.002


def plain_k_means(rows: np.ndarray, centers: np.ndarray, rounds: int = 12) -> np.ndarray:
    """Spherical k-means in its plainest form; an empty cluster keeps its center."""
    for _ in range(rounds):
        nearest = (rows @ centers.T).argmax(axis=1)
        means = [rows[nearest == k].mean(axis=0) if (nearest == k).any() else c for k, c in enumerate(centers)]
        centers = np.stack(means)
        centers /= np.linalg.norm(centers, axis=1, keepdims=True)
    return centers


def test_separate_clusters_are_found_with_their_sizes() -> None:
    rng = np.random.default_rng(0)
    rows = np.repeat(np.eye(40)[:5], [10, 20, 30, 3, 7], axis=0) + rng.normal(scale=0.01, size=(70, 40))
    found = one_page(rng.permutation(rows), 5)
    cluster = found.rows[:, :5].argmax(axis=1)
    assert found.rows[np.arange(5), cluster].min() > 0.99
    assert dict(zip(cluster.tolist(), found.sizes.tolist(), strict=True)) == {0: 10, 1: 20, 2: 30, 3: 3, 4: 7}


def test_opposite_and_negative_directions_are_not_lost_to_the_padding() -> None:
    """Every row but its own is at a negative cosine, where a row of zeros, as in the padding, would be the best."""
    simplex = np.eye(17) - 1 / 17
    found = one_page(simplex, 16)
    assert sorted(found.sizes.tolist()) == [1] * 15 + [2]
    assert served(simplex / np.linalg.norm(simplex, axis=1, keepdims=True), found.rows) > 0.9


def test_length_of_the_vectors_does_not_matter() -> None:
    rows, _ = made_pages([50])
    scaled = rows * 2.0 ** np.random.default_rng(1).integers(-3, 4, size=(50, 1))
    np.testing.assert_allclose(one_page(scaled, 8).rows, one_page(rows, 8).rows, atol=1e-6)


@pytest.mark.parametrize("n", [9, 20, 33])
def test_identical_vectors_still_fill_all_clusters(n: int) -> None:
    found = one_page(np.tile([0.6, 0.8], (n, 1)), 8)
    np.testing.assert_allclose(found.rows, np.tile([0.6, 0.8], (8, 1)), atol=1e-6)
    assert found.sizes.min() >= 1
    assert found.sizes.sum() == n


def test_rows_of_zeros_make_no_nan_and_are_no_centers() -> None:
    rows, _ = made_pages([40])
    rows[::3] = 0
    found = one_page(rows, 8)
    np.testing.assert_allclose(np.linalg.norm(found.rows, axis=1), 1, atol=1e-5)
    assert not one_page(np.zeros((20, 4)), 8).rows.any()
    assert not one_page(np.zeros((2, 4)), 8).rows.any()


def test_vectors_that_cancel_each_other_are_stood_for_by_one_of_them() -> None:
    found = one_page(np.array([[0, 0], [0.6, 0.8], [-0.6, -0.8]]), 1)
    np.testing.assert_allclose(found.rows, [[0.6, 0.8]], atol=1e-6)
    assert found.sizes.tolist() == [3]


def test_float16_and_memory_maps_are_read(tmp_path: Path) -> None:
    vectors, offsets = made_pages([20, 50, 3])
    np.save(tmp_path / "v.npy", vectors.astype(np.float16))
    stored = np.load(tmp_path / "v.npy", mmap_mode="r")
    ours = page_centroids(stored, offsets, 4)
    theirs = page_centroids(vectors.astype(np.float16).astype(np.float32), offsets, 4)
    assert ours.rows.tobytes() == theirs.rows.tobytes()


def test_bad_input_is_refused() -> None:
    vectors, _ = made_pages([5])
    with pytest.raises(ValueError, match="page 1 has no vector"):
        page_centroids(vectors, np.array([0, 3, 3, 5]), 4)
    with pytest.raises(ValueError, match="0 centroids"):
        page_centroids(vectors, np.array([0, 5]), 0)
    none = page_centroids(vectors[:0], np.array([0]), 4)
    assert none.rows.shape == (0, 32)
