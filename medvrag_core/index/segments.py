"""Segments of an index on disk: the codes and centroids of pages that lie one after another in the vector store.

A segment depends on its pages alone. So an index grows by segments, and pages score the same in whatever segment they
lie. Its large files are mapped into memory, not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medvrag_core.index.centroids import page_centroids
from medvrag_core.index.kernels.codes import GROUP, ZERO, PageCodes, TileCodes, block_starts, page_codes, tile_codes
from medvrag_core.index.kernels.text import LANES
from medvrag_core.runs.open_files import allow_open_files

_CODES, _CENTROIDS, _PAGES = "codes.npy", "centroids.npy", "pages.npz"
MAPPED = 2
"""Files of a segment that stay open."""


@dataclass(frozen=True)
class Segment:
    """P pages as every mode needs them.

    Attributes
    ----------
    codes : of all vectors
    centroids : of C unit centroids a page, each with its share of the vectors
    counts : int32, shape (P,), centroids of each page; fewer than C where it has fewer vectors
    """

    codes: PageCodes
    centroids: TileCodes
    counts: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.counts)

    def centroid_vectors(self) -> NDArray[np.float32]:
        """The centroids of all pages as vectors again, float32, shape (total, d or a little more), one after another.

        A width that is no multiple of 4 is filled up with zeros.
        """
        tiles = self.centroids.codes.transpose(0, 3, 1, 2, 4)  # tile, lane, centroid, group, dimension of the group
        flat = tiles.reshape(-1, tiles.shape[2], tiles.shape[3] * GROUP)[: len(self)]
        real = np.arange(flat.shape[1]) < self.counts[:, None]
        scales = np.repeat(self.centroids.scales.ravel()[: len(self)], self.counts)
        decoded: NDArray[np.float32] = (flat[real].astype(np.float32) - ZERO) * scales[:, None]
        return decoded


def write_segment(folder: Path, vectors: NDArray[np.float32], offsets: NDArray[np.int64], centroids: int) -> None:
    """Code some pages into a folder that is there.

    Parameters
    ----------
    vectors, offsets : of the pages, as in :func:`~medvrag_core.index.kernels.codes.page_codes`
    centroids : C
    """
    found = page_centroids(vectors, offsets, centroids)
    counts = np.diff(found.offsets)
    shares = found.sizes / np.repeat(np.diff(offsets), counts)
    tiles = tile_codes(found.rows, found.offsets, shares.astype(np.float32), centroids)
    every = page_codes(vectors, offsets)
    np.save(folder / _CODES, every.codes)
    np.save(folder / _CENTROIDS, tiles.codes)
    np.savez(
        folder / _PAGES,
        rows=every.rows,
        scales=every.scales,
        errors=every.errors,
        norms=every.norms,
        counts=counts.astype(np.int32),
        shares=tiles.shares,
        centroid_scales=tiles.scales,
    )


def segment_bytes(vectors: float, width: int, centroids: int) -> float:
    """Bytes of a page of so many vectors in the files of a segment, their small ones left out.

    >>> segment_bytes(103, 128, 8)
    15360
    """
    return (-(-vectors // LANES) * LANES + centroids) * -(-width // GROUP) * GROUP


def open_segments(folders: Sequence[Path]) -> list[Segment]:
    """Published segments, whose codes and centroids stay on the disk; whoever opens them has checked their digests.

    Raises MedvragError where the system lets a process hold too few files open.
    """
    allow_open_files(len(folders) * MAPPED)
    return [_open_segment(folder) for folder in folders]


def _open_segment(folder: Path) -> Segment:

    def mapped(name: str) -> NDArray[Any]:
        # As a plain array: cutting a piece out of a np.memmap takes many times as long.
        return np.asarray(np.load(folder / name, mmap_mode="r", allow_pickle=False))

    with np.load(folder / _PAGES, allow_pickle=False) as pages:
        return Segment(
            PageCodes(
                mapped(_CODES),
                block_starts(pages["rows"]),
                *(pages[name] for name in ("rows", "scales", "errors", "norms")),
            ),
            TileCodes(mapped(_CENTROIDS), pages["shares"], pages["centroid_scales"]),
            pages["counts"],
        )
