"""Dense search over text chunks, one vector a chunk; built in shards, so that a stopped build goes on."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from medvrag_core.corpus.chunks import TextChunk, chunks_digest
from medvrag_core.encoders.text import TextEncoder
from medvrag_core.errors import MismatchError, NotBuiltError
from medvrag_core.index.chunk_search import ChunkSearch
from medvrag_core.index.ranking import ranked_among
from medvrag_core.records import Record, SearchResult, StageTime
from medvrag_core.runs.publish import sha256_of, whole_file, whole_folder, write_text

log = logging.getLogger(__name__)

SHARD_CHUNKS = 256


class TextManifest(Record):
    """What chunk vectors are made from, how many shards they take, and the digests of those that are whole.

    ``cut`` counts the chunks in them that were longer than the encoder reads.
    """

    encoder: str
    corpus: str
    chunks: str
    shards: int
    done: tuple[str, ...] = ()
    cut: int = 0


class TextIndex(ChunkSearch):
    """Chunks with their vectors, float32, shape (chunks, d); the dot product ranks."""

    def __init__(self, chunks: Sequence[TextChunk], vectors: NDArray[np.float32], encoder: TextEncoder) -> None:
        self._ids = np.array([chunk.chunk_id for chunk in chunks])
        self._vectors = vectors
        self._encoder = encoder

    def search(self, query: str, k: int, among: NDArray[np.int64] | None = None) -> SearchResult:
        """See :class:`ChunkSearch`; the steps are ``encode_query`` and ``exact``."""
        start = time.perf_counter()
        vector = self._encoder.encode_query(query)
        encoded = time.perf_counter()
        scores = (self._vectors @ vector).astype(np.float32) if len(self._ids) else np.zeros(0, dtype=np.float32)
        hits = ranked_among(self._ids, scores, k, among)
        done = time.perf_counter()
        return SearchResult(
            hits=hits,
            times=(
                StageTime(step="encode_query", seconds=encoded - start),
                StageTime(step="exact", seconds=done - encoded),
            ),
        )


def ensure_text_index(
    chunks: Sequence[TextChunk], encoder: TextEncoder, folder: Path, *, corpus_fingerprint: str, progress: bool = True
) -> TextIndex:
    """Encode the chunks that have no vector in ``folder`` yet, and open the index.

    A stopped build goes on after its last whole shard; vectors of another corpus, encoder or cut are replaced. If
    some chunks are longer than the encoder reads, a warning tells how many.

    Raises
    ------
    MismatchError
        A shard is damaged, or the encoder gave vectors that are not finite.
    """
    wanted = _wanted(chunks, encoder, corpus_fingerprint)
    found = _read(folder)
    if found is None or _made_from(found) != wanted:
        with whole_folder(folder) as fresh:
            (fresh / "manifest.json").write_text(wanted.to_json(), encoding="utf-8")
        found = wanted
    done, cut = list(found.done), found.cut
    bar = tqdm(range(len(done), wanted.shards), desc="encode chunks", unit="shard", disable=None if progress else True)
    for number in bar:
        part = chunks[number * SHARD_CHUNKS : (number + 1) * SHARD_CHUNKS]
        cut_before = encoder.passages_cut
        vectors = encoder.encode_passages([chunk.text for chunk in part], [chunk.title for chunk in part])
        if not np.isfinite(vectors).all():
            raise MismatchError(f"{folder}: the encoder gave vectors that are not finite", way_out="check its weights")
        with whole_file(_shard(folder, number)) as temporary, temporary.open("wb") as handle:
            np.save(handle, vectors)
        done.append(sha256_of(_shard(folder, number)))
        cut += encoder.passages_cut - cut_before
        write_text(folder / "manifest.json", wanted.model_copy(update={"done": tuple(done), "cut": cut}).to_json())
    if cut:
        log.warning(
            "%d of %d chunks are longer than %s reads; a lower text.chunk_tokens would cut none of their ends off",
            *(cut, len(chunks), encoder.fingerprint),
        )
    return open_text_index(chunks, encoder, folder, corpus_fingerprint=corpus_fingerprint)


def open_text_index(
    chunks: Sequence[TextChunk], encoder: TextEncoder, folder: Path, *, corpus_fingerprint: str
) -> TextIndex:
    """The index in ``folder``, which must be whole and of these chunks and this encoder.

    Raises
    ------
    NotBuiltError
        It is not there, or its build never finished; tells how many shards are there.
    MismatchError
        It was made from something else (both sides are named), or a shard is damaged.
    """
    wanted, found = _wanted(chunks, encoder, corpus_fingerprint), _read(folder)
    if found is None or len(found.done) < found.shards:
        have = f"{len(found.done)} of {found.shards} shards" if found else "no shard"
        raise NotBuiltError(
            f"{folder}: {have} of the chunk vectors is there", way_out="run again, it goes on from there"
        )
    if _made_from(found) != wanted:
        raise MismatchError(f"{folder}: made from {_made_from(found)}, not from {wanted}", way_out=f"delete {folder}")
    for number, digest in enumerate(found.done):
        file = _shard(folder, number)
        if not file.is_file() or sha256_of(file) != digest:
            raise MismatchError(f"{file}: is missing or damaged", way_out=f"delete {folder}, it is made again")
    parts = [np.load(_shard(folder, number), allow_pickle=False) for number in range(found.shards)]
    return TextIndex(chunks, np.concatenate(parts) if parts else np.zeros((0, 0), dtype=np.float32), encoder)


def _wanted(chunks: Sequence[TextChunk], encoder: TextEncoder, corpus_fingerprint: str) -> TextManifest:
    return TextManifest(
        encoder=encoder.fingerprint,
        corpus=corpus_fingerprint,
        chunks=chunks_digest(chunks),
        shards=-(-len(chunks) // SHARD_CHUNKS),
    )


def _made_from(manifest: TextManifest) -> TextManifest:
    return manifest.model_copy(update={"done": (), "cut": 0})


def _read(folder: Path) -> TextManifest | None:
    path = folder / "manifest.json"
    return TextManifest.from_json(path.read_text(encoding="utf-8"), source=str(path)) if path.is_file() else None


def _shard(folder: Path, number: int) -> Path:
    return folder / f"vectors-{number:05d}.npy"
