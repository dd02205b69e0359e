"""More pages for a vector store, behind those that it has: the cost is that of the new pages."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from medvrag_core.encoders.base import PageEncoder, PageInput
from medvrag_core.encoders.copies import Copies
from medvrag_core.encoders.encode import encode_shards
from medvrag_core.encoders.manifest import (
    SHARD_PAGES,
    STATE,
    VectorManifest,
    manifest_path,
    publish_manifest,
    shard_folder,
)
from medvrag_core.encoders.shard_worker import ShardCrew
from medvrag_core.encoders.shards import Contents, unfit, write_shard
from medvrag_core.encoders.vectors import VectorStore
from medvrag_core.errors import InputError
from medvrag_core.records import PageVectors, Record
from medvrag_core.runs.publish import write_text
from medvrag_core.runs.sealed import write_sealed

_PLAN = "growing.json"


def add_pages(folder: Path, pages: Iterable[PageVectors], *, corpus_fingerprint: str) -> VectorStore:
    """Publish new shards behind those of a finished store, then a new manifest, and open the result.

    Shards that are there keep their names and digests. Until the new manifest is there, the store is the old one,
    whole and usable, whatever happens; what a failed call left lying is removed by the next one. One shard is in
    memory at a time.

    Parameters
    ----------
    folder : of the store
    pages : vectors as the encoder of the store made them, see :meth:`VectorStore.load_encoder`
    corpus_fingerprint : of all pages, old and new

    Raises
    ------
    InputError : there is no page, or a page is there already or fits into no shard; names it
    NotBuiltError, MismatchError : there is no whole store in ``folder``, see :meth:`VectorStore.open`
    """
    store = VectorStore.open(folder)
    _remove_leftovers(folder, store.manifest)
    known = set(store.page_ids)
    fresh = _fitting(pages, known, store)
    added: list[Path] = []
    while part := list(islice(fresh, SHARD_PAGES)):
        added.append(shard_folder(folder, len(store.manifest.shards) + len(added)))
        write_shard(added[-1], part, store.manifest.storage)
    if not added:
        raise InputError(f"{folder}: there is no page to add")
    _publish(store, corpus_fingerprint, added, len(known) - len(store))
    return VectorStore.open(folder)


def grow_vectors(
    pages: Sequence[PageInput],
    places: Sequence[int],
    encoder: PageEncoder,
    folder: Path,
    *,
    corpus_fingerprint: str,
    copies: Copies | None = None,
    crew: ShardCrew | None = None,
    progress: bool = True,
) -> VectorStore:
    """Encode the pages that a finished store lacks, in shards behind those that it has, as :func:`add_pages` does.

    A call that was stopped goes on after its last whole shard, where the corpus is still the same.

    Parameters
    ----------
    pages : of the whole corpus
    places : of those to be encoded
    encoder : in the state of the store, see :meth:`VectorStore.load_encoder`
    corpus_fingerprint, copies, crew : as in :func:`~medvrag_core.encoders.encode.encode_corpus`
    """
    store = VectorStore.open(folder)
    first = len(store.manifest.shards)
    plan = _Plan(corpus=corpus_fingerprint, first=first)
    plan_path = folder / _PLAN
    if not (plan_path.is_file() and plan_path.read_text(encoding="utf-8") == plan.to_json()):
        _remove_leftovers(folder, store.manifest)
        write_text(plan_path, plan.to_json())
    parts = [places[start : start + SHARD_PAGES] for start in range(0, len(places), SHARD_PAGES)]
    numbered = [(first + number, part) for number, part in enumerate(parts)]
    todo = [(number, part) for number, part in numbered if not shard_folder(folder, number).is_dir()]
    storage = store.manifest.storage
    encode_shards(pages, todo, encoder, folder, storage, copies, crew, of=len(places), progress=progress)
    _publish(store, corpus_fingerprint, [shard_folder(folder, number) for number, _ in numbered], len(places))
    plan_path.unlink()
    return VectorStore.open(folder)


class _Plan(Record):
    """Of which corpus the shards from ``first`` on are, while they are made."""

    corpus: str
    first: int


def _publish(store: VectorStore, corpus: str, added: Sequence[Path], pages: int) -> None:
    grown = _moved(store.manifest, corpus).model_copy(update={"pages": len(store) + pages})
    publish_manifest(store.folder, grown, added, [Contents(store.page_ids, np.diff(store.offsets))])


def move_to_corpus(folder: Path, corpus_fingerprint: str) -> None:
    """Say of a finished store that it is of another corpus, which has all its pages but for some that were deleted."""
    manifest = VectorStore.open(folder).manifest
    write_sealed(manifest_path(folder), _moved(manifest, corpus_fingerprint))


def _moved(manifest: VectorManifest, corpus: str) -> VectorManifest:
    return manifest.model_copy(update={"corpus": corpus, "first_corpus": manifest.first_corpus or manifest.corpus})


def _fitting(pages: Iterable[PageVectors], known: set[str], store: VectorStore) -> Iterator[PageVectors]:
    """The same pages, each added to ``known``; raises InputError for one that the store cannot take."""
    for page in pages:
        if page.page_id in known:
            raise InputError(f"page '{page.page_id}': has vectors in {store.folder} already", way_out="leave it out")
        if fault := unfit(page, store.dim):
            raise InputError(f"page '{page.page_id}': {fault}", way_out=f"encode it as {store.folder} was encoded")
        known.add(page.page_id)
        yield page


def _remove_leftovers(folder: Path, manifest: VectorManifest) -> None:
    """Delete folders of a call that failed or was killed, and the contents of the store as it was before the last call.

    These are kept till now for whoever was just opening the store when its manifest was replaced.
    """
    needed = {STATE, *(name.partition("/")[0] for name in manifest.files)}
    for home in folder.iterdir():
        if home.is_dir() and home.name not in needed:
            shutil.rmtree(home)
