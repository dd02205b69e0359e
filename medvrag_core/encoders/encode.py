"""From pages to a vector store: fitted once, written shard by shard, and taken up again where it was stopped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from medvrag_core.encoders.base import PageEncoder, PageInput, PageInputs
from medvrag_core.encoders.copies import Copies, encode_in_copies
from medvrag_core.encoders.faults import naming_pages
from medvrag_core.encoders.shards import digests, write_shard
from medvrag_core.encoders.throughput import Meter, Throughput, told
from medvrag_core.encoders.vectors import STATE, ShardEntry, VectorManifest, VectorStore, load_state
from medvrag_core.errors import InputError, MismatchError
from medvrag_core.records import PageVectors
from medvrag_core.runs.publish import whole_folder, write_text
from medvrag_core.settings import Storage

SHARD_PAGES = 64


def encode_corpus(
    pages: Sequence[PageInput],
    encoder: PageEncoder,
    folder: Path,
    *,
    corpus_fingerprint: str,
    storage: Storage = "float16",
    copies: Copies | None = None,
    progress: bool = True,
) -> VectorStore:
    """Fit the encoder, encode all pages in shards of 64, publish, and open the result.

    A finished build for the same corpus, encoder and storage is opened as it is. A stopped build goes on
    after its last whole shard. Work made for another corpus or encoder is replaced, since
    vectors can always be made again from the pages. Memory holds a few shards, however many pages there are.

    Parameters
    ----------
    corpus_fingerprint : tells one corpus from another
    storage : how the vectors are kept
    copies : of the encoder in other processes, used where each has a whole shard to do

    Raises
    ------
    InputError : there is no page
    MedvragError : the encoder failed on a page; names it. Whole shards stay for the next call
    MismatchError : the encoder gave a page no vector, or one that is not finite or not ``dim`` wide
    """
    if not pages:
        raise InputError("the corpus has no page to encode", way_out="look at its ledger.jsonl for what was dropped")
    manifest = _begin(pages, encoder, folder, corpus_fingerprint, storage, progress)
    if not (folder / "manifest.json").is_file():
        shards = {
            folder / f"shard-{start // SHARD_PAGES:05d}": range(start, min(start + SHARD_PAGES, len(pages)))
            for start in range(0, len(pages), SHARD_PAGES)
        }
        todo = {home: places for home, places in shards.items() if not home.is_dir()}
        left = [place for places in todo.values() for place in places]
        given = PageInputs(len(left), lambda k: pages[left[k]])
        bar = tqdm(
            total=len(pages),
            initial=len(pages) - len(left),
            desc="encode pages",
            unit="page",
            disable=None if progress else True,
        )
        with bar, _encoding(given, encoder, folder, copies) as (stream, meter):
            for home, places in todo.items():
                write_shard(home, list(_watched(islice(stream, len(places)), encoder.dim, meter, bar)), storage)
                write_text(folder / "throughput.json", meter.so_far.to_json())
                bar.set_postfix(told(meter.so_far), refresh=False)
        entries = tuple(ShardEntry(folder=home.name, files=digests(home)) for home in shards)
        write_text(folder / "manifest.json", manifest.model_copy(update={"shards": entries}).to_json())
    return VectorStore.open(folder)


def read_throughput(folder: Path) -> Throughput | None:
    """How fast the vectors in ``folder`` were made when pages were last encoded; None where that was not told."""
    path = folder / "throughput.json"
    return Throughput.from_json(path.read_bytes(), source=str(path)) if path.is_file() else None


def _begin(
    pages: Sequence[PageInput],
    encoder: PageEncoder,
    folder: Path,
    corpus_fingerprint: str,
    storage: Storage,
    progress: bool,
) -> VectorManifest:
    """The manifest without shards of the build in ``folder``, and the encoder in the state that it has there."""
    key = folder / "building.json"
    wanted = VectorManifest(
        encoder=encoder.identity, state={}, corpus=corpus_fingerprint, pages=len(pages), storage=storage
    )
    # What cannot be read was begun by another version.
    with suppress(InputError, OSError):
        begun = VectorManifest.from_json(key.read_bytes(), source=str(key))
        if begun.model_copy(update={"state": {}}) == wanted:
            load_state(folder, begun.state, encoder)
            return begun
    with whole_folder(folder) as fresh:
        with tqdm(total=len(pages), desc="fit encoder", unit="page", disable=None if progress else True) as bar:

            def shown(place: int) -> PageInput:
                bar.update()
                return pages[place]

            encoder.fit(PageInputs(len(pages), shown))
        (fresh / STATE).mkdir()
        encoder.save(fresh / STATE)
        begun = wanted.model_copy(update={"state": digests(fresh / STATE)})
        (fresh / key.name).write_text(begun.to_json(), encoding="utf-8")
    return begun


@contextmanager
def _encoding(
    pages: Sequence[PageInput], encoder: PageEncoder, folder: Path, copies: Copies | None
) -> Iterator[tuple[Iterator[PageVectors], Meter]]:
    """The vectors of ``pages`` as they come, here or from other processes, and what counts them."""
    processes = min(copies.processes, len(pages) // SHARD_PAGES) if copies is not None else 1
    if copies is not None and processes > 1:
        stream = encode_in_copies(copies, processes, folder / STATE, pages)
    else:
        stream = naming_pages(iter(encoder.encode_pages(pages)), pages)
    with closing(stream):
        yield stream, Meter(encoder, max(1, processes))


def _watched(stream: Iterator[PageVectors], dim: int, meter: Meter, bar: Any) -> Iterator[PageVectors]:
    """The same pages, counted; raises MismatchError for vectors that no index can hold."""
    for page in stream:
        if page.vectors.shape[0] == 0 or page.vectors.shape[1] != dim or not np.isfinite(page.vectors).all():
            raise MismatchError(
                f"page {page.page_id}: the encoder gave no vector, or one that is not finite or not {dim} wide",
                way_out="check its weights, or set encoder.batch_size to 1",
            )
        meter.count(page)
        bar.update()
        yield page
