"""C spherical k-means centroids a page (paper section 3.2): other pages, their order and threads change no bit.

:func:`all_page_centroids` works on the products of a page's rows with each other, n x n numbers. From them come the
first centers (each the row that helps all rows of the page most, given those before it: no random numbers, and
the first 4 of 16 are those of C = 4) and all rounds of k-means; the rows are needed once more, for the sums at the end.

numpy and its BLAS may add in another order where shapes differ or threads share a product. So a page is padded to its
own multiple of 16 rows, only pages of equal padded size share a call, and products go in pieces too small for threads.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_ROUNDS = 12
_LLOYD_ROUNDS = 8
_TILE = 16
_PIECE = 2**18
"""Multiplications up to which OpenBLAS leaves a product to one thread."""
_READ_AT_ONCE = 2**23
"""Numbers of the page vectors that are held as float32."""
_BLOCK = 2**20
"""Numbers (rows and their products) that pages in one call may have: about the second-level cache of a core."""

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class PageCentroids:
    """Centroids of many pages, flat.

    Attributes
    ----------
    rows : float32, shape (total, d), of unit length, the centroids of the pages one after another. Means of unit
        vectors are shorter than 1, and the more so the more diverse a region is; left so, such regions would be ranked
        down. Only where all vectors of a cluster are zero is its centroid zero.
    offsets : int64, shape (P + 1,); page k has the rows ``offsets[k]:offsets[k + 1]``, min(C, n) of them
    sizes : int32, shape (total,), how many of the page's vectors each centroid stands for, at least 1
    """

    rows: Floats
    offsets: Ints
    sizes: NDArray[np.int32]


def all_page_centroids(
    vectors: NDArray[np.floating], offsets: Ints, counts: Sequence[int]
) -> tuple[PageCentroids, ...]:
    """Spherical k-means of every page, for one or several C at once.

    Parameters
    ----------
    vectors : float16 or float32, shape (rows, d), the pages one after another; may be a memory map. Lengths do not
        matter: k-means looks at directions.
    offsets : int64, shape (P + 1,), rows of page k are ``offsets[k]:offsets[k + 1]``, none empty
    counts : each C >= 1; a page with no more vectors than C keeps them all, at unit length

    Returns
    -------
    one :class:`PageCentroids` for each of ``counts``, in their order

    Raises
    ------
    ValueError
        a page without vectors, or a C below 1

    Examples
    --------
    >>> page = np.array([[1, 0], [0.96, 0.28], [0, 2], [-0.28, 0.96]], dtype=np.float32)
    >>> (found,) = all_page_centroids(page, np.array([0, 4]), [2])
    >>> (100 * found.rows).round().astype(int).tolist(), found.sizes.tolist()
    ([[99, 14], [-14, 99]], [2, 2])
    """
    lengths = np.diff(offsets)
    if len(lengths) and lengths.min() < 1:
        raise ValueError(f"page {int(lengths.argmin())} has no vector; empty pages are refused when an index is built")
    if min(counts, default=1) < 1:
        raise ValueError(f"a page cannot have {min(counts)} centroids")
    found = tuple(_room_for(np.minimum(lengths, count), vectors.shape[1]) for count in counts)
    for pages, block in _blocks(vectors, offsets):
        first_centers = _first_centers(block, max(counts))
        for count, into in zip(counts, found, strict=True):
            short = np.flatnonzero(block.lengths <= count)
            for page, at in zip(short, into.offsets[pages[short]], strict=True):
                into.rows[at : at + block.lengths[page]] = block.rows[page, : block.lengths[page]]
            if len(short) < len(pages):
                long = np.flatnonzero(block.lengths > count)
                places = into.offsets[pages[long], None] + np.arange(count)
                part = block if not len(short) else block.some(long)
                into.rows[places], into.sizes[places] = _clusters(part, first_centers[long, :count])
    return found


@dataclass(frozen=True)
class _Block:
    """B pages of equal padded size n.

    Attributes
    ----------
    lengths : int64, shape (B,), vectors of each page before padding
    rows : float32, shape (B, n, d), of unit length; zero in the padding
    products : float32, shape (B, n, n), of the rows of a page with each other
    """

    lengths: Ints
    rows: Floats
    products: Floats

    @property
    def valid(self) -> NDArray[np.bool_]:
        """Which rows are not padding, shape (B, n)."""
        return np.arange(self.rows.shape[1]) < self.lengths[:, None]

    def some(self, pages: NDArray[np.intp]) -> _Block:
        """Only these pages of the block."""
        return _Block(self.lengths[pages], self.rows[pages], self.products[pages])


def _room_for(kept: Ints, dim: int) -> PageCentroids:
    offsets = np.concatenate([[0], np.cumsum(kept)]).astype(np.int64)
    total = int(offsets[-1])
    return PageCentroids(np.empty((total, dim), np.float32), offsets, np.ones(total, np.int32))


def _blocks(vectors: NDArray[np.floating], offsets: Ints) -> Iterator[tuple[NDArray[np.intp], _Block]]:
    """Page numbers and their block, all pages once; reads ``vectors`` from front to back."""
    dim, first = vectors.shape[1], 0
    lengths = np.diff(offsets)
    padded = -(-lengths // _TILE) * _TILE
    while first < len(lengths):
        last = int(np.searchsorted(offsets, offsets[first] + _READ_AT_ONCE // dim, side="right")) - 1
        last = min(max(last, first + 1), len(lengths))
        begins = offsets - offsets[first]
        read = _unit(vectors[offsets[first] : offsets[last]].astype(np.float32))
        for size in np.unique(padded[first:last]):
            pages = first + np.flatnonzero(padded[first:last] == size)
            step = max(1, _BLOCK // int(size * (size + dim)))
            for some in (pages[at : at + step] for at in range(0, len(pages), step)):
                rows = np.zeros((len(some), size, dim), np.float32)
                for place, (start, stop) in enumerate(zip(begins[some], begins[some + 1], strict=True)):
                    rows[place, : stop - start] = read[start:stop]
                # Copied, or numpy sees a product of a matrix with itself and calls another routine for some shapes.
                products = _product(rows, rows.transpose(0, 2, 1).copy())
                yield some, _Block(lengths[some], rows, products)
        first = last


def _first_centers(block: _Block, count: int) -> NDArray[np.intp]:
    """Rows to begin with, shape (B, count): greedily those that raise the mean best similarity of the page most."""
    pages = np.arange(len(block.rows))
    # Padding and rows chosen before never, zero rows only where no other is left.
    handicap = np.where(block.valid, np.float32(0), np.float32(-np.inf))
    handicap[block.valid & ~block.rows.any(axis=2)] = -1e30
    best = np.full(block.rows.shape[:2], -2, np.float32)
    chosen = np.zeros((len(pages), count), np.intp)
    raised = np.empty_like(block.products)
    for turn in range(min(count, block.rows.shape[1])):
        np.maximum(block.products, best[:, :, None], out=raised)
        chosen[:, turn] = (raised.sum(axis=1) + handicap).argmax(axis=1)
        handicap[pages, chosen[:, turn]] = -np.inf
        np.maximum(best, block.products[pages, chosen[:, turn]], out=best)
    return chosen


def _clusters(block: _Block, first_centers: NDArray[np.intp]) -> tuple[Floats, NDArray[np.int32]]:
    """Unit centroids, shape (B, C, d), and sizes of the clusters, shape (B, C), of pages with more than C rows."""
    valid, clusters = block.valid, np.arange(first_centers.shape[1])
    similarity = block.products[np.arange(len(valid))[:, None], first_centers].transpose(0, 2, 1)
    before: NDArray[np.intp] | None = None
    for _ in range(_LLOYD_ROUNDS):
        nearest = similarity.argmax(axis=2)
        nearest[~valid] = -1
        member = nearest[:, :, None] == clusters
        sizes = member.sum(axis=1, dtype=np.int32)
        for page in np.flatnonzero((sizes == 0).any(axis=1)):
            _fill_empty(nearest[page], sizes[page], similarity[page])
            member[page] = nearest[page][:, None] == clusters
        # A page that changes no more stays as it is, so waiting for the others of its block does it nothing.
        if before is not None and np.array_equal(nearest, before):
            break
        before = nearest
        weights = member.astype(np.float32)
        similarity = _product(block.products, weights)
        squared = (similarity * weights).sum(axis=1)
        similarity /= np.sqrt(np.maximum(squared, 1e-12))[:, None]
    sums = _product(weights.transpose(0, 2, 1), block.rows)
    # Rows that cancel each other have no mean direction: one of them stands for all.
    for page, cluster in zip(*np.nonzero((sums * sums).sum(axis=2) < 1e-10), strict=True):
        rows = block.rows[page, nearest[page] == cluster]
        sums[page, cluster] = rows[rows.any(axis=1).argmax()]
    return _unit(sums), sizes


def _fill_empty(nearest: NDArray[np.intp], sizes: NDArray[np.int32], similarity: Floats) -> None:
    """Give each empty cluster of a page the row that is served worst and is not alone in its cluster, in place."""
    rows = np.flatnonzero(nearest >= 0)
    served = similarity[rows, nearest[rows]]
    for cluster in np.flatnonzero(sizes == 0):
        worst = rows[np.where(sizes[nearest[rows]] > 1, served, np.inf).argmin()]
        sizes[nearest[worst]] -= 1
        nearest[worst], sizes[cluster] = cluster, 1


def _product(left: Floats, right: Floats) -> Floats:
    """``left @ right`` of each page, (B, m, k) and (B, k, p) to (B, m, p), in pieces that one thread computes.

    How it is cut depends on m, k and p alone.
    """
    if left.shape[1] == 1:  # A matrix times a vector is another routine of BLAS, with threads of its own.
        return _product(np.repeat(left, 2, axis=1), right)[:, :1]
    if right.shape[2] == 1:
        return _product(left, np.repeat(right, 2, axis=2))[:, :, :1]
    batch, m, k = left.shape
    p = right.shape[2]
    tile = _TILE if m % _TILE == 0 else m
    pieces = min(-(-tile * k * p // _PIECE), p // 2)
    out = np.empty((batch, m // tile, tile, p), np.float32)
    tiles = left.reshape(batch, m // tile, tile, k)
    cuts = np.linspace(0, p, pieces + 1).astype(int)
    for start, stop in itertools.pairwise(cuts):
        np.matmul(tiles, right[:, None, :, start:stop], out=out[..., start:stop])
    return out.reshape(batch, m, p)


def page_centroids(vectors: NDArray[np.float32], count: int, seed: int) -> NDArray[np.float32]:
    """Unit centroids of one page's vectors under cosine similarity.

    Parameters
    ----------
    vectors : float32, shape (n, d), unit rows
    count : C; a page with fewer vectors keeps them all as its centroids
    seed : together with the page alone decides the result, so pages can be added in any order

    Returns
    -------
    float32, shape (min(C, n), d), unit rows. Means of unit vectors are shorter than 1, and the more
    so the more diverse a region is; without re-normalizing, such regions would be ranked down.
    """
    n = len(vectors)
    if n <= count:
        return vectors.astype(np.float32, copy=True)
    rng = np.random.default_rng(seed)
    centers = vectors[_spread_out(vectors, count, rng)]
    for _ in range(_ROUNDS):
        nearest = (vectors @ centers.T).argmax(axis=1)
        sums = np.zeros_like(centers)
        np.add.at(sums, nearest, vectors)
        empty = np.bincount(nearest, minlength=count) == 0
        if empty.any():
            # An empty cell takes the vector that is served worst.
            worst = np.argsort((vectors * centers[nearest]).sum(axis=1))[: int(empty.sum())]
            sums[empty] = vectors[worst]
        fresh = _unit(sums)
        if np.allclose(fresh, centers, atol=1e-6):
            break
        centers = fresh
    return centers.astype(np.float32)


def _spread_out(vectors: NDArray[np.float32], count: int, rng: np.random.Generator) -> list[int]:
    """k-means++ seeding under cosine distance."""
    chosen = [int(rng.integers(len(vectors)))]
    distance = 1.0 - vectors @ vectors[chosen[0]]
    for _ in range(count - 1):
        weight = np.clip(distance, 0.0, None).astype(np.float64)
        total = weight.sum()
        pick = int(rng.choice(len(vectors), p=weight / total)) if total > 0 else int(rng.integers(len(vectors)))
        chosen.append(pick)
        distance = np.minimum(distance, 1.0 - vectors @ vectors[pick])
    return chosen


def _unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    length = np.sqrt((rows * rows).sum(axis=-1, keepdims=True))
    unit: NDArray[np.float32] = rows / np.maximum(length, 1e-12)
    return unit
