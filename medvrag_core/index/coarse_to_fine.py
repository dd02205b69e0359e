"""The paper's Stage 1: ANN over page centroids, coarse rank, fine score on a shortlist.

The paper gives C = 8 and the three steps; how the query meets the ANN, the coarse formula and
R are not stated. Ours: every query token fetches its nearest centroids, a page's coarse score is
the mean over query tokens of its best centroid (the first half of S, on centroids), and the R best
pages are scored as in mode ``exact``. All are settings.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medvrag_core.encoders.shards import starts
from medvrag_core.index.ann_device import ann_device, on_device
from medvrag_core.index.coded_index import CodedIndex, IndexedPages
from medvrag_core.index.coded_pages import Places, Scores
from medvrag_core.index.maxsim import gather_pages, one_way_score_pages
from medvrag_core.index.ranking import best_places, check_query
from medvrag_core.index.segments import Segment
from medvrag_core.records import StageTime
from medvrag_core.settings import IndexSettings

FLAT_BELOW = 50_000
HNSW_LINKS = 32


@dataclass(frozen=True)
class Centroids:
    """C centroids a page.

    Attributes
    ----------
    vectors : float32, shape (total, d), those of page k are ``offsets[k]:offsets[k + 1]``
    offsets : int64, shape (N + 1,)
    """

    vectors: NDArray[np.float32]
    offsets: NDArray[np.int64]

    @classmethod
    def of(cls, segments: Sequence[Segment], dim: int) -> Centroids:
        """Those of some segments, one after another, in memory, as their codes have them."""
        counts = np.concatenate([segment.counts for segment in segments])
        return cls(np.concatenate([segment.centroid_vectors()[:, :dim] for segment in segments]), starts(counts))


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


class CoarseToFineIndex(CodedIndex):
    """ANN over centroids -> coarse rank -> S(q, p) of the shortlist.

    Parameters
    ----------
    pages : as in every mode
    centroids : of all N pages
    ann : FAISS index of the CPU over their vectors with inner product
    settings : neighbors, R, and the device that the ANN is put on
    """

    def __init__(self, pages: IndexedPages, centroids: Centroids, ann: Any, settings: IndexSettings) -> None:
        super().__init__(pages)
        self._centroids = centroids
        self._page_of_centroid = np.repeat(np.arange(len(pages.coded)), np.diff(centroids.offsets))
        self._can_be_found = np.zeros(len(pages.coded), dtype=bool)
        self._can_be_found[pages.places] = True
        # A file made under other settings may hold an HNSW, which stays where it is.
        self.device = "cpu" if "HNSW" in type(ann).__name__ else ann_device(settings)
        set_effort(ann, settings)
        self.ann = on_device(ann, self.device)
        self.settings = settings

    def explain(self, query: NDArray[np.float32]) -> ShortlistScores:
        """Coarse and exact scores side by side, for figures; not the fast path."""
        check_query(query, self.pages.dim)
        places = self._touched(query)
        coarse = self._coarse_scores(query, places)
        ids = np.array([self.pages.page_ids[place] for place in places])
        order = np.lexsort((ids, -coarse))
        exact = self.pages.exact_scores(query, places[order])
        return ShortlistScores(tuple(map(str, ids[order])), coarse[order], exact)

    def _shortlist(self, query: NDArray[np.float32]) -> tuple[Places, list[StageTime]]:
        clock = [time.perf_counter()]
        places = self._touched(query)
        clock.append(time.perf_counter())
        places = places[best_places(self._coarse_scores(query, places), self.settings.shortlist)]
        clock.append(time.perf_counter())
        return places, [
            StageTime(step="ann", seconds=clock[1] - clock[0]),
            StageTime(step="coarse", seconds=clock[2] - clock[1]),
        ]

    def _touched(self, query: NDArray[np.float32]) -> Places:
        neighbors = min(self.settings.ann_neighbors, len(self._centroids.vectors))
        _, found = self.ann.search(np.ascontiguousarray(query, dtype=np.float32), neighbors)
        # FAISS fills up with -1 where it found fewer.
        pages = np.unique(self._page_of_centroid[found[found >= 0]])
        return np.asarray(pages[self._can_be_found[pages]])

    def _coarse_scores(self, query: NDArray[np.float32], places: Places) -> Scores:
        if not len(places):
            return np.zeros(0, dtype=np.float32)
        return one_way_score_pages(query, *gather_pages(self._centroids.vectors, self._centroids.offsets, places))


def make_ann(centroids: NDArray[np.float32], settings: IndexSettings) -> Any:
    """FAISS inner-product index of the CPU over the centroids: flat, HNSW or IVF, as :func:`ann_kind` says.

    Parameters
    ----------
    centroids : float32, shape (total, d)
    """
    import faiss

    dim, total = centroids.shape[1], len(centroids)
    kind = ann_kind(total, settings)
    index: Any
    if kind == "flat":
        index = faiss.IndexFlatIP(dim)
    elif kind == "hnsw":
        index = faiss.IndexHNSWFlat(dim, HNSW_LINKS, faiss.METRIC_INNER_PRODUCT)
    else:
        cells = max(1, min(total // 39, int(4 * np.sqrt(total))))
        index = faiss.index_factory(dim, f"IVF{cells},Flat", faiss.METRIC_INNER_PRODUCT)
        index.cp.seed = settings.seed
        index.train(centroids)
    index.add(centroids)
    return index


def set_effort(ann: Any, settings: IndexSettings) -> None:
    """How far a search goes, on an index of the CPU; exhaustive ones have nothing to set."""
    kind = type(ann).__name__
    if "HNSW" in kind:
        ann.hnsw.efSearch = settings.ann_effort or max(64, settings.ann_neighbors)
    elif "IVF" in kind:
        ann.nprobe = min(settings.ann_effort or max(1, ann.nlist // 16), ann.nlist)


def ann_kind(centroids: int, settings: IndexSettings) -> str:
    """``flat``, ``hnsw`` or ``ivf``; ``auto`` is flat for few centroids and on a GPU."""
    if settings.ann != "auto":
        return settings.ann
    return "flat" if centroids < FLAT_BELOW or ann_device(settings) != "cpu" else "hnsw"
