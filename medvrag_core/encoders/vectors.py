"""Vectors of a whole corpus on disk: immutable shards, one manifest, resumable building."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from medvrag_core.encoders.base import PageEncoder, PageInput
from medvrag_core.errors import InputError, MismatchError, NotBuiltError
from medvrag_core.records import PageVectors, Record
from medvrag_core.runs.publish import sha256_of, whole_file, whole_folder, write_text

SHARD_PAGES = 64


@dataclass(frozen=True)
class _Shard:
    """Pages one after another; ``rows`` and ``patches`` count those of each page."""

    vectors: NDArray[np.float16]
    boxes: NDArray[np.float16]
    vector_of: NDArray[np.int64]
    rows: NDArray[np.int64]
    patches: NDArray[np.int64]


class ShardEntry(Record):
    """One published shard: its file, the pages in it, and its digest."""

    file: str
    sha256: str
    page_ids: tuple[str, ...]


class VectorManifest(Record):
    """What the vectors are; written last, so its presence means that every shard is whole."""

    encoder: str
    corpus: str
    dim: int
    shards: tuple[ShardEntry, ...]


class VectorStore:
    """All page vectors of a corpus, opened from disk.

    Attributes
    ----------
    page_ids : page ids in corpus order, N of them
    offsets : int64, shape (N + 1,), rows of page k are ``offsets[k]:offsets[k + 1]``
    vectors : float32, shape (rows, dim); stored as float16
    patch_offsets : int64, shape (N + 1,), patches of page k are ``patch_offsets[k]:patch_offsets[k + 1]``
    boxes : float32, shape (patches, 4)
    vector_of : int64, shape (patches,), row of each patch within its page
    """

    def __init__(self, manifest: VectorManifest, arrays: Sequence[_Shard]) -> None:
        self.manifest = manifest
        self.page_ids: tuple[str, ...] = tuple(p for shard in manifest.shards for p in shard.page_ids)
        self.offsets = _starts([shard.rows for shard in arrays])
        self.vectors: NDArray[np.float32] = np.concatenate([shard.vectors for shard in arrays]).astype(np.float32)
        self.patch_offsets = _starts([shard.patches for shard in arrays])
        self.boxes: NDArray[np.float32] = np.concatenate([shard.boxes for shard in arrays]).astype(np.float32)
        self.vector_of: NDArray[np.int64] = np.concatenate([shard.vector_of for shard in arrays])

    @classmethod
    def open(cls, folder: Path) -> VectorStore:
        """Read every shard after checking its digest.

        Raises
        ------
        NotBuiltError
            The build never finished; names the folder.
        MismatchError
            A shard is not the file that the manifest names.
        """
        path = folder / "manifest.json"
        if not path.is_file():
            raise NotBuiltError(
                f"{folder}: no finished page vectors", way_out="run notebook 02_indexing or `medvrag run`"
            )
        manifest = VectorManifest.from_json(path.read_text(encoding="utf-8"), source=str(path))
        arrays = []
        for shard in manifest.shards:
            file = folder / shard.file
            if not file.is_file() or sha256_of(file) != shard.sha256:
                raise MismatchError(
                    f"{file}: is missing or damaged", way_out=f"delete {folder} and build the vectors again"
                )
            arrays.append(_read_shard(file))
        return cls(manifest, arrays)

    @cached_property
    def _row_of(self) -> dict[str, int]:
        return {page_id: k for k, page_id in enumerate(self.page_ids)}

    def page(self, page_id: str) -> PageVectors:
        """Vectors and boxes of one page; raises InputError for an unknown id."""
        if page_id not in self._row_of:
            raise InputError(f"page '{page_id}' has no vectors in this run")
        k = self._row_of[page_id]
        rows = slice(int(self.offsets[k]), int(self.offsets[k + 1]))
        patches = slice(int(self.patch_offsets[k]), int(self.patch_offsets[k + 1]))
        return PageVectors(page_id, self.vectors[rows], self.boxes[patches], self.vector_of[patches])

    def __len__(self) -> int:
        return len(self.page_ids)


def encode_corpus(
    pages: Sequence[PageInput], encoder: PageEncoder, folder: Path, *, corpus_fingerprint: str, progress: bool = True
) -> VectorStore:
    """Fit the encoder, encode all pages in shards of 64, publish, and open the result.

    A finished build for the same corpus and encoder is opened as it is. A stopped build goes on
    after its last whole shard. Work made for another corpus or encoder is replaced, since
    vectors can always be made again from the pages.
    """
    if not pages:
        raise InputError("the corpus has no page to encode", way_out="look at its ledger.jsonl for what was dropped")
    state = folder / "encoder"
    key = folder / "building.json"
    wanted = {"corpus": corpus_fingerprint, "settings": encoder.fingerprint, "pages": len(pages)}
    if not (key.is_file() and json.loads(key.read_text(encoding="utf-8")) == wanted):
        with whole_folder(folder) as fresh:
            encoder.fit(tqdm(pages, desc="fit encoder", unit="page", disable=None if progress else True))
            (fresh / "encoder").mkdir()
            encoder.save(fresh / "encoder")
            (fresh / "building.json").write_text(json.dumps(wanted), encoding="utf-8")
    else:
        encoder.load(state)
    if (folder / "manifest.json").is_file():
        return VectorStore.open(folder)
    shards: list[ShardEntry] = []
    with tqdm(total=len(pages), desc="encode pages", unit="page", disable=None if progress else True) as bar:
        for number, start in enumerate(range(0, len(pages), SHARD_PAGES)):
            batch = pages[start : start + SHARD_PAGES]
            file = folder / f"shard-{number:05d}.npz"
            if not file.is_file():
                _write_shard(file, encoder.encode_pages(batch))
            shards.append(
                ShardEntry(file=file.name, sha256=sha256_of(file), page_ids=tuple(p.page.page_id for p in batch))
            )
            bar.update(len(batch))
    manifest = VectorManifest(
        encoder=encoder.fingerprint, corpus=corpus_fingerprint, dim=encoder.dim, shards=tuple(shards)
    )
    write_text(folder / "manifest.json", manifest.to_json())
    return VectorStore.open(folder)


def _write_shard(file: Path, pages: Iterator[PageVectors]) -> None:
    done = list(pages)
    for page in done:
        if page.vectors.shape[0] == 0 or not np.isfinite(page.vectors).all():
            raise MismatchError(f"page {page.page_id}: the encoder gave no vector or one that is not finite")
    with whole_file(file) as temporary, temporary.open("wb") as handle:
        np.savez(
            handle,
            vectors=np.concatenate([p.vectors for p in done]).astype(np.float16),
            boxes=np.concatenate([p.boxes for p in done]).astype(np.float16),
            vector_of=np.concatenate([p.vector_of for p in done]),
            rows=np.array([len(p.vectors) for p in done], dtype=np.int64),
            patches=np.array([len(p.boxes) for p in done], dtype=np.int64),
        )


def _read_shard(file: Path) -> _Shard:
    with np.load(file, allow_pickle=False) as arrays:
        return _Shard(**{field.name: arrays[field.name] for field in fields(_Shard)})


def _starts(counts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(np.concatenate(counts))]).astype(np.int64)
