"""From pages to a vector store: fitted once, written shard by shard, and taken up again where it was stopped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from tqdm import tqdm

from medvrag_core.encoders.base import PageEncoder, PageInput, PageInputs, at_places
from medvrag_core.encoders.copies import Copies, encode_in_copies
from medvrag_core.encoders.faults import fitting_pages, naming_pages
from medvrag_core.encoders.manifest import (
    SHARD_PAGES,
    STATE,
    VectorManifest,
    manifest_path,
    publish_manifest,
    shard_folder,
)
from medvrag_core.encoders.shard_worker import ShardCrew
from medvrag_core.encoders.shards import write_shard
from medvrag_core.encoders.throughput import Meter, Throughput, told
from medvrag_core.encoders.vectors import VectorStore, load_state, way_out
from medvrag_core.errors import InputError, MismatchError
from medvrag_core.records import PageVectors
from medvrag_core.runs.publish import whole_folder, write_text
from medvrag_core.runs.sealed import read_sealed, write_sealed
from medvrag_core.runs.verified import digests
from medvrag_core.settings import Storage

_BUILDING = "building.json"


def encode_corpus(
    pages: Sequence[PageInput],
    encoder: PageEncoder,
    folder: Path,
    *,
    corpus_fingerprint: str,
    storage: Storage = "float16",
    copies: Copies | None = None,
    crew: ShardCrew | None = None,
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
    crew : encodes shards in place of this process, which fits the encoder; vectors are those of ``copies``

    Raises
    ------
    InputError : there is no page
    MedvragError : the encoder failed on a page; names it. Whole shards stay for the next call
    MismatchError : the encoder gave a page no vector, or one that is not finite or not ``dim`` wide; or the
        manifest that is there is damaged
    """
    if not pages:
        raise InputError("the corpus has no page to encode", way_out="look at its ledger.jsonl for what was dropped")
    manifest = _begin(pages, encoder, folder, corpus_fingerprint, storage, progress)
    if not manifest_path(folder).is_file():
        shards = [range(start, min(start + SHARD_PAGES, len(pages))) for start in range(0, len(pages), SHARD_PAGES)]
        todo = [(n, places) for n, places in enumerate(shards) if not shard_folder(folder, n).is_dir()]
        encode_shards(pages, todo, encoder, folder, storage, copies, crew, of=len(pages), progress=progress)
        publish_manifest(folder, manifest, [shard_folder(folder, n) for n in range(len(shards))], [])
    return VectorStore.open(folder)


def encode_shards(
    pages: Sequence[PageInput],
    todo: Sequence[tuple[int, Sequence[int]]],
    encoder: PageEncoder,
    folder: Path,
    storage: Storage,
    copies: Copies | None,
    crew: ShardCrew | None,
    *,
    of: int,
    progress: bool,
) -> None:
    """Publish shards in ``folder``, each given by its number and the places of its pages; those of ``of`` pages in all.

    The other parameters are those of :func:`encode_corpus`.
    """
    left = sum(len(places) for _, places in todo)
    with tqdm(total=of, initial=of - left, desc="encode pages", unit="page", disable=None if progress else True) as bar:
        if crew is not None:
            _encode_by(crew, todo, folder, storage, bar)
        else:
            _encode_here(pages, todo, encoder, folder, storage, copies, bar)


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
    wanted = VectorManifest(
        encoder=encoder.identity, state={}, corpus=corpus_fingerprint, pages=len(pages), storage=storage
    )
    begun = _begun(folder)
    if begun is not None and _is(begun, wanted):
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
        write_sealed(fresh / _BUILDING, begun)
    return begun


def _is(begun: VectorManifest, wanted: VectorManifest) -> bool:
    # One that grew may have pages that left the corpus.
    pages = wanted.pages if begun.contents is not None and begun.first_corpus else begun.pages
    told: dict[str, Any] = {"state": {}, "contents": None, "shards": (), "first_corpus": "", "pages": pages}
    return begun.model_copy(update=told) == wanted


def _begun(folder: Path) -> VectorManifest | None:
    """What the vectors in ``folder`` are or are to be; None where there is nothing that this version began.

    Raises MismatchError for a damaged manifest. The manifest counts more than what was begun, as pages may have been
    added since then.
    """
    damage: MismatchError | None = None
    for path in (manifest_path(folder), folder / _BUILDING):
        try:
            found = read_sealed(path, VectorManifest, way_out=way_out(folder))
        except MismatchError as error:
            damage = error
            continue
        if found is not None:
            if damage is not None:
                raise damage  # Another version would have written both files.
            return found
    return None


def _encode_here(
    pages: Sequence[PageInput],
    todo: Sequence[tuple[int, Sequence[int]]],
    encoder: PageEncoder,
    folder: Path,
    storage: Storage,
    copies: Copies | None,
    bar: Any,
) -> None:
    left = [place for _, places in todo for place in places]
    given = at_places(pages, left)
    with _encoding(given, encoder, folder, copies) as (stream, meter):
        for number, places in todo:
            made = list(_watched(islice(stream, len(places)), encoder.dim, meter, bar))
            write_shard(shard_folder(folder, number), made, storage)
            _tell(folder, meter, bar)


def _encode_by(
    crew: ShardCrew, todo: Sequence[tuple[int, Sequence[int]]], folder: Path, storage: Storage, bar: Any
) -> None:
    meter = Meter(None, crew.processes)
    for done in crew.encode(folder, storage, todo):
        meter.add(pages=done.pages, vectors=done.vectors, patches=done.patches)
        bar.update(done.pages)
        _tell(folder, meter, bar)


def _tell(folder: Path, meter: Meter, bar: Any) -> None:
    write_text(folder / "throughput.json", meter.so_far.to_json())
    bar.set_postfix(told(meter.so_far), refresh=False)


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
    for page in fitting_pages(stream, dim):
        meter.count(page)
        bar.update()
        yield page
