"""C spherical k-means centroids a page (paper section 3.2): other pages, their order and threads change no bit.

:func:`page_centroids` works on the products of a page's rows with each other, n x n numbers. From them come the
first centers of 16 clusters (each the row that helps all rows of the page most, given those before it; nothing is
random), the rounds of k-means, and which clusters are merged where fewer are wanted. The rows are needed once more, for
the sums at the end.

numpy and its BLAS may add in another order where shapes differ or threads share a product. So a page is padded to its
own multiple of 16 rows, only pages of equal padded size share a call, and products go in pieces too small for threads.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_LLOYD_ROUNDS = 8
_TILE = 16
_START = 16
"""Clusters that fewer are merged from: they then serve the rows better than by k-means of so few, and for less work."""
_PIECE = 2**18
"""Multiplications up to which OpenBLAS leaves a product to one thread."""
_WINDOW = 2**23
"""Numbers of the page vectors within which pages of equal padded size are looked for."""
_BLOCK = 2**20
"""Numbers (rows and their products) that pages in one call may have: some second-level caches of a core."""

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


def page_centroids(vectors: NDArray[np.floating], offsets: Ints, count: int) -> PageCentroids:
    """Spherical k-means of every page.

    Parameters
    ----------
    vectors : float16 or float32, shape (rows, d), the pages one after another; may be a memory map. Lengths do not
        matter: k-means looks at directions.
    offsets : int64, shape (P + 1,), rows of page k are ``offsets[k]:offsets[k + 1]``, none empty
    count : C >= 1; a page with no more vectors than C keeps them all, at unit length

    Raises
    ------
    ValueError
        a page without vectors, or a C below 1

    Examples
    --------
    >>> page = np.array([[1, 0], [0.96, 0.28], [0, 2], [-0.28, 0.96]], dtype=np.float32)
    >>> found = page_centroids(page, np.array([0, 4]), 2)
    >>> (100 * found.rows).round().astype(int).tolist(), found.sizes.tolist()
    ([[99, 14], [-14, 99]], [2, 2])
    """
    lengths = np.diff(offsets)
    if len(lengths) and lengths.min() < 1:
        raise ValueError(f"page {int(lengths.argmin())} has no vector; empty pages are refused when an index is built")
    if count < 1:
        raise ValueError(f"a page cannot have {count} centroids")
    found, start = _room_for(np.minimum(lengths, count), vectors.shape[1]), max(count, _START)
    for pages, block in _blocks(vectors, offsets):
        for some in (block.lengths <= start).nonzero()[0], (block.lengths > start).nonzero()[0]:
            if len(some):
                part = block if len(some) == len(pages) else block.some(some)
                _put(found, pages[some], part, _clusters(part, start, count), count)
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
    read = np.asarray(vectors)  # Without what numpy does at every access to a memory map.
    lengths = np.diff(offsets)
    padded = -(-lengths // _TILE) * _TILE
    while first < len(lengths):
        last = int(np.searchsorted(offsets, offsets[first] + _WINDOW // dim, side="right")) - 1
        last = min(max(last, first + 1), len(lengths))
        for size in np.unique(padded[first:last]):
            pages = first + np.flatnonzero(padded[first:last] == size)
            step = max(1, _BLOCK // int(size * (size + dim)))
            for some in (pages[at : at + step] for at in range(0, len(pages), step)):
                rows = np.zeros((len(some), size, dim), np.float32)
                for place, (start, stop) in enumerate(zip(offsets[some], offsets[some + 1], strict=True)):
                    rows[place, : stop - start] = read[start:stop]
                rows = _unit(rows)
                # Copied, or numpy sees a product of a matrix with itself and calls another routine for some shapes.
                products = _product(rows, rows.transpose(0, 2, 1).copy())
                yield some, _Block(lengths[some], rows, products)
        first = last


def _clusters(block: _Block, start: int, count: int) -> NDArray[np.intp]:
    """The cluster of each row, shape (B, n), -1 in the padding; no cluster is empty.

    ``start`` clusters (or as many as there are rows, where no page has more) are merged until ``count`` are left: each
    time the two that lose least, in the sum over all rows of their cosine to the centroid.
    """
    if block.lengths.max() <= start:
        nearest = np.where(block.valid, np.arange(block.rows.shape[1]), -1)
    else:
        nearest = _k_means(block, _first_centers(block, start))
    weights = (nearest[:, :, None] == np.arange(start)).astype(np.float32)
    alive = weights.any(axis=1)
    # Products of the sums of the clusters; the length of a sum is the sum of the cosines to its direction.
    products = _product(weights.transpose(0, 2, 1), _product(block.products, weights))
    lengths = _root(np.einsum("bcc->bc", products))
    loss = _loss(lengths[:, :, None], lengths[:, None, :], products)
    loss[~(alive[:, :, None] & alive[:, None, :]) | np.eye(start, dtype=bool)] = np.inf
    for left in range(start - 1, count - 1, -1):
        merging = np.flatnonzero(alive.sum(axis=1) > left)
        pair = np.divmod(loss[merging].reshape(len(merging), start * start).argmin(axis=1), start)
        one, other = np.minimum(*pair), np.maximum(*pair)
        alive[merging, other] = False
        nearest[merging] = np.where(nearest[merging] == other[:, None], one[:, None], nearest[merging])
        products[merging, one] += products[merging, other]
        products[merging, :, one] += products[merging, :, other]
        lengths[merging, one] = _root(products[merging, one, one])
        fresh = _loss(lengths[merging, one][:, None], lengths[merging], products[merging, one])
        fresh[~alive[merging]] = np.inf
        loss[merging, one] = loss[merging, :, one] = fresh
        loss[merging, other] = loss[merging, :, other] = loss[merging, one, one] = np.inf
    return np.where(nearest >= 0, np.take_along_axis(alive.cumsum(axis=1) - 1, nearest, axis=1), -1)


def _loss(one: Floats, other: Floats, products: Floats) -> Floats:
    """What merging two clusters loses, by the lengths of their sums and the product of these."""
    return one + other - _root(one * one + other * other + 2 * products)


def _root(squared: Floats) -> Floats:
    """Square root; what rounding took below zero counts as zero."""
    root: Floats = np.sqrt(np.maximum(squared, 0))
    return root


def _put(into: PageCentroids, pages: NDArray[np.intp], block: _Block, nearest: NDArray[np.intp], count: int) -> None:
    """Centroids and sizes of at most ``count`` clusters a page into their places among those of all pages."""
    member = nearest[:, :, None] == np.arange(count)
    sizes = member.sum(axis=1, dtype=np.int32)
    sums = _product(member.astype(np.float32).transpose(0, 2, 1), block.rows)
    # Rows that cancel each other have no mean direction: one of them stands for all.
    for page, cluster in zip(*np.nonzero((sums * sums).sum(axis=2) < 1e-10), strict=True):
        rows = block.rows[page, nearest[page] == cluster]
        if len(rows):
            sums[page, cluster] = rows[rows.any(axis=1).argmax()]
    real = sizes > 0
    places = (into.offsets[pages, None] + np.arange(count))[real]
    into.rows[places], into.sizes[places] = _unit(sums)[real], sizes[real]


def _first_centers(block: _Block, count: int) -> NDArray[np.intp]:
    """Rows to begin with, shape (B, count), of pages with more rows.

    Greedily, those that raise the mean best similarity of the rows of the page most.
    """
    pages = np.arange(len(block.rows))
    best = np.full(block.rows.shape[:2], -2, np.float32)
    chosen = np.empty((len(pages), count), np.intp)
    raised = np.empty_like(block.products)
    for turn in range(count):
        np.maximum(block.products, best[:, :, None], out=raised)
        gain = raised.sum(axis=1)
        gain[~block.valid] = -np.inf
        chosen[:, turn] = gain.argmax(axis=1)
        np.maximum(best, block.products[pages, chosen[:, turn]], out=best)
    return chosen


def _k_means(block: _Block, first_centers: NDArray[np.intp]) -> NDArray[np.intp]:
    """The cluster of each row, shape (B, n), -1 in the padding, of pages with more rows than clusters."""
    valid, clusters = block.valid, np.arange(first_centers.shape[1])
    similarity = block.products[np.arange(len(valid))[:, None], first_centers].transpose(0, 2, 1)
    before: NDArray[np.intp] | None = None
    for _ in range(_LLOYD_ROUNDS):
        nearest: NDArray[np.intp] = similarity.argmax(axis=2)
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
    return nearest


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


def _unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    length = np.sqrt((rows * rows).sum(axis=-1, keepdims=True))
    unit: NDArray[np.float32] = rows / np.maximum(length, 1e-12)
    return unit
