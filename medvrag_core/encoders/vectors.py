"""Vectors of a whole corpus, read from the immutable shards on the disk as they are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from medvrag_core.encoders.base import PageEncoder
from medvrag_core.encoders.contents import read_contents
from medvrag_core.encoders.identity import EncoderIdentity
from medvrag_core.encoders.manifest import FORMAT, STATE, VectorManifest, manifest_path
from medvrag_core.encoders.shards import Patches, Span, patches_of_shard, read_rows, room_for, starts
from medvrag_core.encoders.storage import Stored, unpack
from medvrag_core.errors import InputError, MismatchError, NotBuiltError
from medvrag_core.records import PageVectors
from medvrag_core.runs.sealed import read_sealed
from medvrag_core.runs.verified import verify

_SHARDS_AT_ONCE = 2
_MAKE = "run notebook 02_indexing or `medvrag run`"


@dataclass(frozen=True)
class ShardVectors:
    """The vectors of some pages that lie one after another in the store.

    Attributes
    ----------
    first : place of the first page in the store
    vectors : float32, shape (rows, dim)
    offsets : int64, shape (P + 1,), rows of page ``first + k`` are ``offsets[k]:offsets[k + 1]``
    """

    first: int
    vectors: NDArray[np.float32]
    offsets: NDArray[np.int64]


class VectorStore:
    """All page vectors of a corpus, read from disk as they are asked for; of the vectors only :attr:`vectors` stay.

    Attributes
    ----------
    page_ids : page ids in corpus order, N of them
    offsets : int64, shape (N + 1,), rows of page k are ``offsets[k]:offsets[k + 1]``
    """

    def __init__(self, folder: Path, manifest: VectorManifest) -> None:
        self.folder = folder
        self.manifest = manifest
        if manifest.contents is None:
            raise NotBuiltError(f"{folder}: page vectors are still being made", way_out=_MAKE)
        contents = read_contents(folder / manifest.contents.folder)
        self.page_ids = contents.page_ids
        self.offsets = starts(contents.rows)
        self._homes = [f"{folder}/{shard.folder}" for shard in manifest.shards]
        self._firsts = starts(np.array([shard.pages for shard in manifest.shards]))
        self._patches = lru_cache(maxsize=_SHARDS_AT_ONCE)(self._read_patches)

    @classmethod
    def open(cls, folder: Path, *, full: bool = False) -> VectorStore:
        """Check every file against its digest, and open; files that nobody wrote to since then are not read again.

        Parameters
        ----------
        folder : of the store
        full : read every file anew, also those of the encoder that :meth:`load_encoder` checks otherwise; this finds
            bytes that rotted on the disk, see :func:`~.verified.verify`

        Raises
        ------
        NotBuiltError
            The build never finished; names the folder.
        MismatchError
            A file is not the one that the manifest names, or another version wrote the manifest.
        """
        manifest = read_sealed(manifest_path(folder), VectorManifest, way_out=way_out(folder))
        if manifest is None:
            raise NotBuiltError(f"{folder}: no finished page vectors", way_out=_MAKE)
        if manifest.format != FORMAT:
            raise MismatchError(
                f"{manifest_path(folder)}: vectors of format {manifest.format}, this version reads {FORMAT}",
                way_out=way_out(folder),
            )
        verify(folder, manifest.files, way_out=way_out(folder), full=full)
        if full:
            verify(folder / STATE, manifest.state, way_out=way_out(folder), full=True)
        return cls(folder, manifest)

    @property
    def dim(self) -> int:
        """Width of one vector."""
        return self.manifest.encoder.dim

    @property
    def bytes(self) -> int:
        """Size of all shards on disk."""
        homes = [self.folder / shard.folder for shard in self.manifest.shards]
        return sum(file.stat().st_size for home in homes for file in home.iterdir())

    @cached_property
    def vectors(self) -> NDArray[np.float32]:
        """All of them in memory, float32, shape (rows, dim)."""
        every = np.empty((int(self.offsets[-1]), self.dim), dtype=np.float32)
        for shard in self.each_shard():
            start = int(self.offsets[shard.first])
            every[start : start + len(shard.vectors)] = shard.vectors
        return every

    def each_shard(self) -> Iterator[ShardVectors]:
        """All vectors in the order of the pages, one shard in memory at a time."""
        for first, end in pairwise(self._firsts.tolist()):
            yield ShardVectors(first, *self.rows(np.arange(first, end)))

    def rows(self, places: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Vectors of some pages, float32, shape (rows, dim), and their offsets; see :meth:`stored_rows`."""
        stored, offsets = self.stored_rows(places)
        return unpack(stored), offsets

    def stored_rows(self, places: NDArray[np.int64]) -> tuple[Stored, NDArray[np.int64]]:
        """Vectors of some pages as they are stored; nothing else is read. May be called from several threads.

        Parameters
        ----------
        places : int64, shape (P,), numbers of pages in the order of the store, from 0; in any order, also repeated

        Returns
        -------
        stored : in the order of ``places``
        offsets : int64, shape (P + 1,), rows of the page ``places[k]`` are ``offsets[k]:offsets[k + 1]``

        Raises
        ------
        InputError : there is no page of such a number
        MismatchError : a file was cut short, or went away, since the store was opened
        """
        if len(places) and not 0 <= places.min() <= places.max() < len(self):
            raise InputError(f"{self.folder}: holds the pages 0 to {len(self) - 1}, not {places.min()}..{places.max()}")
        shards = np.searchsorted(self._firsts, places, side="right") - 1
        base = self.offsets[self._firsts]
        counts = self.offsets[places + 1] - self.offsets[places]
        offsets = starts(counts)
        stored = room_for(int(offsets[-1]), self.dim, self.manifest.storage)
        spans = np.stack([shards, self.offsets[places] - base[shards], offsets[:-1], counts], axis=1)
        # In the order of the disk, each file opened once.
        for number, group in groupby(spans[np.argsort(places, kind="stable")].tolist(), key=itemgetter(0)):
            read_rows(
                self._homes[number],
                int(base[number + 1] - base[number]),
                [Span(*span) for _, *span in group],
                stored,
                way_out=way_out(self.folder),
            )
        return stored, offsets

    def page(self, page_id: str) -> PageVectors:
        """Vectors and boxes of one page; raises InputError for an unknown id."""
        if page_id not in self._place_of:
            raise InputError(f"page '{page_id}' has no vectors in this run")
        place = self._place_of[page_id]
        number = int(np.searchsorted(self._firsts, place, side="right")) - 1
        vectors, _ = self.rows(np.array([place]))
        return PageVectors(page_id, vectors, *self._patches(number).page(place - int(self._firsts[number])))

    def load_encoder(self, encoder: PageEncoder) -> None:
        """Bring an encoder into the state in which it encoded these pages, so that it can encode queries for them.

        Raises
        ------
        MismatchError
            It is another encoder than the one of the pages (each field that differs is named, with both values), or
            what that one had learned from the corpus is damaged.
        """
        require_same_encoder(self.folder, self.manifest.encoder, encoder.identity)
        load_state(self.folder, self.manifest.state, encoder)

    def __len__(self) -> int:
        return len(self.page_ids)

    @cached_property
    def _place_of(self) -> dict[str, int]:
        return {page_id: place for place, page_id in enumerate(self.page_ids)}

    def _read_patches(self, number: int) -> Patches:
        return patches_of_shard(self.folder / self.manifest.shards[number].folder)


def way_out(folder: Path) -> str:
    """What to do about a store that is damaged or of another version."""
    return f"delete {folder} and index the pages again"


def require_same_encoder(folder: Path, made_by: EncoderIdentity, now: EncoderIdentity) -> None:
    """Raises MismatchError that names each field in which two encoders differ, with both values."""
    if changed := made_by.differences(now):
        raise MismatchError(
            f"{folder}: pages were encoded by another encoder than the one in force ({'; '.join(changed)})",
            way_out="use the profile of the run, or index the pages again",
        )


def load_state(folder: Path, state: dict[str, str], encoder: PageEncoder) -> None:
    """Load what an encoder learned from the corpus, once its files are found to be whole."""
    verify(folder / STATE, state, way_out=way_out(folder))
    encoder.load(folder / STATE)
