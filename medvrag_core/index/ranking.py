"""From scores to ranked pages: the best of them, and equal ones in order of page id."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from medvrag_core.errors import MismatchError
from medvrag_core.records import Hit


def check_query(query: NDArray[np.float32], dim: int) -> None:
    """Refuse a query that cannot have come from the encoder of this index."""
    if query.ndim != 2 or query.shape[0] == 0 or query.shape[1] != dim:
        raise MismatchError(
            f"the query has vectors of shape {query.shape}, the index holds vectors of width {dim}",
            way_out="search with the encoder that made the page vectors",
        )
    if not np.isfinite(query).all():
        raise MismatchError("the query has entries that are not finite", way_out="check the weights of the encoder")


def best_places(scores: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    """Where the ``count`` largest scores are, ascending; more of them where scores equal the last one.

    >>> best_places(np.array([1, 3, 2, 2], dtype=np.float32), 2).tolist()
    [1, 2, 3]
    """
    if count >= len(scores):
        return np.arange(len(scores), dtype=np.int64)
    if count < 1:
        return np.zeros(0, dtype=np.int64)
    least = np.partition(scores, len(scores) - count)[len(scores) - count]
    return np.flatnonzero(scores >= least)


def ranked_hits(
    page_ids: Sequence[str] | NDArray[np.str_],
    scores: NDArray[np.float32],
    k: int,
    *,
    places: NDArray[np.int64] | None = None,
) -> tuple[Hit, ...]:
    """The ``k`` best pages by score, equal scores in order of page id.

    Parameters
    ----------
    page_ids : N ids
    scores : float32, shape (N,), or of the pages at ``places`` of ``page_ids`` alone

    Examples
    --------
    >>> [h.page_id for h in ranked_hits(["b", "a", "c"], np.array([1, 1, 2], dtype=np.float32), 2)]
    ['c', 'a']
    """
    best = best_places(scores, k)
    ids = np.array([page_ids[place] for place in (best if places is None else places[best])])
    order = np.lexsort((ids, -scores[best]))[:k]
    return tuple(
        Hit(page_id=str(ids[i]), score=float(scores[best[i]]), rank=rank) for rank, i in enumerate(order, start=1)
    )


def ranked_among(
    page_ids: Sequence[str] | NDArray[np.str_],
    scores: NDArray[np.float32],
    k: int,
    among: NDArray[np.int64] | None,
) -> tuple[Hit, ...]:
    """As :func:`ranked_hits` of all pages, but those whose places are not in ``among`` are left out; None: none is.

    >>> [h.page_id for h in ranked_among(["b", "a", "c"], np.array([1, 1, 2], dtype=np.float32), 2, np.array([0, 1]))]
    ['a', 'b']
    """
    return ranked_hits(page_ids, scores if among is None else scores[among], k, places=among)
