"""The ranker without a model: what it remembers of summaries changes no ranking."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from medvrag_core.filter.base import Candidate
from medvrag_core.filter.embedded_ranker import EmbeddedRanker
from medvrag_core.index.lexical import Bm25Index, tokenize

WORDS = st.lists(st.sampled_from(["dose", "5 mg", "IL-6", "renal", "the"]), max_size=5).map(" ".join)


@given(st.lists(WORDS, min_size=1, max_size=6), st.lists(WORDS, min_size=1, max_size=4))
def test_a_ranker_that_saw_the_summaries_ranks_as_a_fresh_one(summaries: list[str], queries: list[str]) -> None:
    shard = [
        Candidate(page_id=f"p{n}", summary=text, score=1 / (n + 1), rank=n + 1) for n, text in enumerate(summaries)
    ]
    used = EmbeddedRanker()
    for query in queries:
        assert used.rank(query, shard, 3) == EmbeddedRanker().rank(query, shard, 3)


def test_a_summary_is_cut_into_words_once() -> None:
    seen: list[str] = []

    def counted(text: str) -> list[str]:
        seen.append(text)
        return tokenize(text)

    given_words = Bm25Index(["a", "b"], ["renal dose", "5 mg"], words_of=counted)
    assert seen == ["renal dose", "5 mg"]
    assert given_words.scores("dose").tolist() == Bm25Index(["a", "b"], ["renal dose", "5 mg"]).scores("dose").tolist()
    ranker = EmbeddedRanker()
    shard = [Candidate(page_id="a", summary="renal dose", score=1.0, rank=1)]
    for _ in range(3):
        ranker.rank("dose", shard, 1)
    assert ranker._words_of.cache_info().misses == 1
