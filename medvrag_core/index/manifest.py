"""What an index folder holds, segment by segment, sealed with its own digest."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from medvrag_core.encoders.identity import EncoderIdentity
from medvrag_core.encoders.vectors import VectorStore
from medvrag_core.errors import MismatchError, NotBuiltError
from medvrag_core.index.duplicates import DuplicatePair
from medvrag_core.index.page_alikeness import PairKind
from medvrag_core.records import Record
from medvrag_core.runs.sealed import read_sealed, write_sealed
from medvrag_core.runs.verified import FolderEntry, files_of
from medvrag_core.settings import IndexSettings

FORMAT = 3
_MANIFEST = "manifest.json"


class SegmentEntry(FolderEntry):
    """One published segment, and the shards of the vector store that it codes.

    Attributes
    ----------
    shards : first shard, and the one after the last
    vectors : digest of these shards
    pages : number of them
    """

    shards: tuple[int, int]
    vectors: str
    pages: int


class AnnEntry(FolderEntry):
    """An ANN over the centroids of all segments that takes long to make.

    Attributes
    ----------
    kind, seed : ``hnsw`` or ``ivf``, and what its training began with
    segments : digest of the segments that it was made from
    """

    kind: str
    seed: int
    segments: str


class IndexManifest(Record):
    """What an index was made from, and the digests of its files.

    Attributes
    ----------
    format : of the files
    encoder : of the vectors
    settings : resolved, under which it was last brought up to date
    segments : those that are there, in the order of the store
    segments_wanted : how many the whole index has
    finished : nothing is missing; False while it is being built
    near_duplicate : cosine above which a later page is left out
    left_out : pages that are, and for which page
    alike : pages that stay although they look like an earlier one, and which
    kinds_kept : kinds of pairs of which both pages stay; None: an earlier version sought near-duplicates otherwise
    deleted : pages taken out by hand
    ann : of mode ``paper``; None where none was made, or it is so small that it is made when the index is opened
    """

    format: int = FORMAT
    encoder: EncoderIdentity
    settings: IndexSettings
    segments: tuple[SegmentEntry, ...]
    segments_wanted: int
    finished: bool = False
    near_duplicate: float
    left_out: tuple[DuplicatePair, ...] = ()
    alike: tuple[DuplicatePair, ...] = Field((), exclude_if=lambda pairs: not pairs)
    kinds_kept: tuple[PairKind, ...] | None = Field(None, exclude_if=lambda kinds: kinds is None)
    deleted: tuple[str, ...] = ()
    ann: AnnEntry | None = None

    @property
    def pages(self) -> int:
        """Pages that can be found."""
        gone = {pair.left_out for pair in self.left_out} | {*self.deleted}
        return sum(segment.pages for segment in self.segments) - len(gone)

    @property
    def files(self) -> dict[str, str]:
        """SHA-256 of every file of the index but the manifest, by its path in the folder."""
        return files_of(self.segments if self.ann is None else (*self.segments, self.ann))

    def segments_digest(self) -> str:
        """One digest over the content of the segments."""
        return _digest([digest for segment in self.segments for digest in segment.files.values()])


def read_manifest(folder: Path) -> IndexManifest:
    """The manifest of an index.

    Raises
    ------
    NotBuiltError : there is none
    MismatchError : it is damaged, or another version wrote it
    """
    path = folder / _MANIFEST
    found = read_sealed(path, IndexManifest, way_out=way_out(folder))
    if found is None:
        raise NotBuiltError(f"{folder}: no index", way_out="run notebook 02_indexing or `medvrag index` first")
    if found.format != FORMAT:
        raise MismatchError(
            f"{path}: an index of format {found.format}, this version reads {FORMAT}",
            way_out=way_out(folder),
        )
    return found


def way_out(folder: Path) -> str:
    """What to do about an index that is damaged or of another version; it is made anew from the vectors."""
    return f"delete {folder} and run `medvrag index` again"


def write_manifest(folder: Path, manifest: IndexManifest) -> None:
    """Publish it."""
    write_sealed(folder / _MANIFEST, manifest)


def shards_digest(store: VectorStore, shards: tuple[int, int]) -> str:
    """One digest over some shards of a vector store, from the first to the one before the last."""
    return _digest([d for shard in store.manifest.shards[slice(*shards)] for d in shard.files.values()])


def _digest(parts: Sequence[str]) -> str:
    return hashlib.sha256("".join(parts).encode()).hexdigest()[:16]
