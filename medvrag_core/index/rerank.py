"""A second look at the best chunks of a search: late interaction on the embedded default, or a cross-encoder."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from medvrag_core.corpus.chunks import TextChunk, chunks_digest
from medvrag_core.encoders.base import PageEncoder, PageInput, PageInputs
from medvrag_core.encoders.encode import encode_corpus
from medvrag_core.encoders.vectors import VectorStore
from medvrag_core.index.chunk_search import ChunkSearch
from medvrag_core.index.maxsim import gather_pages, score_pages
from medvrag_core.index.ranking import ranked_hits
from medvrag_core.records import Page, PageLayout, SearchResult, StageTime, Word

if TYPE_CHECKING:
    from medvrag_core.encoders.transformer import CrossEncoder


class ChunkScorer(ABC):
    """Scores some chunks against a query."""

    @abstractmethod
    def scores(self, query: str, chunk_ids: Sequence[str]) -> NDArray[np.float32]:
        """One score a chunk, higher is better, float32, shape (len(chunk_ids),)."""

    @abstractmethod
    def text_scores(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """As :meth:`scores`, for texts that need not be in the corpus and have no title."""


class RerankedChunks(ChunkSearch):
    """The ``depth`` best chunks of a search, in the order of a scorer.

    The others are left out: their scores are on another scale, which the filter would take for the same one.

    Attributes
    ----------
    scorer : as it was given
    """

    def __init__(self, first: ChunkSearch, scorer: ChunkScorer, depth: int) -> None:
        self._first = first
        self.scorer = scorer
        self._depth = depth

    def search(self, query: str, k: int, among: NDArray[np.int64] | None = None) -> SearchResult:
        """See :class:`ChunkSearch`; the steps of the first search, then ``rerank``."""
        found = self._first.search(query, max(k, self._depth), among)
        start = time.perf_counter()
        ids = [hit.page_id for hit in found.hits[: self._depth]]
        hits = ranked_hits(np.array(ids), self.scorer.scores(query, ids), k) if ids else ()
        took = StageTime(step="rerank", seconds=time.perf_counter() - start)
        return SearchResult(hits=hits, times=(*found.times, took))


class CrossEncoded(ChunkScorer):
    """Query and chunk read together; the chunk is ``title. text``, as MedCPT's cross-encoder was trained."""

    def __init__(self, encoder: CrossEncoder, chunks: Mapping[str, TextChunk]) -> None:
        self._encoder = encoder
        self._chunks = chunks

    def scores(self, query: str, chunk_ids: Sequence[str]) -> NDArray[np.float32]:
        """See :class:`ChunkScorer`."""
        chunks = [self._chunks[chunk_id] for chunk_id in chunk_ids]
        return self.text_scores(query, [f"{c.title}. {c.text}" if c.title else c.text for c in chunks])

    def text_scores(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """See :class:`ChunkScorer`."""
        return self._encoder.scores(query, texts)


class LateInteraction(ChunkScorer):
    """The paper's two-way score S (section 3.2) between query tokens and runs of a chunk's words.

    Parameters
    ----------
    store : vectors of all chunks
    encoder : the page encoder that made them, in the same state
    backward : weight of the second half of S
    """

    def __init__(self, store: VectorStore, encoder: PageEncoder, *, backward: float = 1.0) -> None:
        self._store = store
        self._encoder = encoder
        self._backward = backward
        self._row_of = {chunk_id: row for row, chunk_id in enumerate(store.page_ids)}

    def scores(self, query: str, chunk_ids: Sequence[str]) -> NDArray[np.float32]:
        """See :class:`ChunkScorer`."""
        rows = np.array([self._row_of[chunk_id] for chunk_id in chunk_ids], dtype=np.int64)
        return self._scored(query, *gather_pages(self._store.vectors, self._store.offsets, rows))

    def text_scores(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """See :class:`ChunkScorer`; each text is encoded as a chunk is."""
        made = [TextChunk(chunk_id=f"text#{n}", page_id="text", text=text) for n, text in enumerate(texts)]
        vectors = [page.vectors for page in self._encoder.encode_pages(map(_as_page, made))]
        offsets = np.cumsum([0, *map(len, vectors)], dtype=np.int64)
        return self._scored(query, np.concatenate(vectors), offsets)

    def _scored(self, query: str, vectors: NDArray[np.float32], offsets: NDArray[np.int64]) -> NDArray[np.float32]:
        return score_pages(self._encoder.encode_query(query), vectors, offsets, backward=self._backward)


def ensure_late_interaction(
    chunks: Sequence[TextChunk],
    encoder: PageEncoder,
    folder: Path,
    *,
    corpus_fingerprint: str,
    backward: float = 1.0,
    progress: bool = True,
) -> LateInteraction:
    """Encode each chunk as if it were a page without a layout, or open what is there; resumable, see `encode_corpus`.

    Parameters
    ----------
    chunks : all chunks of the corpus, at least one
    encoder : a page encoder that reads words; it is fitted on the chunks
    folder : takes the vectors
    corpus_fingerprint : of the pages that the chunks were cut from
    backward : weight of the second half of S
    """
    store = encode_corpus(
        PageInputs(len(chunks), lambda place: _as_page(chunks[place])),
        encoder,
        folder,
        corpus_fingerprint=f"{corpus_fingerprint}-{chunks_digest(chunks)}",
        progress=progress,
    )
    return LateInteraction(store, encoder, backward=backward)


def _as_page(chunk: TextChunk) -> PageInput:
    page = Page(
        page_id=chunk.chunk_id,
        article_id=chunk.page_id,
        number=1,
        width_pt=0,
        height_pt=0,
        image="",
        image_width=0,
        image_height=0,
        dpi=0,
        text_source="none",
        text=chunk.text,
    )
    words = tuple(Word(text=word, box=(0.0, 0.0, 1.0, 1.0)) for word in chunk.text.split())
    return PageInput(page=page, layout=PageLayout(page_id=chunk.chunk_id, words=words, regions=()), image=Path())
