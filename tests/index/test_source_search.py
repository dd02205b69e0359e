"""Searches that are held to one source, and the same number of chunks from each of several."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medvrag_core.corpus.chunks import TextChunk
from medvrag_core.index.chunk_search import Bm25Chunks, ChunkSearch, search_each
from medvrag_core.index.text_factory import make_chunk_search
from medvrag_core.profiles.load import load_profile
from medvrag_core.settings import TextSettings

WORDS = ("gout", "urate", "iron", "dose", "asthma")
QUERY = "gout and urate dose"


def chunks_of(texts: Sequence[str]) -> list[TextChunk]:
    return [TextChunk(chunk_id=f"a#p1#c{n:03}", page_id="a#p1", text=text) for n, text in enumerate(texts)]


MADE = chunks_of([f"{WORDS[n % 5]} {WORDS[n % 3]} {WORDS[n % 2]} note {n}" for n in range(12)])


@pytest.fixture(params=["bm25", "dense", "fused", "reranked"])
def search(request: pytest.FixtureRequest, tmp_path: Path) -> ChunkSearch:
    """Each kind of search over the same chunks; the reranker sees as many as are asked for."""
    kinds = {"reranked": {"retriever": "bm25", "reranker": "embedded", "rerank_depth": 5}}
    text = TextSettings.model_validate(kinds.get(request.param, {"retriever": request.param}))
    named = {chunk.chunk_id: chunk for chunk in MADE}
    return make_chunk_search(named, text, load_profile("test").encoder, tmp_path, corpus_fingerprint="c")


def test_one_source_is_the_plain_search(search: ChunkSearch) -> None:
    every = np.arange(len(MADE), dtype=np.int64)
    plain = search.search(QUERY, 5)
    balanced = search_each(search, QUERY, 5, {"": every})
    assert balanced.hits == plain.hits and len(plain.hits) == 5
    assert [time.step for time in balanced.times] == [time.step for time in plain.times]


def test_each_source_gives_its_own_whatever_its_size(search: ChunkSearch) -> None:
    large, small = np.arange(10, dtype=np.int64), np.array([10, 11], dtype=np.int64)
    found = search_each(search, QUERY, 3, {"large": large, "small": small})
    names = [hit.page_id for hit in found.hits]
    assert len(set(names)) == len(names) == 5
    assert {name for name in names if name >= "a#p1#c010"} == {"a#p1#c010", "a#p1#c011"}
    assert [hit.rank for hit in found.hits] == [1, 2, 3, 4, 5]
    assert [hit.score for hit in found.hits] == sorted((hit.score for hit in found.hits), reverse=True)
    assert all(len(search.search(QUERY, 9, part).hits) <= len(part) for part in (large, small))
    assert search.search(QUERY, 3, np.zeros(0, dtype=np.int64)).hits == ()


@given(
    texts=st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join), min_size=1, max_size=12),
    sources=st.integers(1, 3),
    k=st.integers(1, 5),
)
@settings(max_examples=40, deadline=None)
def test_a_source_s_best_are_the_plain_ranking_without_the_others(texts: list[str], sources: int, k: int) -> None:
    chunks = chunks_of(texts)
    search = Bm25Chunks(chunks)
    parts = {str(n): np.arange(n, len(chunks), sources, dtype=np.int64) for n in range(sources)}
    whole = search.search(QUERY, len(chunks)).hits

    def kept(source: str) -> list[str]:
        return [hit.page_id for hit in whole if int(hit.page_id[-3:]) % sources == int(source)][:k]

    found = {hit.page_id: hit.score for hit in search_each(search, QUERY, k, parts).hits}
    assert set(found) == {name for source in parts for name in kept(source)}
    assert all(found[hit.page_id] == hit.score for hit in whole if hit.page_id in found)
