"""Dense search over text chunks, one vector a chunk; the retriever of the text-only arm."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from medvrag_core.corpus.chunks import TextChunk
from medvrag_core.encoders.text import TextEncoder
from medvrag_core.index.exact import ranked_hits
from medvrag_core.records import Record, SearchResult, StageTime
from medvrag_core.runs.publish import whole_folder


class TextManifest(Record):
    """What the chunk vectors were made from."""

    encoder: str
    corpus: str
    chunks: tuple[TextChunk, ...]


class TextIndex:
    """Chunks with their unit vectors, float32, shape (chunks, d)."""

    def __init__(self, chunks: Sequence[TextChunk], vectors: np.ndarray, encoder: TextEncoder) -> None:
        self.chunks = {chunk.chunk_id: chunk for chunk in chunks}
        self._ids = np.array([chunk.chunk_id for chunk in chunks])
        self._vectors = vectors
        self._encoder = encoder

    def search(self, query: str, k: int) -> SearchResult:
        """The ``k`` chunks with the highest cosine; the steps are ``encode_query`` and ``exact``."""
        start = time.perf_counter()
        vector = self._encoder.encode_query(query)
        encoded = time.perf_counter()
        hits = ranked_hits(self._ids, (self._vectors @ vector).astype(np.float32), k)
        done = time.perf_counter()
        return SearchResult(
            hits=hits,
            times=(
                StageTime(step="encode_query", seconds=encoded - start),
                StageTime(step="exact", seconds=done - encoded),
            ),
        )


def ensure_text_index(
    chunks: Sequence[TextChunk], encoder: TextEncoder, folder: Path, *, corpus_fingerprint: str
) -> TextIndex:
    """Open the chunk vectors in ``folder``, or encode and publish them if they are not there or stale."""
    wanted = TextManifest(encoder=encoder.fingerprint, corpus=corpus_fingerprint, chunks=tuple(chunks))
    path = folder / "manifest.json"
    if not (path.is_file() and path.read_text(encoding="utf-8") == wanted.to_json()):
        vectors = encoder.encode_passages([chunk.text for chunk in chunks])
        with whole_folder(folder) as fresh:
            np.save(fresh / "vectors.npy", vectors)
            (fresh / "manifest.json").write_text(wanted.to_json(), encoding="utf-8")
    return TextIndex(chunks, np.load(folder / "vectors.npy", allow_pickle=False), encoder)
