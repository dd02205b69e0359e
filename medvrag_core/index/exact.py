"""Exhaustive search: every page is scored with S(q, p). The reference for every other mode."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from medvrag_core.errors import MismatchError
from medvrag_core.index.base import PageIndex
from medvrag_core.index.maxsim import score_pages
from medvrag_core.records import Hit, SearchResult, StageTime


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
        return SearchResult(hits=hits, times=(StageTime(step="exact", seconds=time.perf_counter() - start),))


def check_query(query: NDArray[np.float32], dim: int) -> None:
    """Refuse a query that cannot have come from the encoder of this index."""
    if query.ndim != 2 or query.shape[0] == 0 or query.shape[1] != dim:
        raise MismatchError(
            f"the query has vectors of shape {query.shape}, the index holds vectors of width {dim}",
            way_out="search with the encoder that made the page vectors",
        )


def ranked_hits(page_ids: NDArray[np.str_], scores: NDArray[np.float32], k: int) -> tuple[Hit, ...]:
    """The ``k`` best pages by score, equal scores in order of page id.

    >>> [h.page_id for h in ranked_hits(np.array(["b", "a", "c"]), np.array([1, 1, 2], dtype=np.float32), 2)]
    ['c', 'a']
    """
    order = np.lexsort((page_ids, -scores))[:k]
    return tuple(
        Hit(page_id=str(page_ids[i]), score=float(scores[i]), rank=rank) for rank, i in enumerate(order, start=1)
    )
