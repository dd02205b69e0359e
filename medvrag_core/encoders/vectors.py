"""Vectors of a whole corpus on disk: immutable shards and one manifest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from medvrag_core.encoders.base import PageEncoder
from medvrag_core.encoders.identity import EncoderIdentity
from medvrag_core.encoders.shards import Shard, digests, open_shard, read_contents, starts
from medvrag_core.errors import InputError, MismatchError, NotBuiltError
from medvrag_core.records import PageVectors, Record
from medvrag_core.settings import Storage

FORMAT = 3
STATE = "encoder"
_OPEN_AT_ONCE = 8


class ShardEntry(Record):
    """One published shard: its folder and the digests of its files."""

    folder: str
    files: dict[str, str]


class VectorManifest(Record):
    """What the vectors are and what made them; written last, so its presence means that every shard is whole.

    Attributes
    ----------
    format : of the files
    encoder : what a query must be encoded by
    state : digests of what the encoder learned from the corpus, such as a PCA, by file
    corpus : fingerprint of the pages
    pages : number of them
    storage : how vectors are kept
    """

    format: int = FORMAT
    encoder: EncoderIdentity
    state: dict[str, str]
    corpus: str
    pages: int
    storage: Storage
    shards: tuple[ShardEntry, ...] = ()


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
    """All page vectors of a corpus, opened from disk. What is read is read shard by shard, but for :attr:`vectors`.

    Attributes
    ----------
    page_ids : page ids in corpus order, N of them
    offsets : int64, shape (N + 1,), rows of page k are ``offsets[k]:offsets[k + 1]``
    """

    def __init__(self, folder: Path, manifest: VectorManifest) -> None:
        self.folder = folder
        self.manifest = manifest
        contents = [read_contents(folder / shard.folder) for shard in manifest.shards]
        self.page_ids: tuple[str, ...] = tuple(page_id for shard in contents for page_id in shard.page_ids)
        self.offsets = starts(np.concatenate([shard.rows for shard in contents]))
        self._firsts = starts(np.array([len(shard.page_ids) for shard in contents]))
        # A mapped file stays open; a large store has more shards than a process may have files.
        self._shard = lru_cache(maxsize=_OPEN_AT_ONCE)(self._open_shard)

    @classmethod
    def open(cls, folder: Path) -> VectorStore:
        """Check the digest of every file, and open.

        Raises
        ------
        NotBuiltError
            The build never finished; names the folder.
        MismatchError
            A file is not the one that the manifest names, or another version wrote the manifest.
        """
        path = folder / "manifest.json"
        if not path.is_file():
            raise NotBuiltError(
                f"{folder}: no finished page vectors", way_out="run notebook 02_indexing or `medvrag run`"
            )
        try:
            manifest = VectorManifest.from_json(path.read_text(encoding="utf-8"), source=str(path))
        except InputError as error:
            raise MismatchError(str(error), way_out=f"delete {folder} and index the pages again") from None
        if manifest.format != FORMAT:
            raise MismatchError(
                f"{path}: vectors of format {manifest.format}, this version reads {FORMAT}",
                way_out=f"delete {folder} and index the pages again",
            )
        for shard in manifest.shards:
            _check_files(folder / shard.folder, shard.files, way_out=f"delete {folder} and index the pages again")
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
        for number, first in enumerate(self._firsts[:-1]):
            shard = self._shard(number)
            yield ShardVectors(int(first), shard.vectors(), shard.offsets)

    def page(self, page_id: str) -> PageVectors:
        """Vectors and boxes of one page; raises InputError for an unknown id."""
        if page_id not in self._place_of:
            raise InputError(f"page '{page_id}' has no vectors in this run")
        place = self._place_of[page_id]
        number = int(np.searchsorted(self._firsts, place, side="right")) - 1
        return self._shard(number).page(place - int(self._firsts[number]))

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

    def _open_shard(self, number: int) -> Shard:
        return open_shard(self.folder / self.manifest.shards[number].folder)


def require_same_encoder(folder: Path, made_by: EncoderIdentity, now: EncoderIdentity) -> None:
    """Raises MismatchError that names each field in which two encoders differ, with both values."""
    if changed := made_by.differences(now):
        raise MismatchError(
            f"{folder}: pages were encoded by another encoder than the one in force ({'; '.join(changed)})",
            way_out="use the profile of the run, or index the pages again",
        )


def load_state(folder: Path, state: dict[str, str], encoder: PageEncoder) -> None:
    """Load what an encoder learned from the corpus, once its files are found to be whole."""
    _check_files(folder / STATE, state, way_out=f"delete {folder} and index the pages again")
    encoder.load(folder / STATE)


def _check_files(folder: Path, wanted: dict[str, str], *, way_out: str) -> None:
    found = digests(folder) if folder.is_dir() else {}
    for name in sorted(wanted.keys() | found.keys()):
        if wanted.get(name) != found.get(name):
            raise MismatchError(f"{folder / name}: is missing or damaged", way_out=way_out)
