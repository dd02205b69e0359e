"""Pages and queries as whole numbers of one byte, laid out as the kernels read them.

A vector is kept as ``scale * (code - 128)``, with one scale for all vectors of a page: only this page decides over its
codes. How far each page is off is stored beside them, which gives a bound on every score (:func:`score_bounds`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medvrag_core.encoders.shards import starts as starts_of
from medvrag_core.index.kernels.text import LANES
from medvrag_core.index.maxsim import row_weights

_LARGEST = 127
_AT_ONCE = 2**19
ZERO = 128
"""The code that stands for 0."""
GROUP = 4
"""Dimensions whose products one instruction adds up."""


@dataclass(frozen=True)
class PageCodes:
    """Pages in blocks of 16 vectors, the last vector of a page repeated until its last block is full.

    Attributes
    ----------
    codes : uint8, shape (blocks, groups, 16, 4), where group g holds dimensions 4 g to 4 g + 3
    starts : int64, shape (P + 1,), blocks of page k are ``starts[k]:starts[k + 1]``
    rows : int32, shape (P,), vectors of each page
    scales : float32, shape (P,)
    errors : float32, shape (P,), largest distance of a vector from its coded one
    norms : float32, shape (P,), largest length of a coded vector
    """

    codes: NDArray[np.uint8]
    starts: NDArray[np.int64]
    rows: NDArray[np.int32]
    scales: NDArray[np.float32]
    errors: NDArray[np.float32]
    norms: NDArray[np.float32]


@dataclass(frozen=True)
class PlacedCodes:
    """Where the codes of pages lie in memory, so that one call of a kernel scores pages of many segments.

    Attributes
    ----------
    parts : codes of pages, one after another
    begins : int64, shape (P,), address of the first block of each page
    rows, scales : as in :class:`PageCodes`, of all parts
    """

    parts: Sequence[PageCodes]
    begins: NDArray[np.int64]
    rows: NDArray[np.int32]
    scales: NDArray[np.float32]

    @classmethod
    def of(cls, parts: Sequence[PageCodes]) -> PlacedCodes:
        """All pages of at least one part, numbered through."""
        return cls(
            parts,
            np.concatenate([part.codes.ctypes.data + part.starts[:-1] * part.codes.strides[0] for part in parts]),
            np.concatenate([part.rows for part in parts]),
            np.concatenate([part.scales for part in parts]),
        )

    @cached_property
    def at(self) -> tuple[int, ...]:
        """Addresses of begins, rows and scales."""
        return addresses(self.begins, self.rows, self.scales)


@dataclass(frozen=True)
class TileCodes:
    """Pages side by side, 16 in a tile, each of the same number of vectors at most.

    Attributes
    ----------
    codes : uint8, shape (tiles, vectors, groups, 16, 4)
    shares : float32, shape (tiles, vectors, 16), what each vector counts in the mean over its page; 0 where a page has
        fewer, and its last one is repeated
    scales : float32, shape (tiles, 16); 0 where there is no page
    """

    codes: NDArray[np.uint8]
    shares: NDArray[np.float32]
    scales: NDArray[np.float32]


@dataclass(frozen=True)
class QueryCodes:
    """A query, its rows in tiles whose sums fit into registers.

    Attributes
    ----------
    codes : int8, shape (tiles, groups, rows, 4), directions of the rows; the last one is repeated in the last tile
    begin_at : int32, shape (tiles, rows), what the products of each row begin at
    weights : float32, weight of each row in the first half of S, times the scale; 0 for rows that are repeated and
        for as many more as fill up a sixteen
    scale : float, of the codes
    errors : float32, shape (m,), distance of each direction from its coded one
    lengths : float32, shape (m,), of the query rows
    """

    codes: NDArray[np.int8]
    begin_at: NDArray[np.int32]
    weights: NDArray[np.float32]
    scale: float
    errors: NDArray[np.float32]
    lengths: NDArray[np.float32]

    @property
    def rows(self) -> int:
        """Query rows in a tile."""
        return int(self.codes.shape[2])

    @cached_property
    def at(self) -> tuple[int, ...]:
        """Addresses of codes, begin_at and weights."""
        return addresses(self.codes, self.begin_at, self.weights)


def addresses(*arrays: NDArray[Any]) -> tuple[int, ...]:
    """Where arrays begin; whoever calls holds them for as long."""
    return tuple(array.ctypes.data for array in arrays)


def page_codes(vectors: NDArray[np.float32], offsets: NDArray[np.int64]) -> PageCodes:
    """Codes of pages.

    Parameters
    ----------
    vectors : float32, shape (rows, d)
    offsets : int64, shape (P + 1,), rows of page k are ``offsets[k]:offsets[k + 1]``, at least one

    Examples
    --------
    >>> found = page_codes(np.array([[0.6, -0.8]], dtype=np.float32), np.array([0, 1]))
    >>> found.codes.shape, found.codes[0, 0, 0].tolist(), found.rows.tolist()
    ((1, 1, 16, 4), [223, 1, 128, 128], [1])
    """
    lengths = np.diff(offsets)
    codes, scales, errors, norms = _coded(vectors, offsets)
    starts = block_starts(lengths)
    page = np.repeat(np.arange(len(lengths)), np.diff(starts) * LANES)
    place = np.arange(len(page)) - starts[page] * LANES
    padded = codes[offsets[page] + np.minimum(place, lengths[page] - 1)]
    laid = padded.reshape(len(padded) // LANES, LANES, -1, GROUP).transpose(0, 2, 1, 3)
    return PageCodes(np.ascontiguousarray(laid), starts, lengths.astype(np.int32), scales, errors, norms)


def block_starts(rows: NDArray[np.integer]) -> NDArray[np.int64]:
    """First block of each page, and the end of the last, from the vectors of each page.

    >>> block_starts(np.array([3, 16, 17])).tolist()
    [0, 1, 2, 4]
    """
    return starts_of(-(-rows // LANES))


def tile_codes(
    vectors: NDArray[np.float32], offsets: NDArray[np.int64], shares: NDArray[np.float32], most: int
) -> TileCodes:
    """Codes of pages that have ``most`` vectors at most.

    Parameters
    ----------
    vectors, offsets : as in :func:`page_codes`
    shares : float32, shape (rows,), what each vector counts in the mean over its page
    """
    lengths = np.diff(offsets)
    codes, scales, _, _ = _coded(vectors, offsets)
    tiles = -(-len(lengths) // LANES)
    places = np.arange(most)
    rows = offsets[:-1, None] + np.minimum(places, lengths[:, None] - 1)
    every = np.zeros((tiles * LANES, most, codes.shape[1]), dtype=np.uint8)
    every[: len(lengths)] = codes[rows]
    counted = np.zeros((tiles * LANES, most), dtype=np.float32)
    counted[: len(lengths)] = np.where(places < lengths[:, None], shares[rows], 0)
    found = np.zeros(tiles * LANES, dtype=np.float32)
    found[: len(lengths)] = scales
    return TileCodes(
        np.ascontiguousarray(every.reshape(tiles, LANES, most, -1, GROUP).transpose(0, 2, 3, 1, 4)),
        np.ascontiguousarray(counted.reshape(tiles, LANES, most).transpose(0, 2, 1)),
        found.reshape(tiles, LANES),
    )


def query_codes(query: NDArray[np.float32], rows_at_once: int, *, zero: int) -> QueryCodes:
    """Codes of a query in as few tiles of at most ``rows_at_once`` rows as it needs.

    Parameters
    ----------
    query : float32, shape (m, d), m >= 1; the length of a row is its weight
    zero : what stands for 0 in the codes of pages when they are multiplied; products begin at what makes up for it
    """
    count = len(query)
    lengths = row_weights(query)
    directions = query / lengths[:, None]
    scale = float(np.abs(directions).max()) / _LARGEST or 1.0
    codes = np.rint(directions / np.float32(scale)).clip(-_LARGEST, _LARGEST).astype(np.int8)
    errors = np.linalg.norm(directions - codes * np.float32(scale), axis=1).astype(np.float32)
    tiles = -(-count // rows_at_once)
    rows = min(rows_at_once, in_pairs(-(-count // tiles)))
    padded = np.zeros((tiles * rows, -(-codes.shape[1] // GROUP) * GROUP), dtype=np.int8)
    padded[:, : codes.shape[1]] = codes[np.minimum(np.arange(tiles * rows), count - 1)]
    weights = np.zeros(-(-tiles * rows // LANES) * LANES, dtype=np.float32)
    weights[:count] = lengths * np.float32(scale / count)
    return QueryCodes(
        np.ascontiguousarray(padded.reshape(tiles, rows, -1, GROUP).transpose(0, 2, 1, 3)),
        -zero * padded.sum(axis=1, dtype=np.int32).reshape(tiles, rows),
        weights,
        scale,
        errors,
        lengths,
    )


def in_pairs(rows: int) -> int:
    """Rows of a query tile, of which the last may be repeated: kernels are compiled for each number of rows once.

    >>> in_pairs(13), in_pairs(16)
    (14, 16)
    """
    return -(-rows // 2) * 2


def score_bounds(
    query: QueryCodes, errors: NDArray[np.float32], norms: NDArray[np.float32], backward: float
) -> NDArray[np.float32]:
    """How far the score of codes may be from S(q, p) at most, for pages with these errors and norms, shape (P,).

    For a direction u, coded as u', and a vector v, coded as v', |u.v - u'.v'| <= |v - v'| + |u - u'| |v'|. Neither
    maxima nor means make a bound larger.
    """
    weight = float(query.lengths.mean())
    weighted = float((query.lengths * query.errors).mean())
    worst = float(query.errors.max())
    bounds: NDArray[np.float32] = np.float32(weight + backward) * errors
    bounds += np.float32(weighted + backward * worst) * norms
    return bounds


def _coded(
    vectors: NDArray[np.float32], offsets: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    """Codes, with scale, largest error and largest coded length of every page."""
    count, width = len(offsets) - 1, vectors.shape[1]
    codes = np.full((len(vectors), -(-width // GROUP) * GROUP), ZERO, dtype=np.uint8)
    scales, errors, norms = np.empty((3, count), dtype=np.float32)
    first = 0
    while first < count:
        # Some pages at a time, so that what is computed on the way stays in the cache of the processor.
        end = max(first + 1, int(np.searchsorted(offsets, offsets[first] + _AT_ONCE // width, side="right")) - 1)
        rows, pages = slice(offsets[first], offsets[end]), slice(first, end)
        begins = offsets[first:end] - offsets[first]
        some = vectors[rows]
        peaks = np.maximum.reduceat(np.abs(some).max(axis=1), begins)
        scales[pages] = np.where(peaks > 0, peaks / _LARGEST, 1.0)
        of_rows = np.repeat(scales[pages], np.diff(offsets[first : end + 1]))[:, None]
        whole = np.rint(some / of_rows).clip(-_LARGEST, _LARGEST)
        codes[rows, :width] = whole + ZERO
        whole *= of_rows
        norms[pages] = np.sqrt(np.maximum.reduceat(np.einsum("ij,ij->i", whole, whole), begins))
        whole -= some
        errors[pages] = np.sqrt(np.maximum.reduceat(np.einsum("ij,ij->i", whole, whole), begins))
        first = end
    return codes, scales, errors, norms
