"""Builds an index from page vectors, publishes it as one folder, and opens it again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from medvrag_core.encoders.identity import EncoderIdentity
from medvrag_core.encoders.shards import starts
from medvrag_core.encoders.vectors import VectorStore, require_same_encoder
from medvrag_core.errors import InputError, MismatchError, NotBuiltError
from medvrag_core.index.base import PageIndex
from medvrag_core.index.coarse_to_fine import CoarseToFineIndex, all_centroids, make_ann
from medvrag_core.index.duplicates import DuplicatePair, near_duplicates
from medvrag_core.index.exact import ExactIndex
from medvrag_core.index.maxsim import gather_pages
from medvrag_core.records import Record
from medvrag_core.runs.publish import sha256_of, whole_folder
from medvrag_core.runs.stage import save_settings
from medvrag_core.settings import IndexSettings


class IndexManifest(Record):
    """What an index was made from, and the digests of its files."""

    vectors: str
    encoder: EncoderIdentity
    pages: int
    near_duplicate: float
    left_out: tuple[DuplicatePair, ...]
    files: dict[str, str]


def vectors_fingerprint(store: VectorStore) -> str:
    """One digest over the shards of a vector store."""
    digests = [digest for shard in store.manifest.shards for digest in shard.files.values()]
    return hashlib.sha256("".join(digests).encode()).hexdigest()[:16]


def build_index(store: VectorStore, settings: IndexSettings, folder: Path, *, near_duplicate: float) -> PageIndex:
    """Write an index and open it.

    An index already made from the same vectors under the same settings is opened as it is;
    any other is replaced, which takes seconds. Parameters as in :func:`write_index`.
    """
    if not is_current(store, settings, folder, near_duplicate=near_duplicate):
        write_index(store, settings, folder, near_duplicate=near_duplicate)
    return open_index(store, settings, folder)


def write_index(store: VectorStore, settings: IndexSettings, folder: Path, *, near_duplicate: float) -> None:
    """Leave out near-duplicate pages, make centroids and the ANN, publish.

    Of the page vectors one shard at a time is in memory.

    Parameters
    ----------
    store : page vectors
    settings : Stage-1 settings
    folder : where the index is published, whole or not at all
    near_duplicate : cosine of mean page vectors above which the later page is left out
    """
    pairs = near_duplicates(store, near_duplicate)
    keep = _kept_rows(store, pairs)
    centroids, centroid_offsets = _centroids(store, keep, settings)
    with whole_folder(folder) as fresh:
        np.save(fresh / "kept_pages.npy", keep)
        np.save(fresh / "centroids.npy", centroids)
        np.save(fresh / "centroid_offsets.npy", centroid_offsets)
        _write_ann(centroids, settings, fresh / "ann.faiss")
        save_settings(fresh, settings)
        manifest = IndexManifest(
            vectors=vectors_fingerprint(store),
            encoder=store.manifest.encoder,
            pages=len(keep),
            near_duplicate=near_duplicate,
            left_out=tuple(pairs),
            files={p.name: sha256_of(p) for p in sorted(fresh.iterdir())},
        )
        (fresh / "manifest.json").write_text(manifest.model_dump_json(indent=1), encoding="utf-8")


def is_current(store: VectorStore, settings: IndexSettings, folder: Path, *, near_duplicate: float) -> bool:
    """Whether ``folder`` holds an index of these vectors under settings that shape its files."""
    try:
        manifest = read_manifest(folder)
    except (NotBuiltError, InputError):  # None, or one that another version wrote.
        return False
    stored = IndexSettings.model_validate_json((folder / "settings.json").read_text(encoding="utf-8"))
    shaping = ("centroids", "ann", "ann_neighbors", "seed")
    return (
        manifest.vectors == vectors_fingerprint(store)
        and manifest.near_duplicate == near_duplicate
        and all(getattr(stored, f) == getattr(settings, f) for f in shaping)
    )


def read_manifest(folder: Path) -> IndexManifest:
    """The manifest of a published index; NotBuiltError names the folder."""
    path = folder / "manifest.json"
    if not path.is_file():
        raise NotBuiltError(f"{folder}: no index", way_out="run notebook 02_indexing or `medvrag run` first")
    return IndexManifest.from_json(path.read_text(encoding="utf-8"), source=str(path))


def open_index(store: VectorStore, settings: IndexSettings, folder: Path) -> PageIndex:
    """Open a published index in the mode that ``settings`` asks for.

    Raises
    ------
    NotBuiltError
        There is no index in ``folder``.
    MismatchError
        A file is damaged, or the index was made from other vectors: fields of the encoder that differ are named,
        or both digests.
    """
    manifest = read_manifest(folder)
    require_same_encoder(folder, manifest.encoder, store.manifest.encoder)
    if manifest.vectors != vectors_fingerprint(store):
        raise MismatchError(
            f"{folder}: built from vectors {manifest.vectors}, the run now holds {vectors_fingerprint(store)}",
            way_out=f"delete {folder} and build the index again",
        )
    for name, digest in manifest.files.items():
        if not (folder / name).is_file() or sha256_of(folder / name) != digest:
            raise MismatchError(f"{folder / name}: is missing or damaged", way_out=f"delete {folder} and build again")
    keep = np.load(folder / "kept_pages.npy", allow_pickle=False)
    vectors, offsets, page_ids = _subset(store, keep)
    if not page_ids:
        raise InputError(f"{folder}: the index is empty")
    if settings.mode == "exact":
        return ExactIndex(page_ids, vectors, offsets, backward=settings.backward_weight)
    import faiss

    return CoarseToFineIndex(
        page_ids,
        vectors,
        offsets,
        np.load(folder / "centroids.npy", allow_pickle=False),
        np.load(folder / "centroid_offsets.npy", allow_pickle=False),
        # The digest above was checked, so FAISS only ever parses a file that this package wrote.
        faiss.read_index(str(folder / "ann.faiss")),
        settings,
    )


def _write_ann(centroids: NDArray[np.float32], settings: IndexSettings, path: Path) -> None:
    import faiss

    faiss.write_index(make_ann(centroids, settings), str(path))


def _kept_rows(store: VectorStore, pairs: list[DuplicatePair]) -> NDArray[np.int64]:
    left_out = {pair.left_out for pair in pairs}
    return np.array([k for k, page_id in enumerate(store.page_ids) if page_id not in left_out], dtype=np.int64)


def _subset(
    store: VectorStore, keep: NDArray[np.int64]
) -> tuple[NDArray[np.float32], NDArray[np.int64], tuple[str, ...]]:
    """Vectors, offsets and ids of the pages that are in the index."""
    page_ids = tuple(store.page_ids[k] for k in keep)
    if len(keep) == len(store):
        return store.vectors, store.offsets, page_ids
    offsets = starts(np.diff(store.offsets)[keep])
    every = np.empty((int(offsets[-1]), store.dim), dtype=np.float32)
    filled = 0
    for vectors, _ in _each_kept(store, keep):
        every[filled : filled + len(vectors)] = vectors
        filled += len(vectors)
    return every, offsets, page_ids


def _centroids(
    store: VectorStore, keep: NDArray[np.int64], settings: IndexSettings
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Centroids of the pages in the index, as in :func:`~.coarse_to_fine.all_centroids`, from one shard at a time."""
    parts = [all_centroids(*part, settings.centroids, settings.seed) for part in _each_kept(store, keep)]
    counts = [np.diff(offsets) for _, offsets in parts]
    return np.concatenate([centroids for centroids, _ in parts]), starts(np.concatenate(counts))


def _each_kept(store: VectorStore, keep: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.float32], NDArray[np.int64]]]:
    """Vectors and offsets of the pages in the index, shard by shard."""
    for shard in store.each_shard():
        a, b = np.searchsorted(keep, [shard.first, shard.first + len(shard.offsets) - 1])
        if a < b:
            yield gather_pages(shard.vectors, shard.offsets, keep[a:b] - shard.first)
