"""Late-interaction scores: the paper's two-way mean of maxima, with true lengths.

For a query of m token vectors and a page of n patch vectors (paper section 3.2)::

    S(q, p) = 1/m sum_i max_j q_i . v_j  +  1/n sum_j max_i q_i . v_j

No padding ever enters a maximum, so negative similarities count as they are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_ROWS_AT_ONCE = 262_144


def two_way_score(query: NDArray[np.float32], page: NDArray[np.float32]) -> float:
    """S(q, p) of one page, the plain reference that all other kernels are tested against.

    Parameters
    ----------
    query : float array of shape (m, d), m >= 1
    page : float array of shape (n, d), n >= 1

    Examples
    --------
    >>> q = np.array([[1.0, 0.0]], dtype=np.float32)
    >>> round(two_way_score(q, np.array([[-0.6, 0.8]], dtype=np.float32)), 6)
    -1.2
    """
    similarity = query @ page.T
    return float(similarity.max(axis=1).mean() + similarity.max(axis=0).mean())


def score_pages(
    query: NDArray[np.float32], vectors: NDArray[np.float32], offsets: NDArray[np.int64]
) -> NDArray[np.float32]:
    """S(q, p) of every page of a flat store.

    Parameters
    ----------
    query : float32, shape (m, d)
    vectors : float32, shape (rows, d), the pages one after another
    offsets : int64, shape (N + 1,), rows of page k are ``offsets[k]:offsets[k + 1]``, none empty

    Returns
    -------
    float32, shape (N,)
    """
    forward, backward = _both_ways(query, vectors, offsets)
    return forward + backward


def one_way_score_pages(
    query: NDArray[np.float32], vectors: NDArray[np.float32], offsets: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Only the first half of S: mean over query tokens of their best vector (classic MaxSim / m)."""
    return _both_ways(query, vectors, offsets)[0]


def _both_ways(
    query: NDArray[np.float32], vectors: NDArray[np.float32], offsets: NDArray[np.int64]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    pages = len(offsets) - 1
    lengths = np.diff(offsets)
    if pages and lengths.min() < 1:
        raise ValueError(f"page {int(lengths.argmin())} has no vector; empty pages are refused when an index is built")
    forward = np.empty(pages, dtype=np.float32)
    backward = np.empty(pages, dtype=np.float32)
    first = 0
    while first < pages:
        # As many whole pages as fit: bounded memory whatever the size of the store.
        last = int(np.searchsorted(offsets, offsets[first] + _ROWS_AT_ONCE, side="right")) - 1
        last = min(max(last, first + 1), pages)
        starts = (offsets[first:last] - offsets[first]).astype(np.intp)
        similarity = query @ vectors[offsets[first] : offsets[last]].T
        forward[first:last] = np.maximum.reduceat(similarity, starts, axis=1).mean(axis=0)
        backward[first:last] = np.add.reduceat(similarity.max(axis=0), starts) / lengths[first:last]
        first = last
    return forward, backward


def gather_pages(
    vectors: NDArray[np.float32], offsets: NDArray[np.int64], pages: NDArray[np.int64]
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Flat vectors and offsets of the chosen ``pages`` only, in the order given."""
    lengths = np.diff(offsets)[pages]
    inner = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    rows = np.repeat(offsets[pages] - inner[:-1], lengths) + np.arange(inner[-1])
    return vectors[rows], inner


def patch_scores(query: NDArray[np.float32], page: NDArray[np.float32]) -> NDArray[np.float32]:
    """Best similarity of each patch to any query token, shape (n,): what a page heatmap shows."""
    best: NDArray[np.float32] = (query @ page.T).max(axis=0)
    return best
