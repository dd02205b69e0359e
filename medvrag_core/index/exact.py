"""Exhaustive search over vectors in memory: the reference for every mode of the index."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from medvrag_core.index.base import PageIndex
from medvrag_core.index.maxsim import score_pages
from medvrag_core.index.ranking import check_query, ranked_hits
from medvrag_core.records import SearchResult, StageTime


class ExactIndex(PageIndex):
    """Scores all pages of a flat store.

    Parameters
    ----------
    page_ids : N page ids
    vectors : float32, shape (rows, d)
    offsets : int64, shape (N + 1,)
    backward : weight of the second half of S
    """

    def __init__(
        self,
        page_ids: Sequence[str],
        vectors: NDArray[np.float32],
        offsets: NDArray[np.int64],
        *,
        backward: float = 1.0,
    ) -> None:
        self.page_ids = np.array(page_ids)
        self.vectors = vectors
        self.offsets = offsets
        self.backward = backward

    def search(self, query: NDArray[np.float32], k: int) -> SearchResult:
        """See :class:`PageIndex`; the one step is ``exact``."""
        check_query(query, self.vectors.shape[1])
        start = time.perf_counter()
        scores = score_pages(query, self.vectors, self.offsets, backward=self.backward)
        hits = ranked_hits(self.page_ids, scores, k)
        seconds = time.perf_counter() - start
        return SearchResult(hits=hits, times=(StageTime(step="exact", seconds=seconds),), proved=True)
