"""Searches over text chunks, one interface for every text arm: by words, by vectors, and by both."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from medvrag_core.corpus.chunks import TextChunk
from medvrag_core.index.fusion import reciprocal_rank_fusion
from medvrag_core.index.lexical import Bm25Index
from medvrag_core.records import Hit, SearchResult, StageTime


class ChunkSearch(ABC):
    """Ranks the chunks of a corpus for a query; hits carry chunk ids."""

    @abstractmethod
    def search(self, query: str, k: int, among: NDArray[np.int64] | None = None) -> SearchResult:
        """The best ``k`` chunks at most, equal scores in order of chunk id, with the time of every step.

        Parameters
        ----------
        among : search these chunks alone: their places in the list that the search was made from, ascending. Word
            statistics stay those of all chunks, so that scores of several parts of a corpus compare.
        """


def search_each(search: ChunkSearch, query: str, k: int, sources: Mapping[str, NDArray[np.int64]]) -> SearchResult:
    """The best ``k`` chunks of each source, ranked together, so that a large source does not push out a small one.

    Source-balanced retrieval of MedRGAG (arXiv 2510.18297). Each source was searched by itself there, with word
    statistics of its own, and the reranker alone made the scores compare.

    Parameters
    ----------
    sources : places of the chunks of each source, see :meth:`ChunkSearch.search`; no chunk belongs to two
    """
    found = [search.search(query, k, among) for among in sources.values()]
    merged = sorted((hit for result in found for hit in result.hits), key=lambda hit: (-hit.score, hit.page_id))
    return SearchResult(
        hits=tuple(Hit(page_id=hit.page_id, score=hit.score, rank=rank) for rank, hit in enumerate(merged, start=1)),
        times=tuple(time for result in found for time in result.times),
    )


class Bm25Chunks(ChunkSearch):
    """BM25 over chunk texts; a chunk that shares no word with the query is no hit."""

    def __init__(self, chunks: Sequence[TextChunk], *, stemming: bool = False) -> None:
        names, texts = [chunk.chunk_id for chunk in chunks], [chunk.text for chunk in chunks]
        self._index = Bm25Index(names, texts, stemming=stemming)

    def search(self, query: str, k: int, among: NDArray[np.int64] | None = None) -> SearchResult:
        """See :class:`ChunkSearch`; the step is ``bm25``."""
        start = time.perf_counter()
        hits = tuple(hit for hit in self._index.search(query, k, among) if hit.score > 0)
        return SearchResult(hits=hits, times=(StageTime(step="bm25", seconds=time.perf_counter() - start),))


class FusedChunks(ChunkSearch):
    """Reciprocal rank fusion of several searches, each to depth ``k``, under the ``constant`` of its formula."""

    def __init__(self, parts: Sequence[ChunkSearch], constant: int) -> None:
        self._parts = parts
        self._constant = constant

    def search(self, query: str, k: int, among: NDArray[np.int64] | None = None) -> SearchResult:
        """See :class:`ChunkSearch`; the steps of the parts, then ``fuse``."""
        found = [part.search(query, k, among) for part in self._parts]
        start = time.perf_counter()
        rankings = [[hit.page_id for hit in result.hits] for result in found]
        hits = reciprocal_rank_fusion(rankings, k, constant=self._constant)
        fused = StageTime(step="fuse", seconds=time.perf_counter() - start)
        return SearchResult(hits=hits, times=(*(time for result in found for time in result.times), fused))
