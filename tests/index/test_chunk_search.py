"""Searches over chunks: by words, by vectors, fused and reranked; builds that are stopped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from medvrag_core.corpus.chunks import TextChunk
from medvrag_core.encoders.embedded import EmbeddedEncoder
from medvrag_core.encoders.minilm import MiniLmTextEncoder
from medvrag_core.encoders.text import TextEncoder
from medvrag_core.errors import MismatchError, NotBuiltError
from medvrag_core.index import text_index
from medvrag_core.index.chunk_search import Bm25Chunks, ChunkSearch, FusedChunks
from medvrag_core.index.rerank import ChunkScorer, CrossEncoded, RerankedChunks, ensure_late_interaction
from medvrag_core.index.text_index import ensure_text_index, open_text_index
from medvrag_core.profiles.load import load_profile
from medvrag_core.records import Hit, SearchResult, StageTime

TEXTS = {
    "gout#p1#c1": "Allopurinol lowers serum urate in gout and is started at a low dose.",
    "gout#p1#c2": "Colchicine treats the acute attack.",
    "asthma#p1#c1": "Inhaled steroids cause oral candidiasis, so patients rinse the mouth.",
    "anemia#p2#c1": "Ferritin below 30 confirms iron deficiency; raised IL-6 and HbA1c were seen.",
}
CHUNKS = [TextChunk(chunk_id=name, page_id=name[:-3], text=text, title="Gout") for name, text in TEXTS.items()]


class CountingEncoder(TextEncoder):
    """Vectors out of the texts' letters; counts the texts it was given, and can be told to fail."""

    def __init__(self, *, fails_after: int = 10**9, name: str = "letters") -> None:
        self.given: list[str] = []
        self.titles: list[str] = []
        self.fails_after = fails_after
        self.name = name

    @property
    def fingerprint(self) -> str:
        return self.name

    def encode_passages(self, texts: Sequence[str], titles: Sequence[str] = ()) -> np.ndarray:
        if len(self.given) >= self.fails_after:
            raise KeyboardInterrupt
        self.given += texts
        self.titles += titles
        return np.stack([self.encode_query(text) for text in texts])

    def encode_query(self, text: str) -> np.ndarray:
        return np.array([text.count(letter) for letter in "abcdefgh"], dtype=np.float32)


class Fixed(ChunkSearch):
    """The same ranking for every query."""

    def __init__(self, ids: Sequence[str]) -> None:
        self.ids = ids

    def search(self, query: str, k: int, among: NDArray[np.int64] | None = None) -> SearchResult:
        hits = tuple(Hit(page_id=i, score=1 / r, rank=r) for r, i in enumerate(self.ids[:k], start=1))
        return SearchResult(hits=hits, times=(StageTime(step="fixed", seconds=0.5),))


class Lengths(ChunkScorer):
    """Prefers long ids."""

    def scores(self, query: str, chunk_ids: Sequence[str]) -> np.ndarray:
        return np.array([len(i) for i in chunk_ids], dtype=np.float32)

    def text_scores(self, query: str, texts: Sequence[str]) -> np.ndarray:
        return self.scores(query, texts)


def ids(result: SearchResult) -> list[str]:
    assert [hit.rank for hit in result.hits] == list(range(1, len(result.hits) + 1))
    return [hit.page_id for hit in result.hits]


def made_chunks(count: int) -> list[TextChunk]:
    return [TextChunk(chunk_id=f"a#p1#c{k}", page_id="a#p1", text="abcdefgh"[: k % 8 + 1] * k) for k in range(count)]


class TestWords:
    @pytest.mark.parametrize("query", ["IL 6", "il-6", "HbA1c"])
    def test_bc31_codes_are_found_by_their_parts(self, query: str) -> None:
        assert ids(Bm25Chunks(CHUNKS).search(query, 4)) == ["anemia#p2#c1"]

    def test_chunks_without_a_common_word_are_no_hits(self) -> None:
        assert ids(Bm25Chunks(CHUNKS).search("spirometry", 4)) == []
        assert ids(Bm25Chunks([]).search("gout", 4)) == []

    def test_the_step_is_timed(self) -> None:
        assert [t.step for t in Bm25Chunks(CHUNKS).search("gout", 1).times] == ["bm25"]


