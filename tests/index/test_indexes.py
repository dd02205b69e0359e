from __future__ import annotations

import numpy as np
import pytest

from medvrag_core.errors import MismatchError
from medvrag_core.index.centroids import page_centroids
from medvrag_core.index.coarse_to_fine import CoarseToFineIndex, all_centroids, make_ann
from medvrag_core.index.exact import ExactIndex
from medvrag_core.settings import IndexSettings


def made_pages(pages: int, seed: int = 0, d: int = 16) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Pages around topics of their own, of 5 to 40 vectors, so that neighbors mean something."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(5, 41, size=pages)
    rows = np.concatenate([rng.normal(size=(1, d)) * 1.5 + rng.normal(size=(n, d)) for n in lengths])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return [f"doc{k // 4}#p{k % 4 + 1}" for k in range(pages)], rows.astype(np.float32), offsets


def paper_index(pages: int, settings: IndexSettings) -> tuple[CoarseToFineIndex, ExactIndex, np.ndarray, np.ndarray]:
    ids, vectors, offsets = made_pages(pages)
    centroids, centroid_offsets = all_centroids(vectors, offsets, settings.centroids, settings.seed)
    ann = make_ann(centroids, settings)
    index = CoarseToFineIndex(ids, vectors, offsets, centroids, centroid_offsets, ann, settings)
    return index, ExactIndex(ids, vectors, offsets), vectors, offsets


@pytest.mark.parametrize("ann", ["flat", "hnsw", "ivf"])
def test_a_page_finds_itself_in_every_mode(ann: str) -> None:
    settings = IndexSettings(ann=ann, ann_neighbors=50, shortlist=30)
    index, exact, vectors, offsets = paper_index(120, settings)
    for k in (0, 17, 119):
        query = vectors[offsets[k] : offsets[k + 1]]
        assert exact.search(query, 1).hits[0].page_id == exact.page_ids[k]
        assert index.search(query, 1).hits[0].page_id == exact.page_ids[k]


def test_a_full_shortlist_equals_exact_search() -> None:
    settings = IndexSettings(ann="flat", ann_neighbors=100_000, shortlist=10_000)
    index, exact, _, _ = paper_index(60, settings)
    query = made_pages(1, seed=9)[1][:4]
    assert index.search(query, 60).hits == exact.search(query, 60).hits


def test_recall_grows_with_the_shortlist() -> None:
    query = made_pages(1, seed=5)[1][:6]
    found = []
    for shortlist in (20, 60, 150):
        index, exact, _, _ = paper_index(150, IndexSettings(ann="flat", ann_neighbors=100_000, shortlist=shortlist))
        truth = {h.page_id for h in exact.search(query, 20).hits}
        found.append(len(truth & {h.page_id for h in index.search(query, 20).hits}))
    assert found == sorted(found)
    assert found[-1] == 20


def test_the_three_steps_are_timed() -> None:
    index, _, _, _ = paper_index(20, IndexSettings(ann="flat"))
    times = index.search(made_pages(1)[1][:3], 5).times
    assert [t.step for t in times] == ["ann", "coarse", "exact"]
    assert all(t.seconds >= 0 for t in times)


def test_equal_scores_are_ranked_by_page_id() -> None:
    row = np.array([[1.0, 0.0]], dtype=np.float32)
    index = ExactIndex(["b#p1", "a#p2", "a#p1"], np.repeat(row, 3, axis=0), np.array([0, 1, 2, 3]))
    assert [h.page_id for h in index.search(row, 3).hits] == ["a#p1", "a#p2", "b#p1"]


def test_a_query_of_another_width_is_refused() -> None:
    index = ExactIndex(["a#p1"], np.ones((1, 4), dtype=np.float32), np.array([0, 1]))
    with pytest.raises(MismatchError, match="width 4"):
        index.search(np.ones((2, 3), dtype=np.float32), 1)


def test_bc22_a_corpus_smaller_than_every_setting_works() -> None:
    index, _, vectors, _ = paper_index(3, IndexSettings())
    hits = index.search(vectors[:2], 2_000).hits
    assert len(hits) == 3
    assert len({h.page_id for h in hits}) == 3


class TestCentroids:
    def test_unit_length_count_and_seed(self) -> None:
        _, vectors, _ = made_pages(1, seed=3)
        a, b = page_centroids(vectors, 4, 1), page_centroids(vectors, 4, 1)
        assert a.shape == (4, 16)
        assert np.allclose(np.linalg.norm(a, axis=1), 1, atol=1e-5)
        assert np.array_equal(a, b)

    def test_a_short_page_keeps_its_vectors(self) -> None:
        rows = np.eye(3, dtype=np.float32)
        assert np.array_equal(page_centroids(rows, 8, 0), rows)

    def test_separate_clusters_are_found(self) -> None:
        rng = np.random.default_rng(0)
        centers = np.eye(4, dtype=np.float32)[:3]
        rows = np.repeat(centers, 10, axis=0) + rng.normal(scale=0.01, size=(30, 4)).astype(np.float32)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        found = page_centroids(rows, 3, 7)
        assert np.allclose(np.sort((found @ centers.T).max(axis=1)), 1, atol=1e-3)
        assert sorted((found @ centers.T).argmax(axis=1)) == [0, 1, 2]

    def test_identical_vectors_do_no_harm(self) -> None:
        rows = np.repeat(np.array([[0.6, 0.8]], dtype=np.float32), 20, axis=0)
        assert np.isfinite(page_centroids(rows, 8, 0)).all()
