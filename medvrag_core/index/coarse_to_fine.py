"""The paper's Stage 1: ANN over page centroids, coarse rank, exact score on a shortlist.

The paper gives C = 8 and the three steps; how the query meets the ANN, the coarse formula and
R are not stated. Ours: every query token fetches its nearest centroids, a page's coarse score is
the mean over query tokens of its best centroid (the first half of S, on centroids), and the R best
pages are scored exactly. All are settings.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medvrag_core.index.ann_device import ann_device, on_device
from medvrag_core.index.base import PageIndex
from medvrag_core.index.centroids import page_centroids
from medvrag_core.index.exact import check_query, ranked_hits
from medvrag_core.index.maxsim import gather_pages, one_way_score_pages, score_pages
from medvrag_core.records import SearchResult, StageTime
from medvrag_core.settings import IndexSettings

FLAT_BELOW = 50_000
HNSW_LINKS = 32


@dataclass(frozen=True)
class ShortlistScores:
    """Both scores of every page that the ANN reached for one query.

    Attributes
    ----------
    page_ids : shape (P,), best coarse score first
    coarse : float32, shape (P,), mean over query tokens of the best centroid
    exact : float32, shape (P,), S(q, p)
    """

    page_ids: tuple[str, ...]
    coarse: NDArray[np.float32]
    exact: NDArray[np.float32]


class CoarseToFineIndex(PageIndex):
    """ANN over centroids -> coarse rank -> exact S(q, p) on the shortlist.

    Parameters
    ----------
    page_ids : N page ids
    vectors, offsets : flat page vectors as in :class:`~medvrag_core.index.exact.ExactIndex`
    centroids : float32, shape (total, d), centroids of the pages one after another
    centroid_offsets : int64, shape (N + 1,)
    ann : FAISS index of the CPU over ``centroids`` with inner product
    settings : C, neighbors, R, and the device that the ANN is put on
    """

    def __init__(
        self,
        page_ids: Sequence[str],
        vectors: NDArray[np.float32],
        offsets: NDArray[np.int64],
        centroids: NDArray[np.float32],
        centroid_offsets: NDArray[np.int64],
        ann: Any,
        settings: IndexSettings,
    ) -> None:
        self.page_ids = np.array(page_ids)
        self.vectors = vectors
        self.offsets = offsets
        self.centroids = centroids
        self.centroid_offsets = centroid_offsets
        self.page_of_centroid = np.repeat(np.arange(len(self.page_ids)), np.diff(centroid_offsets))
        # A file made under other settings may hold an HNSW, which stays where it is.
        self.ann_device = "cpu" if "HNSW" in type(ann).__name__ else ann_device(settings)
        self.ann = on_device(ann, self.ann_device)
        self.settings = settings

    def search(self, query: NDArray[np.float32], k: int) -> SearchResult:
        """See :class:`PageIndex`; the steps are ``ann``, ``coarse`` and ``exact`` (paper Table 2).

        At most R pages come back, fewer where the ANN reached fewer.
        """
        check_query(query, self.vectors.shape[1])
        clock = [time.perf_counter()]
        touched = self._touched(query)
        clock.append(time.perf_counter())
        shortlist = np.sort(self._coarse_order(query, touched)[0][: self.settings.shortlist])
        clock.append(time.perf_counter())
        exact = self._exact(query, shortlist)
        hits = ranked_hits(self.page_ids[shortlist], exact, k)
        clock.append(time.perf_counter())
        steps = ("ann", "coarse", "exact")
        return SearchResult(
            hits=hits,
            times=tuple(StageTime(step=s, seconds=b - a) for s, a, b in zip(steps, clock, clock[1:], strict=False)),
        )

    def explain(self, query: NDArray[np.float32]) -> ShortlistScores:
        """Coarse and exact scores side by side, for figures; not the fast path."""
        check_query(query, self.vectors.shape[1])
        order, coarse = self._coarse_order(query, self._touched(query))
        return ShortlistScores(tuple(map(str, self.page_ids[order])), coarse, self._exact(query, order))

    def _touched(self, query: NDArray[np.float32]) -> NDArray[np.int64]:
        neighbors = min(self.settings.ann_neighbors, len(self.centroids))
        _, found = self.ann.search(np.ascontiguousarray(query, dtype=np.float32), neighbors)
        pages: NDArray[np.int64] = np.unique(self.page_of_centroid[found[found >= 0]])
        return pages

    def _coarse_order(
        self, query: NDArray[np.float32], pages: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        coarse = one_way_score_pages(query, *gather_pages(self.centroids, self.centroid_offsets, pages))
        order = np.lexsort((self.page_ids[pages], -coarse))
        return pages[order], coarse[order]

    def _exact(self, query: NDArray[np.float32], pages: NDArray[np.int64]) -> NDArray[np.float32]:
        found = gather_pages(self.vectors, self.offsets, pages)
        return score_pages(query, *found, backward=self.settings.backward_weight)


def all_centroids(
    vectors: NDArray[np.float32], offsets: NDArray[np.int64], count: int, seed: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Centroids of every page, flat, with their offsets (shapes as in the class above)."""
    parts = [page_centroids(vectors[a:b], count, seed) for a, b in itertools.pairwise(offsets)]
    lengths = np.array([len(p) for p in parts], dtype=np.int64)
    return np.concatenate(parts), np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def make_ann(centroids: NDArray[np.float32], settings: IndexSettings) -> Any:
    """FAISS inner-product index of the CPU over the centroids: flat, HNSW or IVF; ``auto`` is flat for a GPU."""
    import faiss

    dim, total = centroids.shape[1], len(centroids)
    kind = settings.ann
    if kind == "auto":
        kind = "flat" if total < FLAT_BELOW or ann_device(settings) != "cpu" else "hnsw"
    index: Any
    if kind == "flat":
        index = faiss.IndexFlatIP(dim)
    elif kind == "hnsw":
        index = faiss.IndexHNSWFlat(dim, HNSW_LINKS, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efSearch = max(64, settings.ann_neighbors)
    else:
        cells = max(1, min(total // 39, int(4 * np.sqrt(total))))
        index = faiss.index_factory(dim, f"IVF{cells},Flat", faiss.METRIC_INNER_PRODUCT)
        index.cp.seed = settings.seed
        index.nprobe = max(1, cells // 16)
        index.train(centroids)
    index.add(centroids)
    return index
