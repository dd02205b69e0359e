"""Late-interaction scores: the paper's two-way mean of maxima, with true lengths.

For a query of m token vectors and a page of n patch vectors (paper section 3.2)::

    S(q, p) = 1/m sum_i max_j q_i . v_j  +  1/n sum_j max_i q_i . v_j

No padding ever enters a maximum, so negative similarities count as they are. Two things go beyond the paper, and
change nothing where they are not used: a query vector may have another length than 1, which is its weight in the first
sum (the second looks at directions alone), and the second sum may count for less (``backward``).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_ROWS_AT_ONCE = 262_144


def two_way_score(query: NDArray[np.float32], page: NDArray[np.float32], *, backward: float = 1.0) -> float:
    """S(q, p) of one page, the plain reference that all other kernels are tested against.

    Parameters
    ----------
    query : float array of shape (m, d), m >= 1
    page : float array of shape (n, d), n >= 1
    backward : weight of the second sum (paper: 1)

    Examples
    --------
    >>> q = np.array([[1.0, 0.0]], dtype=np.float32)
    >>> round(two_way_score(q, np.array([[-0.6, 0.8]], dtype=np.float32)), 6)
    -1.2
    """
    forward = (query @ page.T).max(axis=1).mean()
    return float(forward + backward * patch_scores(query, page).mean())


def score_pages(
    query: NDArray[np.float32], vectors: NDArray[np.float32], offsets: NDArray[np.int64], *, backward: float = 1.0
) -> NDArray[np.float32]:
    """S(q, p) of every page of a flat store.

    Parameters
    ----------
    query : float32, shape (m, d)
    vectors : float32, shape (rows, d), the pages one after another
    offsets : int64, shape (N + 1,), rows of page k are ``offsets[k]:offsets[k + 1]``, none empty
    backward : weight of the second sum (paper: 1)

    Returns
    -------
    float32, shape (N,)
    """
    if not backward:
        return one_way_score_pages(query, vectors, offsets)
    forward, other = _both_ways(query, vectors, offsets)
    return forward + np.float32(backward) * other


def one_way_score_pages(
    query: NDArray[np.float32], vectors: NDArray[np.float32], offsets: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Only the first half of S: mean over query tokens of their best vector (classic MaxSim / m)."""
    return _both_ways(query, vectors, offsets, only_forward=True)[0]


def _both_ways(
    query: NDArray[np.float32],
    vectors: NDArray[np.float32],
    offsets: NDArray[np.int64],
    *,
    only_forward: bool = False,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    pages = len(offsets) - 1
    lengths = np.diff(offsets)
    if pages and lengths.min() < 1:
        raise ValueError(f"page {int(lengths.argmin())} has no vector; empty pages are refused when an index is built")
    forward = np.empty(pages, dtype=np.float32)
    backward = np.zeros(pages, dtype=np.float32)
    weights = row_weights(query)
    first = 0
    while first < pages:
        # As many whole pages as fit: bounded memory whatever the size of the store.
        last = int(np.searchsorted(offsets, offsets[first] + _ROWS_AT_ONCE, side="right")) - 1
        last = min(max(last, first + 1), pages)
        starts = (offsets[first:last] - offsets[first]).astype(np.intp)
        similarity = query @ vectors[offsets[first] : offsets[last]].T
        forward[first:last] = np.maximum.reduceat(similarity, starts, axis=1).mean(axis=0)
        if not only_forward:
            similarity /= weights[:, None]
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
    """Best similarity of each vector of a page to any query row, whatever their weights, shape (n,)."""
    best: NDArray[np.float32] = ((query @ page.T) / row_weights(query)[:, None]).max(axis=0)
    return best


def row_weights(query: NDArray[np.float32]) -> NDArray[np.float32]:
    """Lengths of the rows of a query, shape (m,); 1 for a row of zeros, which matches nothing.

    >>> row_weights(np.array([[0.6, 0.8], [3.0, 4.0], [0.0, 0.0]], dtype=np.float32)).round(4).tolist()
    [1.0, 5.0, 1.0]
    """
    lengths = np.linalg.norm(query, axis=1)
    weights: NDArray[np.float32] = np.where(lengths > 0, lengths, 1).astype(np.float32)
    return weights
