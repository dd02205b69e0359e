"""Every pair of unit vectors above a cosine, exactly, without comparing all with all.

Every vector belongs to the cell of its nearest pivot (pivots come from k-means). Take x in the cell of P and y in the
cell of Q: x and y lie on either side of the plane in the middle between P and Q, so their distances to that plane are
together at most ``|x - y|``. Unit vectors of a cosine above c are closer than ``r = sqrt(2 - 2c)``; so of each such
pair one lies within ``r / 2`` of the plane. Vectors that do visit the other cell, and are compared with its members.
No pair is lost, whatever the pivots are; they decide the time alone.

How much is saved depends on the vectors; ``benchmarks/duplicates.py`` measures it. Where a count of the visits says
that nothing would be saved, all are compared with all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Rows = NDArray[np.int64]

_ROWS_AT_ONCE = 2_048
_CELLS_AT_ONCE = 128
_SCORES_AT_ONCE = 1 << 21
_FEW = 4_096
"""Vectors up to which all are compared with all."""
_CELLS_PER_ROOT = 6
_STEPS = 4  # of k-means
_SLACK = 1e-5
"""More than float32 can be wrong in a dot product of unit vectors; a score nearer to the threshold is computed anew."""


@dataclass(frozen=True)
class Cells:
    """Vectors in cells around pivots.

    Attributes
    ----------
    pivots : float32, shape (C, dim)
    offsets : float32, shape (C,), half the squared length of each pivot; ``v . pivot - offset`` is most for the nearest
    home : int64, shape (N,), cell of each vector
    score : float32, shape (N,), that number for the cell of each vector
    reach : float32, shape (C, C), how much less a vector of the first cell may score in the second and still visit it
    products : dot products of :func:`close_pairs` with these cells, the making of pivots not included
    """

    pivots: Floats
    offsets: Floats
    home: Rows
    score: Floats
    reach: Floats
    products: int


def close_pairs(vectors: Floats, threshold: float, cells: Cells | None = None) -> Iterator[tuple[Rows, Rows]]:
    """Rows ``first < second`` of every pair whose :func:`exact_cosines` is above ``threshold``, some pairs twice.

    Parameters
    ----------
    vectors : float32, shape (N, dim), rows of unit length; a row of zeros is close to none
    threshold : a cosine, from 0 to 1
    cells : of these vectors, made for this threshold; None: :func:`into_cells` makes them

    Yields
    ------
    tuple of arrays
        int64, of one shape; at most two million pairs at a time, so that memory does not depend on how many there are.

    Raises
    ------
    ValueError : ``threshold`` is not from 0 to 1
    """
    if not 0.0 <= threshold <= 1.0:
        raise ValueError(f"threshold {threshold} is not from 0 to 1")
    if not len(vectors):
        return
    found = into_cells(vectors, threshold) if cells is None else cells
    members = np.argsort(found.home, kind="stable")
    begins = np.searchsorted(found.home[members], np.arange(len(found.pivots) + 1))
    for first in range(0, len(found.pivots), _CELLS_AT_ONCE):
        last = min(first + _CELLS_AT_ONCE, len(found.pivots))
        guests, visited = _visits(vectors, found, first, last)
        bounds = np.searchsorted(visited, np.arange(first, last + 1))
        for cell in range(first, last):
            own = members[begins[cell] : begins[cell + 1]]
            yield from _among(vectors, own, threshold)
            yield from _between(vectors, own, guests[bounds[cell - first] : bounds[cell - first + 1]], threshold)


def into_cells(vectors: Floats, threshold: float, count: int | None = None) -> Cells:
    """Make cells, and count what comparing would cost; one cell if nothing were saved.

    Parameters
    ----------
    count : of cells, about; None: six times the root of N, and one up to a few thousand vectors
    """
    total = len(vectors)
    wanted = count if count is not None else (1 if total <= _FEW else int(_CELLS_PER_ROOT * math.sqrt(total)))
    if wanted > 1:
        found = _cells(vectors, _pivots(vectors, wanted), threshold)
        if count is not None or found.products < _all_with_all(total):
            return found
    one = np.zeros(1, dtype=np.float32)
    home = np.zeros(total, dtype=np.int64)
    return Cells(vectors[:1], one, home, np.zeros(total, dtype=np.float32), one[None], _all_with_all(total))


def _all_with_all(count: int) -> int:
    return count * (count + 1) // 2


def _cells(vectors: Floats, pivots: Floats, threshold: float) -> Cells:
    double = pivots.astype(np.float64)
    squares = (double * double).sum(axis=1)
    apart = np.sqrt(np.maximum(squares[:, None] + squares[None, :] - 2 * double @ double.T, 0.0))
    reach = (0.5 * math.sqrt(2 - 2 * threshold) * apart + _SLACK).astype(np.float32)
    offsets = (squares / 2).astype(np.float32)
    home, score = _nearest(vectors, pivots)
    visits = np.zeros(len(pivots), dtype=np.int64)
    for start in range(0, len(vectors), _ROWS_AT_ONCE):
        own = home[start : start + _ROWS_AT_ONCE]
        scores = vectors[start : start + len(own)] @ pivots.T - offsets
        visits += (score[start : start + len(own), None] - scores <= reach[own]).sum(axis=0)
    sizes = np.bincount(home, minlength=len(pivots))
    # A vector counts as a visitor of its own cell here. All scores of pivots are computed three times, see _visits.
    compared = int((sizes * (visits - sizes)).sum() + (sizes * (sizes + 1) // 2).sum())
    return Cells(pivots, offsets, home, score, reach, 3 * len(vectors) * len(pivots) + compared)


def _pivots(vectors: Floats, count: int) -> Floats:
    """About ``count`` pivots: the means of a k-means in two levels, which costs the root of ``count`` a vector."""
    coarse = _means_of_cells(vectors, max(1, math.isqrt(count)))
    home = _nearest(vectors, coarse)[0]
    fine = []
    for cell in range(len(coarse)):
        own = vectors[home == cell]
        fine.append(_means_of_cells(own, min(len(own), max(1, round(count * len(own) / len(vectors))))))
    return np.concatenate(fine)


def _means_of_cells(vectors: Floats, count: int) -> Floats:
    """K-means from evenly spaced rows; a mean that loses all its vectors stays where it was."""
    means = vectors[np.arange(count) * len(vectors) // max(count, 1)].copy()
    for _ in range(_STEPS if count < len(vectors) else 0):
        home = _nearest(vectors, means)[0]
        order = np.argsort(home, kind="stable")
        there, begins, sizes = np.unique(home[order], return_index=True, return_counts=True)
        means[there] = np.add.reduceat(vectors[order], begins, axis=0) / sizes[:, None]
    return means


def _nearest(vectors: Floats, pivots: Floats) -> tuple[Rows, Floats]:
    """Nearest pivot of each vector, and its score."""
    offsets = ((pivots.astype(np.float64) ** 2).sum(axis=1) / 2).astype(np.float32)
    home, score = np.empty(len(vectors), dtype=np.int64), np.empty(len(vectors), dtype=np.float32)
    for start in range(0, len(vectors), _ROWS_AT_ONCE):
        scores = vectors[start : start + _ROWS_AT_ONCE] @ pivots.T - offsets
        best = scores.argmax(axis=1)
        home[start : start + len(best)] = best
        score[start : start + len(best)] = scores[np.arange(len(best)), best]
    return home, score


def exact_cosines(vectors: Floats, first: Rows, second: Rows) -> NDArray[np.float64]:
    """Cosine of pairs of rows in double precision; one number a pair, whatever stands beside it and in either order."""
    # NumPy's own loop, not a matrix product: that one rounds by the shape of its operands.
    cosines: NDArray[np.float64] = (vectors[first].astype(np.float64) * vectors[second]).sum(axis=1)
    return cosines


def _visits(vectors: Floats, cells: Cells, first: int, last: int) -> tuple[Rows, Rows]:
    """Who visits the cells ``first`` to ``last - 1``, and which: rows and cells, in the order of the cells."""
    guests, visited = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    # Computed anew for some cells at a time: kept from _cells, visits would be most of what memory holds.
    for start in range(0, len(vectors) if len(cells.pivots) > 1 else 0, _ROWS_AT_ONCE):
        home = cells.home[start : start + _ROWS_AT_ONCE]
        scores = vectors[start : start + len(home)] @ cells.pivots[first:last].T - cells.offsets[first:last]
        near = cells.score[start : start + len(home), None] - scores <= cells.reach[home, first:last]
        inside = np.flatnonzero((home >= first) & (home < last))
        near[inside, home[inside] - first] = False
        who, where = _where(near)
        guests.append(who + start)
        visited.append(where + first)
    cell_of = np.concatenate(visited)
    order = np.argsort(cell_of, kind="stable")
    return np.concatenate(guests)[order], cell_of[order]


def _among(vectors: Floats, members: Rows, threshold: float) -> Iterator[tuple[Rows, Rows]]:
    own = vectors[members]
    step = max(1, min(_ROWS_AT_ONCE, _SCORES_AT_ONCE // max(1, len(members))))
    for start in range(0, len(members) - 1, step):
        scores = own[start : start + step] @ own[start:].T
        a, b = _where(scores > threshold - _SLACK)
        above = a < b
        a, b = a[above], b[above]
        yield _sure(vectors, members[a + start], members[b + start], scores[a, b], threshold)


def _between(vectors: Floats, members: Rows, guests: Rows, threshold: float) -> Iterator[tuple[Rows, Rows]]:
    if not len(members):
        return
    own = vectors[members].T
    step = max(1, _SCORES_AT_ONCE // len(members))
    for start in range(0, len(guests), step):
        some = guests[start : start + step]
        scores = vectors[some] @ own
        a, b = _where(scores > threshold - _SLACK)
        yield _sure(vectors, some[a], members[b], scores[a, b], threshold)


def _where(found: NDArray[np.bool_]) -> tuple[Rows, Rows]:
    """As ``np.nonzero``, which is many times slower than this on two dimensions."""
    row, column = np.divmod(np.flatnonzero(found.ravel()), found.shape[1])
    return row, column


def _sure(vectors: Floats, one: Rows, other: Rows, scores: Floats, threshold: float) -> tuple[Rows, Rows]:
    """The pairs that are above the threshold by their exact cosine, the smaller row first."""
    doubtful = np.flatnonzero(scores < threshold + _SLACK)
    above = np.ones(len(scores), dtype=np.bool_)
    above[doubtful] = exact_cosines(vectors, one[doubtful], other[doubtful]) > threshold
    one, other = one[above], other[above]
    return np.minimum(one, other), np.maximum(one, other)
