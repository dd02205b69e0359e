"""What lies in the folder of a vector store: shards, one file of contents, and a sealed manifest, written last."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from medvrag_core.encoders.contents import joined, write_contents
from medvrag_core.encoders.identity import EncoderIdentity
from medvrag_core.encoders.shards import Contents, contents_of_shard
from medvrag_core.records import Record
from medvrag_core.runs.sealed import write_sealed
from medvrag_core.runs.verified import FolderEntry, digests, files_of
from medvrag_core.settings import Storage

FORMAT = 4
SHARD_PAGES = 64
"""Pages a shard: what a build that is stopped does again at most."""
STATE = "encoder"
_MANIFEST = "manifest.json"


class ShardEntry(FolderEntry):
    """One published shard, and how many pages it has."""

    pages: int


class VectorManifest(Record):
    """What the vectors are and what made them; written last, so its presence means that every shard is whole.

    Attributes
    ----------
    format : of the files
    encoder : what a query must be encoded by
    state : digests of what the encoder learned from the corpus, such as a PCA, by file
    corpus : fingerprint of the pages
    pages : number of them, with those that left the corpus since they were encoded
    first_corpus : fingerprint of the pages that the encoder learned from, where others were added or left since
    storage : how vectors are kept
    contents : ids of all pages and rows of each; None while the store is being built
    """

    format: int = FORMAT
    encoder: EncoderIdentity
    state: dict[str, str]
    corpus: str
    pages: int
    storage: Storage
    first_corpus: str = Field("", exclude_if=lambda fingerprint: not fingerprint)
    contents: FolderEntry | None = None
    shards: tuple[ShardEntry, ...] = ()

    @property
    def files(self) -> dict[str, str]:
        """Digest of every file but the state of the encoder, by its name within the folder of the store."""
        return files_of(self.shards if self.contents is None else (self.contents, *self.shards))


def manifest_path(folder: Path) -> Path:
    """Where the manifest of the store in ``folder`` lies."""
    return folder / _MANIFEST


def shard_folder(folder: Path, number: int) -> Path:
    """Where a shard of the store in ``folder`` lies; the first has number 0."""
    return folder / f"shard-{number:05d}"


def publish_manifest(folder: Path, manifest: VectorManifest, added: Sequence[Path], before: Sequence[Contents]) -> None:
    """Publish the contents of a store, then its manifest; from then on the shards ``added`` are part of it.

    Parameters
    ----------
    folder : of the store
    manifest : without the shards to be added, and with the pages of all
    added : folders of shards that are whole
    before : contents of the shards that the manifest has already; none for a new store
    """
    parts = [contents_of_shard(home) for home in added]
    # Its own folder for each number of pages: the contents that the manifest of now needs stay till the next is there.
    home = folder / f"contents-{manifest.pages}"
    write_contents(home, joined([*before, *parts]))
    entries = [
        ShardEntry(folder=shard.name, files=digests(shard), pages=len(part.page_ids))
        for shard, part in zip(added, parts, strict=True)
    ]
    contents = FolderEntry(folder=home.name, files=digests(home))
    whole = manifest.model_copy(update={"contents": contents, "shards": (*manifest.shards, *entries)})
    write_sealed(manifest_path(folder), whole)
