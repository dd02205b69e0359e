"""One shard of page vectors: a folder that is there whole or not at all, read page by page from the disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from medvrag_core.encoders.storage import Stored, pack, unpack
from medvrag_core.records import PageVectors
from medvrag_core.runs.publish import sha256_of, whole_folder
from medvrag_core.settings import Storage

_VECTORS, _SCALES, _PAGES = "vectors.npy", "scales.npy", "pages.npz"


@dataclass(frozen=True)
class Shard:
    """Pages one after another; vectors stay on the disk until they are asked for.

    Attributes
    ----------
    page_ids : P of them
    stored : vectors of all pages, memory-mapped
    offsets : int64, shape (P + 1,), rows of page k are ``offsets[k]:offsets[k + 1]``
    patch_offsets : int64, shape (P + 1,), likewise its patches
    boxes : float16, shape (patches, 4)
    vector_of : unsigned, shape (patches,), row of each patch within its page
    """

    page_ids: tuple[str, ...]
    stored: Stored
    offsets: NDArray[np.int64]
    patch_offsets: NDArray[np.int64]
    boxes: NDArray[np.float16]
    vector_of: NDArray[np.unsignedinteger]

    def vectors(self) -> NDArray[np.float32]:
        """A copy of the vectors of all its pages."""
        return unpack(self.stored)

    def page(self, place: int) -> PageVectors:
        """Vectors and patches of the page at ``place``."""
        rows = slice(int(self.offsets[place]), int(self.offsets[place + 1]))
        patches = slice(int(self.patch_offsets[place]), int(self.patch_offsets[place + 1]))
        scales = None if self.stored.scales is None else self.stored.scales[rows]
        return PageVectors(
            self.page_ids[place],
            unpack(Stored(self.stored.vectors[rows], scales)),
            self.boxes[patches].astype(np.float32),
            self.vector_of[patches].astype(np.int64),
        )


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


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of each file in a folder, by name."""
    return {file.name: sha256_of(file) for file in sorted(folder.iterdir())}


@dataclass(frozen=True)
class Contents:
    """What can be told of a shard without its vectors: its pages, and rows of each, int64, shape (P,)."""

    page_ids: tuple[str, ...]
    rows: NDArray[np.int64]


def read_contents(folder: Path) -> Contents:
    """Of a published shard."""
    with np.load(folder / _PAGES, allow_pickle=False) as pages:
        return Contents(tuple(pages["page_ids"].tolist()), pages["rows"].astype(np.int64))


def open_shard(folder: Path) -> Shard:
    """A published shard; whoever opens it has checked its digests."""
    scales = folder / _SCALES
    stored = Stored(
        np.load(folder / _VECTORS, mmap_mode="r", allow_pickle=False),
        np.load(scales, allow_pickle=False) if scales.is_file() else None,
    )
    with np.load(folder / _PAGES, allow_pickle=False) as pages:
        return Shard(
            tuple(pages["page_ids"].tolist()),
            stored,
            starts(pages["rows"]),
            starts(pages["patches"]),
            pages["columns"].T,
            pages["vector_of"],
        )


def starts(counts: NDArray[np.integer]) -> NDArray[np.int64]:
    """Where each part begins when parts of these lengths lie one after another, and where the last ends.

    >>> starts(np.array([2, 3])).tolist()
    [0, 2, 5]
    """
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64)