class TestVectors:
    def test_the_ranking_is_that_of_the_plain_dot_product(self, tmp_path: Path) -> None:
        encoder = MiniLmTextEncoder()
        index = ensure_text_index(CHUNKS, encoder, tmp_path / "t", corpus_fingerprint="c", progress=False)
        query = "Which drug lowers uric acid?"
        scores = [float(encoder.encode_query(c.text) @ encoder.encode_query(query)) for c in CHUNKS]
        best = [CHUNKS[k].chunk_id for k in np.argsort(scores)[::-1]]
        found = index.search(query, 3)
        assert ids(found) == best[:3]
        assert found.hits[0].score == pytest.approx(max(scores), abs=1e-6)
        assert [t.step for t in found.times] == ["encode_query", "exact"]

    def test_no_chunks_give_no_hits(self, tmp_path: Path) -> None:
        index = ensure_text_index([], CountingEncoder(), tmp_path / "t", corpus_fingerprint="c", progress=False)
        assert ids(index.search("gout", 3)) == []

    def test_titles_reach_the_encoder(self, tmp_path: Path) -> None:
        encoder = CountingEncoder()
        ensure_text_index(CHUNKS, encoder, tmp_path / "t", corpus_fingerprint="c", progress=False)
        assert encoder.titles == ["Gout"] * 4

    def test_bc32_a_stopped_build_goes_on_and_never_passes_for_whole(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(text_index, "SHARD_CHUNKS", 5)
        chunks, folder = made_chunks(38), tmp_path / "t"
        stopped = CountingEncoder(fails_after=15)
        with pytest.raises(KeyboardInterrupt):
            ensure_text_index(chunks, stopped, folder, corpus_fingerprint="c", progress=False)
        with pytest.raises(NotBuiltError, match="3 of 8 shards"):
            open_text_index(chunks, stopped, folder, corpus_fingerprint="c")
        second = CountingEncoder()
        resumed = ensure_text_index(chunks, second, folder, corpus_fingerprint="c", progress=False)
        assert second.given == [c.text for c in chunks[15:]], "resumes at shard 4"
        whole = ensure_text_index(chunks, CountingEncoder(), tmp_path / "u", corpus_fingerprint="c", progress=False)
        assert resumed.search("aabc", 38).hits == whole.search("aabc", 38).hits

    def test_bc25_a_finished_index_is_opened_as_it_is(self, tmp_path: Path) -> None:
        first = ensure_text_index(CHUNKS, CountingEncoder(), tmp_path / "t", corpus_fingerprint="c", progress=False)
        encoder = CountingEncoder()
        again = ensure_text_index(CHUNKS, encoder, tmp_path / "t", corpus_fingerprint="c", progress=False)
        assert encoder.given == []
        assert again.search("abc", 4).hits == first.search("abc", 4).hits

    @pytest.mark.parametrize("other", ["encoder", "corpus", "chunks"])
    def test_bc26_vectors_of_something_else_are_refused_or_replaced(self, tmp_path: Path, other: str) -> None:
        ensure_text_index(CHUNKS, CountingEncoder(), tmp_path / "t", corpus_fingerprint="c", progress=False)
        encoder = CountingEncoder(name="other" if other == "encoder" else "letters")
        corpus = "other" if other == "corpus" else "c"
        chunks = [CHUNKS[0].model_copy(update={"text": "other"}), *CHUNKS[1:]] if other == "chunks" else CHUNKS
        with pytest.raises(MismatchError, match=r"made from .*not from"):
            open_text_index(chunks, encoder, tmp_path / "t", corpus_fingerprint=corpus)
        ensure_text_index(chunks, encoder, tmp_path / "t", corpus_fingerprint=corpus, progress=False)
        assert len(encoder.given) == 4

    def test_chunks_longer_than_the_encoder_reads_are_counted_over_a_stopped_build(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        class Short(CountingEncoder):
            def encode_passages(self, texts: Sequence[str], titles: Sequence[str] = ()) -> np.ndarray:
                rows = super().encode_passages(texts, titles)
                self.passages_cut += sum(len(text) > 100 for text in texts)
                return rows

        monkeypatch.setattr(text_index, "SHARD_CHUNKS", 5)
        chunks, folder = made_chunks(38), tmp_path / "t"
        with pytest.raises(KeyboardInterrupt):
            ensure_text_index(chunks, Short(fails_after=30), folder, corpus_fingerprint="c", progress=False)
        assert not caplog.messages
        ensure_text_index(chunks, Short(), folder, corpus_fingerprint="c", progress=False)
        long = sum(len(chunk.text) > 100 for chunk in chunks)
        assert long > sum(len(chunk.text) > 100 for chunk in chunks[30:]) > 0
        (told,) = caplog.messages
        assert f"{long} of 38 chunks are longer than letters reads" in told
        encoder = Short()
        ensure_text_index(chunks, encoder, folder, corpus_fingerprint="c", progress=False)
        assert encoder.given == [] and caplog.messages == [told, told], "told again when opened, and not made anew"

    def test_a_damaged_shard_is_named(self, tmp_path: Path) -> None:
        ensure_text_index(CHUNKS, CountingEncoder(), tmp_path / "t", corpus_fingerprint="c", progress=False)
        (tmp_path / "t" / "vectors-00000.npy").write_bytes(b"damaged")
        with pytest.raises(MismatchError, match=r"vectors-00000\.npy: is missing or damaged"):
            ensure_text_index(CHUNKS, CountingEncoder(), tmp_path / "t", corpus_fingerprint="c", progress=False)

    def test_vectors_that_are_not_finite_are_refused(self, tmp_path: Path) -> None:
        class Broken(CountingEncoder):
            def encode_query(self, text: str) -> np.ndarray:
                return np.full(8, np.nan, dtype=np.float32)

        with pytest.raises(MismatchError, match="not finite"):
            ensure_text_index(CHUNKS, Broken(), tmp_path / "t", corpus_fingerprint="c", progress=False)


ORDERS = st.permutations(list("abcdefgh")).map(lambda order: [f"x#p1#c{letter}" for letter in order])


class TestFused:
    @given(ORDERS, ORDERS, st.integers(1, 8))
    @settings(max_examples=50, deadline=None)
    def test_bc30_the_order_is_that_of_the_formula(self, first: list[str], second: list[str], k: int) -> None:
        found = FusedChunks([Fixed(first), Fixed(second)], 60).search("q", 8)
        score = {i: 1 / (61 + first.index(i)) + 1 / (61 + second.index(i)) for i in first}
        assert ids(found)[:k] == sorted(first, key=lambda i: (-score[i], i))[:k]
        assert [t.step for t in found.times] == ["fixed", "fixed", "fuse"]

    def test_a_word_search_without_hits_leaves_the_order_of_the_other(self) -> None:
        order = ["gout#p1#c2", "anemia#p2#c1", "asthma#p1#c1"]
        assert ids(FusedChunks([Bm25Chunks(CHUNKS), Fixed(order)], 60).search("spirometry", 3)) == order


class TestReranked:
    @given(
        st.lists(st.text("ab", min_size=1, max_size=6), unique=True, max_size=8), st.integers(1, 9), st.integers(1, 9)
    )
    @settings(max_examples=60, deadline=None)
    def test_the_best_of_the_first_in_the_order_of_the_scorer(self, order: list[str], depth: int, k: int) -> None:
        found = RerankedChunks(Fixed(order), Lengths(), depth).search("q", k)
        assert ids(found) == sorted(order[:depth], key=lambda i: (-len(i), i))[:k]
        assert [t.step for t in found.times] == ["fixed", "rerank"]

    def test_the_cross_encoder_reads_titles_where_there_are_some(self) -> None:
        class Seen:
            def scores(self, query: str, passages: Sequence[str]) -> np.ndarray:
                self.passages = list(passages)
                return np.zeros(len(passages), dtype=np.float32)

        untitled = CHUNKS[1].model_copy(update={"title": ""})
        scorer = CrossEncoded(seen := Seen(), {c.chunk_id: c for c in (CHUNKS[0], untitled)})  # type: ignore[arg-type]
        scorer.scores("q", [untitled.chunk_id, CHUNKS[0].chunk_id])
        assert seen.passages == [untitled.text, f"Gout. {CHUNKS[0].text}"]


@pytest.fixture
def late(tmp_path: Path) -> Callable[..., ChunkScorer]:
    def build(**given: float) -> ChunkScorer:
        encoder = EmbeddedEncoder(load_profile("test").encoder)
        there = tmp_path / "late"
        return ensure_late_interaction(CHUNKS, encoder, there, corpus_fingerprint="c", progress=False, **given)

    return build


Late = Callable[..., ChunkScorer]
NAMES = list(TEXTS)


class TestLateInteraction:
    def test_the_chunk_that_speaks_of_it_scores_highest(self, late: Late) -> None:
        scorer = late()
        assert int(scorer.scores("How is oral candidiasis prevented?", NAMES).argmax()) == 2
        assert int(scorer.scores("ferritin and iron deficiency", NAMES).argmax()) == 3

    def test_a_score_does_not_depend_on_the_other_chunks(self, late: Late) -> None:
        scorer = late()
        together = scorer.scores("urate in gout", NAMES[::-1])[::-1]
        assert np.allclose(together, [scorer.scores("urate in gout", [name])[0] for name in NAMES], atol=1e-6)

    def test_the_backward_half_counts_as_much_as_it_is_told(self, late: Late) -> None:
        none, half, full = (late(backward=weight).scores("urate in gout", NAMES) for weight in (0.0, 0.5, 1.0))
        assert np.allclose(half - none, full - half, atol=1e-6)
        assert np.abs(full - none).max() > 0.01

    def test_bc25_it_scores_the_same_after_opening_again(self, late: Late) -> None:
        assert np.array_equal(late().scores("gout", NAMES), late().scores("gout", NAMES))

    def test_a_text_scores_as_the_chunk_of_the_same_words(self, late: Late) -> None:
        scorer = late()
        wanted = scorer.scores("urate in gout", NAMES)
        assert np.allclose(scorer.text_scores("urate in gout", list(TEXTS.values())), wanted, atol=2e-3), "float16"
        assert np.ptp(wanted) > 0.1
