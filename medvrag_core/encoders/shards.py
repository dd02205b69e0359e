"""One shard of page vectors: a folder that is there whole or not at all, read page by page from the disk."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from medvrag_core.encoders.storage import Stored, pack
from medvrag_core.errors import MismatchError
from medvrag_core.records import PageVectors
from medvrag_core.runs.publish import whole_folder
from medvrag_core.settings import Storage

_VECTORS, _SCALES, _PAGES = "vectors.npy", "scales.npy", "pages.npz"
_NPY = b"\x93NUMPY\x01\x00"
_LENGTH = 2
"""Bytes that tell the length of the header of a ``.npy``, behind its magic string."""


def unfit(page: PageVectors, dim: int) -> str:
    """Why no shard of vectors of width ``dim`` can hold a page, in words; empty where one can."""
    rows, width = page.vectors.shape
    if rows == 0:
        return "it has no vector"
    if width != dim:
        return f"its vectors are {width} wide, not {dim}"
    if "\0" in page.page_id:
        return "its id has a character of code 0"
    return "" if np.isfinite(page.vectors).all() else "a vector of it is not finite"


def write_shard(folder: Path, pages: Sequence[PageVectors], storage: Storage) -> None:
    """Publish a shard.

    Patches are compressed, which pays since grids repeat from page to page; side by side the x0 of all boxes repeat
    best. A row number takes as few bytes as it can.
    """
    stored = pack(np.concatenate([page.vectors for page in pages]), storage)
    vector_of = np.concatenate([page.vector_of for page in pages])
    with whole_folder(folder) as fresh:
        np.save(fresh / _VECTORS, stored.vectors)
        if stored.scales is not None:
            np.save(fresh / _SCALES, stored.scales)
        np.savez_compressed(
            fresh / _PAGES,
            page_ids=np.array([page.page_id for page in pages]),
            rows=np.array([len(page.vectors) for page in pages], dtype=np.uint32),
            patches=np.array([len(page.boxes) for page in pages], dtype=np.uint32),
            columns=np.concatenate([page.boxes for page in pages]).T.astype(np.float16, order="C"),
            vector_of=vector_of.astype(np.min_scalar_type(int(vector_of.max()))),
        )


@dataclass(frozen=True)
class Contents:
    """What can be told of pages without their vectors: their ids, and rows of each, int64, shape (P,)."""

    page_ids: tuple[str, ...]
    rows: NDArray[np.int64]


def contents_of_shard(folder: Path) -> Contents:
    """Pages of a published shard."""
    with np.load(folder / _PAGES, allow_pickle=False) as pages:
        return Contents(tuple(pages["page_ids"].tolist()), pages["rows"].astype(np.int64))


@dataclass(frozen=True)
class Patches:
    """Patches of the pages of a shard, in memory.

    Attributes
    ----------
    offsets : int64, shape (P + 1,), patches of page k are ``offsets[k]:offsets[k + 1]``
    boxes : float16, shape (patches, 4)
    vector_of : unsigned, shape (patches,), row of each patch within its page
    """

    offsets: NDArray[np.int64]
    boxes: NDArray[np.float16]
    vector_of: NDArray[np.unsignedinteger]

    def page(self, place: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Boxes and ``vector_of`` of the page at ``place``, as :class:`PageVectors` has them."""
        patches = slice(int(self.offsets[place]), int(self.offsets[place + 1]))
        return self.boxes[patches].astype(np.float32), self.vector_of[patches].astype(np.int64)


def patches_of_shard(folder: Path) -> Patches:
    """Patches of a published shard; whoever reads them has checked its digests."""
    with np.load(folder / _PAGES, allow_pickle=False) as pages:
        return Patches(starts(pages["patches"]), pages["columns"].T, pages["vector_of"])


class Span(NamedTuple):
    """Rows that lie one after another: ``length`` of them, from row ``source`` of a shard to row ``target``."""

    source: int
    target: int
    length: int


def room_for(rows: int, dim: int, storage: Storage) -> Stored:
    """Arrays that vectors can be read into as they are stored; what is in them is not set."""
    return Stored(np.empty((rows, dim), dtype=storage), np.empty(rows, dtype=np.float32) if storage == "int8" else None)


def read_rows(folder: str, rows: int, spans: Sequence[Span], into: Stored, *, way_out: str) -> None:
    """Copy rows of a shard from the disk, and nothing but these; no file stays open.

    Parameters
    ----------
    folder : of the shard; a text, since to make a path takes as long as to read a page
    rows : that the shard has
    spans : what to copy
    into : arrays to copy to, from :func:`room_for`
    way_out : what to do about a damaged file

    Raises
    ------
    MismatchError : a file is not as long as its rows are, or cannot be read
    """
    _read(f"{folder}/{_VECTORS}", rows, spans, into.vectors, way_out)
    if into.scales is not None:
        _read(f"{folder}/{_SCALES}", rows, spans, into.scales, way_out)


def _read(path: str, rows: int, spans: Sequence[Span], into: NDArray[Any], way_out: str) -> None:
    size = into.itemsize * math.prod(into.shape[1:])
    try:
        # By numbers of bytes, since a page is read in one go; np.load would parse the header, which takes longer.
        file = os.open(path, os.O_RDONLY)
        try:
            head = os.pread(file, len(_NPY) + _LENGTH, 0)
            first = len(head) + int.from_bytes(head[len(_NPY) :], "little")
            whole = head.startswith(_NPY) and os.fstat(file).st_size == first + rows * size
            for source, target, length in spans if whole else ():
                buffer = into[target : target + length].data.cast("B")
                whole &= os.preadv(file, [buffer], first + source * size) == length * size
        finally:
            os.close(file)
    except OSError as error:
        raise MismatchError(f"{path}: cannot be read ({error.strerror})", way_out=way_out) from None
    if not whole:
        raise MismatchError(f"{path}: does not hold {rows} rows of {size} bytes", way_out=way_out)


def starts(counts: NDArray[np.integer]) -> NDArray[np.int64]:
    """Where each part begins when parts of these lengths lie one after another, and where the last ends.

    >>> starts(np.array([2, 3])).tolist()
    [0, 2, 5]
    """
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64)
