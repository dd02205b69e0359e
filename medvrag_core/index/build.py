"""The life of an index: built segment by segment, taken up again where it was stopped, grown, thinned, and opened."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from medvrag_core.corpus.store import CorpusStore
from medvrag_core.encoders.shards import starts
from medvrag_core.encoders.vectors import VectorStore, require_same_encoder
from medvrag_core.errors import InputError, MismatchError, NotBuiltError
from medvrag_core.index.base import PageIndex
from medvrag_core.index.coarse_to_fine import Centroids, CoarseToFineIndex, ann_kind, make_ann
from medvrag_core.index.coded_index import CodedIndex, IndexedPages
from medvrag_core.index.coded_pages import CodedPages
from medvrag_core.index.duplicates import Duplicates, near_duplicates
from medvrag_core.index.fast import FastIndex
from medvrag_core.index.manifest import (
    AnnEntry,
    IndexManifest,
    SegmentEntry,
    read_manifest,
    shards_digest,
    way_out,
    write_manifest,
)
from medvrag_core.index.page_alikeness import PairKind
from medvrag_core.index.segments import open_segments, write_segment
from medvrag_core.index.torch_index import on_gpu
from medvrag_core.runs.crew import Crew
from medvrag_core.runs.publish import abandoned, whole_folder
from medvrag_core.runs.verified import digests, verify
from medvrag_core.settings import IndexSettings

SEGMENT_NUMBERS = 2**26
"""Numbers in the vectors of one segment, of one shard at least: what a build holds in memory, and what one that is
stopped does again at most. 2^26 are some 5,000 pages of 103 vectors of 128."""
MOST_SMALL = 32
"""Segments under half that size at the end of an index; each holds two files open."""
_ANN = "ann.faiss"


def build_index(
    store: VectorStore,
    settings: IndexSettings,
    folder: Path,
    *,
    near_duplicate: float,
    without: Collection[str] = (),
    corpus: CorpusStore | None = None,
    keep: Collection[PairKind] = (),
    crew: Crew | None = None,
    progress: bool = True,
) -> PageIndex:
    """Bring an index up to date, and open it. Parameters as in :func:`write_index`."""
    write_index(
        store,
        settings,
        folder,
        near_duplicate=near_duplicate,
        without=without,
        corpus=corpus,
        keep=keep,
        crew=crew,
        progress=progress,
    )
    return open_index(store, settings, folder)


def write_index(
    store: VectorStore,
    settings: IndexSettings,
    folder: Path,
    *,
    near_duplicate: float,
    without: Collection[str] = (),
    corpus: CorpusStore | None = None,
    keep: Collection[PairKind] = (),
    crew: Crew | None = None,
    progress: bool = True,
) -> None:
    """Make the segments and files that are missing, leave out near-duplicate pages, and publish the manifest.

    Segments of the same vectors stay as they are: an index that is up to date costs nothing, one that was stopped goes
    on, and one to whose vectors pages were added gets a segment for them. Memory holds the vectors of one segment.
    Pages that were deleted stay deleted.

    Parameters
    ----------
    store : page vectors
    settings : Stage-1 settings
    folder : of the index
    near_duplicate : cosine of mean page vectors above which the later page is left out
    without : pages that count as deleted from the beginning, where there is no index yet
    corpus, keep : by which near-duplicates are told apart, see :func:`~medvrag_core.index.duplicates.near_duplicates`
    crew : makes segments in place of this process
    """
    before = _usable(store, settings, folder)
    kept = [] if before is None else _without_many_small(store, before.segments)
    todo = _ranges(store, kept[-1].shards[1] if kept else 0)
    manifest = IndexManifest(
        encoder=store.manifest.encoder,
        settings=settings,
        segments=tuple(kept),
        segments_wanted=len(kept) + len(todo),
        near_duplicate=near_duplicate,
        kinds_kept=tuple(sorted({*keep})),
        deleted=tuple(sorted({*without})) if before is None else before.deleted,
        ann=None if before is None else before.ann,
    )
    made = _in_order(_segments(store, todo, settings, folder, crew), todo)
    for entry in tqdm(made, total=len(todo), desc="index pages", unit="segment", disable=None if progress else True):
        kept.append(entry)
        manifest = manifest.model_copy(update={"segments": tuple(kept)})
        write_manifest(folder, manifest)
    if before is not None and before.finished and not todo and _same_rule(before, manifest):
        found = Duplicates(left_out=before.left_out, alike=before.alike)
    else:
        found = near_duplicates(store, near_duplicate, without=manifest.deleted, corpus=corpus, keep=keep)
    ann = _make_ann(settings, folder, manifest)
    whole = manifest.model_copy(update={"left_out": found.left_out, "alike": found.alike, "ann": ann, "finished": True})
    if whole != before:
        write_manifest(folder, whole)
    _remove_others(folder, whole)


def _same_rule(before: IndexManifest, now: IndexManifest) -> bool:
    """Whether near-duplicates were sought by the rule in force; an earlier version had another one."""
    return (before.near_duplicate, before.kinds_kept) == (now.near_duplicate, now.kinds_kept)


def delete_pages(
    store: VectorStore, folder: Path, page_ids: Collection[str], *, corpus: CorpusStore | None = None
) -> IndexManifest:
    """Take pages out of an index; what is left answers as an index made without them.

    Costs one manifest, unless another page was found to be the near-duplicate of one of them: then near-duplicates are
    sought anew, in the ``corpus`` that the index was made with.

    Raises
    ------
    InputError : a page is not in the index; names the first
    """
    manifest = read_manifest(folder)
    unknown = sorted({*page_ids} - ({*store.page_ids} - {*manifest.deleted}))
    if unknown:
        raise InputError(f"page '{unknown[0]}' is not in the index {folder}")
    deleted = tuple(sorted({*manifest.deleted, *page_ids}))
    left_out, alike = (
        tuple(pair for pair in pairs if pair.left_out not in page_ids) for pairs in (manifest.left_out, manifest.alike)
    )
    found = Duplicates(left_out=left_out, alike=alike)
    if any(pair.kept in page_ids for pair in (*left_out, *alike)):
        keep = manifest.kinds_kept or ()
        found = near_duplicates(store, manifest.near_duplicate, without=deleted, corpus=corpus, keep=keep)
    fresh = manifest.model_copy(update={"deleted": deleted, "left_out": found.left_out, "alike": found.alike})
    write_manifest(folder, fresh)
    return fresh


def restore_pages(folder: Path, page_ids: Collection[str]) -> None:
    """Take back that pages were deleted; the next :func:`write_index` seeks near-duplicates anew and finishes this."""
    manifest = read_manifest(folder)
    left = tuple(page_id for page_id in manifest.deleted if page_id not in page_ids)
    if left != manifest.deleted:
        write_manifest(folder, manifest.model_copy(update={"deleted": left, "finished": False}))


def open_index(
    store: VectorStore, settings: IndexSettings, folder: Path, *, partial: bool = False, full: bool = False
) -> PageIndex:
    """Open a published index in the mode that ``settings`` asks for.

    Parameters
    ----------
    partial : open the segments that are there although the build never finished
    full : read every file anew, see :func:`~medvrag_core.runs.verified.verify`

    Raises
    ------
    NotBuiltError
        There is no index in ``folder``, its build never finished, or it has no ANN for mode ``paper``.
    MismatchError
        A file is damaged, or the index was made from other vectors: fields of the encoder that differ are named,
        or both digests.
    """
    manifest = usable_manifest(store, folder, partial=partial, full=full)
    places = findable(store, manifest)
    if settings.mode == "exact" and (there := on_gpu(store, places, settings)) is not None:
        return there
    segments = open_segments([folder / entry.folder for entry in manifest.segments])
    pages = IndexedPages(
        store.page_ids,
        CodedPages(segments, backward=settings.backward_weight, threads=settings.threads),
        store.stored_rows,
        places,
        store.dim,
        settings.rescore,
    )
    if settings.mode == "exact":
        return CodedIndex(pages)
    if settings.mode == "fast":
        return FastIndex(pages, settings.shortlist)
    centroids = Centroids.of(segments, store.dim)
    return CoarseToFineIndex(pages, centroids, _open_ann(centroids.vectors, settings, folder, manifest), settings)


def usable_manifest(store: VectorStore, folder: Path, *, partial: bool = False, full: bool = False) -> IndexManifest:
    """The manifest of an index whose files are whole and fit the vectors; parameters, errors as :func:`open_index`."""
    manifest = read_manifest(folder)
    require_same_encoder(folder, manifest.encoder, store.manifest.encoder)
    if not manifest.finished and not partial:
        raise NotBuiltError(
            f"{folder}: an unfinished index, {len(manifest.segments)} of {manifest.segments_wanted} segments are there",
            way_out="run `medvrag index` again, it goes on from there",
        )
    _require_same_vectors(store, manifest, folder)
    verify(folder, manifest.files, way_out=way_out(folder), full=full)
    if manifest.pages < 1:
        raise InputError(f"{folder}: the index is empty")
    return manifest


def findable(store: VectorStore, manifest: IndexManifest) -> NDArray[np.int64]:
    """Places of the pages that a search can find, ascending: not left out, not deleted, and in a segment."""
    gone = {pair.left_out for pair in manifest.left_out} | {*manifest.deleted}
    covered = sum(entry.pages for entry in manifest.segments)
    return np.array([k for k, page_id in enumerate(store.page_ids[:covered]) if page_id not in gone], dtype=np.int64)


def _usable(store: VectorStore, settings: IndexSettings, folder: Path) -> IndexManifest | None:
    """The manifest that is there, with those of its segments that can stay; None if nothing can."""
    try:
        found = read_manifest(folder)
        verify(folder, found.files, way_out=way_out(folder))
    except (NotBuiltError, MismatchError):  # What is missing, damaged or of another version is made anew.
        return None
    if found.encoder.differences(store.manifest.encoder) or found.settings.centroids != settings.centroids:
        return None
    same = [entry.vectors == shards_digest(store, entry.shards) for entry in found.segments]
    stay = same.index(False) if False in same else len(same)
    return found.model_copy(update={"segments": found.segments[:stay]})


def _without_many_small(store: VectorStore, segments: Sequence[SegmentEntry]) -> list[SegmentEntry]:
    """The same, but for those at the end that were added bit by bit, once they are many: they are made anew as one."""
    begins = starts(np.array([shard.pages for shard in store.manifest.shards]))
    rows = [int(np.diff(store.offsets[begins[list(segment.shards)]])[0]) for segment in segments]
    small = list(takewhile(lambda count: 2 * count * store.dim < SEGMENT_NUMBERS, reversed(rows)))
    return list(segments[: len(segments) - len(small)] if len(small) > MOST_SMALL else segments)


def _ranges(store: VectorStore, first: int) -> list[tuple[int, int]]:
    """Shards of each segment to be made, from shard ``first`` on."""
    begins = starts(np.array([shard.pages for shard in store.manifest.shards]))
    cuts = [first]
    for shard in range(first + 1, len(begins)):
        if store.dim * (store.offsets[begins[shard]] - store.offsets[begins[cuts[-1]]]) > SEGMENT_NUMBERS:
            cuts.append(max(shard - 1, cuts[-1] + 1))
    if cuts[-1] < len(store.manifest.shards):
        cuts.append(len(store.manifest.shards))
    return list(pairwise(cuts))


class SegmentWorker:
    """Makes segments of the vectors in ``vectors`` for a crew."""

    def __init__(self, vectors: Path, settings: IndexSettings, folder: Path) -> None:
        self._store, self._settings, self._folder = VectorStore.open(vectors), settings, folder

    def __call__(self, shards: tuple[int, int]) -> SegmentEntry:
        """Publish the segment of some shards."""
        return _make_segment(self._store, shards, self._settings, self._folder)


def _segments(
    store: VectorStore, todo: Sequence[tuple[int, int]], settings: IndexSettings, folder: Path, crew: Crew | None
) -> Iterator[SegmentEntry]:
    if crew is None:
        return (_make_segment(store, shards, settings, folder) for shards in todo)
    make = partial(SegmentWorker, store.folder.absolute(), settings, folder.absolute())
    return crew.work(make, todo, kind="index")


def _in_order(made: Iterator[SegmentEntry], todo: Sequence[tuple[int, int]]) -> Iterator[SegmentEntry]:
    """The same in the order of the store, which a manifest has; an entry waits for those before it."""
    early: dict[tuple[int, int], SegmentEntry] = {}
    wanted = iter(todo)
    place = next(wanted, None)
    for entry in made:
        early[entry.shards] = entry
        while place in early:
            yield early.pop(place)
            place = next(wanted, None)


def _make_segment(store: VectorStore, shards: tuple[int, int], settings: IndexSettings, folder: Path) -> SegmentEntry:
    first, end = (sum(shard.pages for shard in store.manifest.shards[:number]) for number in shards)
    vectors = shards_digest(store, shards)
    home = folder / f"segment-{shards[0]:06d}-{vectors[:8]}"
    with whole_folder(home) as fresh:
        write_segment(fresh, *store.rows(np.arange(first, end)), settings.centroids)
    return SegmentEntry(folder=home.name, shards=shards, vectors=vectors, pages=end - first, files=digests(home))


def _make_ann(settings: IndexSettings, folder: Path, manifest: IndexManifest) -> AnnEntry | None:
    """The ANN that mode ``paper`` searches, unless it is there, or quickly made whenever the index is opened."""
    if settings.mode != "paper":
        return manifest.ann
    segments = open_segments([folder / entry.folder for entry in manifest.segments])
    centroids = Centroids.of(segments, manifest.encoder.dim).vectors
    kind = ann_kind(len(centroids), settings)
    if kind == "flat" or _is_ann_of(manifest.ann, kind, settings, manifest):
        return manifest.ann
    import faiss

    home = folder / f"ann-{kind}-{manifest.segments_digest()[:8]}"
    with whole_folder(home) as fresh:
        faiss.write_index(make_ann(centroids, settings), str(fresh / _ANN))
    return AnnEntry(
        folder=home.name, kind=kind, seed=settings.seed, segments=manifest.segments_digest(), files=digests(home)
    )


def _is_ann_of(ann: AnnEntry | None, kind: str, settings: IndexSettings, manifest: IndexManifest) -> bool:
    return ann is not None and (ann.kind, ann.seed, ann.segments) == (kind, settings.seed, manifest.segments_digest())


def _open_ann(centroids: NDArray[np.float32], settings: IndexSettings, folder: Path, manifest: IndexManifest) -> Any:
    kind = ann_kind(len(centroids), settings)
    if kind == "flat":
        return make_ann(centroids, settings)
    if manifest.ann is None or not _is_ann_of(manifest.ann, kind, settings, manifest):
        raise NotBuiltError(
            f"{folder}: the index has no ANN of kind '{kind}' for mode 'paper'",
            way_out="run `medvrag index` with index.mode=paper and the same settings",
        )
    import faiss

    # The digest was checked, so FAISS only ever parses a file that this package wrote.
    return faiss.read_index(str(folder / manifest.ann.folder / _ANN))


def _require_same_vectors(store: VectorStore, manifest: IndexManifest, folder: Path) -> None:
    covered = manifest.segments[-1].shards[1] if manifest.segments else 0
    for entry in manifest.segments:
        if (now := shards_digest(store, entry.shards)) != entry.vectors:
            raise MismatchError(
                f"{folder / entry.folder}: built from vectors {entry.vectors}, the run now holds {now}",
                way_out="run `medvrag index` again",
            )
    if manifest.finished and covered < len(store.manifest.shards):
        pages = sum(shard.pages for shard in store.manifest.shards[covered:])
        raise MismatchError(
            f"{folder}: {pages:,} pages were added to the run after the index was made",
            way_out="run `medvrag index` again, it adds them",
        )


def _remove_others(folder: Path, manifest: IndexManifest) -> None:
    """Remove what earlier builds left and this index does not need."""
    used = {entry.folder for entry in manifest.segments} | ({manifest.ann.folder} if manifest.ann else set())
    for home in folder.iterdir():
        under_way = home.name.endswith(".part") and not abandoned(home)
        if home.is_dir() and home.name not in used and not under_way:
            shutil.rmtree(home)
