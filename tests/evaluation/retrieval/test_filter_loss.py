"""Where gold pages are lost in the filter (case BC-21: fallbacks are counted in the arm's report)."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medvrag_core.errors import InputError
from medvrag_core.evaluation.retrieval.filter_loss import FATES, filter_fallbacks, filter_loss
from medvrag_core.evaluation.statistics.proportions import wilson
from medvrag_core.filter.base import Candidate, Phase, Ranking, ShardRanker
from medvrag_core.filter.mapreduce import MapReduceFilter
from medvrag_core.models.outcomes import CallError
from medvrag_core.records import FilterDecision, Hit, Round, ShardDecision, Trace
from medvrag_core.settings import FilterSettings

MakeTrace = Callable[..., Trace]
FIRST = tuple("abcdef")


def with_filter(trace: Trace, *decisions: FilterDecision) -> Trace:
    rounds = [r.model_copy(update={"filter": d}) for r, d in zip(trace.rounds, decisions, strict=True)]
    return trace.model_copy(update={"rounds": tuple(rounds)})


def call(phase: Phase, shown: str, kept: str, **fields: object) -> ShardDecision:
    return ShardDecision.model_validate({"phase": phase, "shown": tuple(shown), "kept": tuple(kept)} | fields)


def decision(kept: str, *calls: ShardDecision) -> FilterDecision:
    return FilterDecision(kept=tuple(kept), calls=calls)


@pytest.fixture(scope="session")
def two_shards(make_trace: MakeTrace) -> Trace:
    """Pages a to f in two shards; e is lost to a fallback, c in map, b in reduce, z was never found."""
    trace = make_trace(rounds=[(FIRST, (), ())], gold_pages=("a", "b", "c", "e", "z"))
    return with_filter(
        trace,
        decision(
            "ad",
            call("map", "abc", "ab", repeated=1, strangers=2, filled=1, prompt_tokens=800, flags=["summary_cut"]),
            call("map", "def", "d", fallback=True, reason="timeout", filled=1),
            call("reduce", "abd", "ad", prompt_tokens=300),
        ),
    )


def test_each_gold_page_is_lost_in_one_place(two_shards: Trace) -> None:
    loss = filter_loss([two_shards])
    counts = {row.fate: row.count for row in loss.rows}
    assert counts == {
        "kept": 1, "lost_to_fallback": 1, "lost_in_reduce": 1, "lost_in_map": 1, "lost_unseen": 0,
    }  # fmt: skip
    assert (loss.questions, loss.gold, loss.candidates, loss.never_candidates) == (1, 5, 4, 1)
    kept = loss.rows[0]
    assert (kept.share, (kept.low, kept.high)) == (0.25, wilson(1, 4))


def test_calls_are_counted(two_shards: Trace) -> None:
    calls = filter_loss([two_shards]).calls
    assert (calls.calls, calls.repeated, calls.strangers, calls.filled, calls.cut) == (3, 1, 2, 2, 1)
    assert calls.fallbacks == {"timeout": 1}
    assert (calls.prompt_tokens_median, calls.prompt_tokens_max) == (550.0, 800)


def test_any_round_counts_the_round_in_which_a_page_came_furthest(make_trace: MakeTrace) -> None:
    trace = make_trace(rounds=[(FIRST, (), ()), (("a", "c"), (), ())], gold_pages=("a", "b", "c"))
    lost = decision("d", call("map", "abcdef", "bcd"), call("reduce", "bcd", "d"))
    trace = with_filter(trace, lost, decision("a", call("map", "ac", "a", fallback=True, reason="refused")))
    first, whole = filter_loss([trace]), filter_loss([trace], rounds="any")
    assert [row.fate for row in first.rows if row.count] == ["lost_in_reduce", "lost_in_map"]
    assert {row.fate: row.count for row in whole.rows if row.count} == {
        "kept": 1, "lost_to_fallback": 1, "lost_in_reduce": 1,
    }  # fmt: skip
    assert (first.calls.calls, whole.calls.calls) == (2, 3)


def test_chunks_stand_for_their_page_by_the_one_that_came_furthest(make_trace: MakeTrace) -> None:
    chunks = ("x#p1#c1", "x#p1#c2", "x#p11#c1")
    trace = make_trace(rounds=[(chunks, (), ())], gold_pages=("x#p1", "x#p11"))
    shown = ShardDecision(phase="map", shown=chunks, kept=("x#p1#c2",))
    loss = filter_loss([with_filter(trace, FilterDecision(kept=("x#p1#c2",), calls=(shown,)))])
    assert {row.fate: row.count for row in loss.rows if row.count} == {"kept": 1, "lost_in_map": 1}


def test_nothing_came_in(make_trace: MakeTrace) -> None:
    loss = filter_loss([make_trace(gold_pages=("a",)), make_trace("q2"), make_trace("q3", rounds=(), gold_pages="b")])
    assert (loss.questions, loss.gold, loss.candidates, loss.never_candidates) == (1, 1, 0, 1)
    assert all((row.count, row.low, row.high) == (0, 0.0, 1.0) for row in loss.rows)
    assert loss.calls.prompt_tokens_median is None and loss.calls.prompt_tokens_max is None


def test_several_arms_are_refused(make_trace: MakeTrace) -> None:
    with pytest.raises(InputError, match="arms"):
        filter_loss([make_trace("q1"), make_trace("q2", system="text_rag")])


def test_bc21_fallbacks_are_counted_by_question_and_reason(make_trace: MakeTrace) -> None:
    late = call("map", "ab", "a", fallback=True, reason="timeout")
    cut = call("reduce", "ab", "a", fallback=True, reason="truncated")
    fine = call("map", "ab", "a")
    traces = [
        with_filter(make_trace("q1"), decision("a", late, late, cut)),
        with_filter(make_trace("q2", rounds=[((), (), ())] * 2), decision("a", fine), decision("a", late)),
        with_filter(make_trace("q3"), decision("a", fine)),
    ]
    assert filter_fallbacks(traces) == {"timeout": 2, "truncated": 1}
    assert filter_fallbacks([]) == {}


class Erratic(ShardRanker):
    """Ranks by a seeded shuffle and fails now and then."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def rank(self, query: str, shard: Sequence[Candidate], keep: int, phase: Phase = "map") -> Ranking:
        if self.random.random() < 0.3:
            raise CallError("timeout", "late")
        ids = [c.page_id for c in shard]
        return Ranking(page_ids=tuple(self.random.sample(ids, len(ids))))


@settings(deadline=None)
@given(st.integers(1, 60), st.integers(2, 12), st.integers(1, 8), st.integers(1, 20), st.integers(0, 10**6))
def test_the_fates_of_a_real_filter_add_up(
    make_trace: MakeTrace, n: int, size: int, map_keep: int, keep: int, seed: int
) -> None:
    pool = [Candidate(f"x#p{i}", "", i, 1.0 / i) for i in range(1, n + 1)]
    made = MapReduceFilter(Erratic(seed), FilterSettings(shard_size=size, map_keep=map_keep, keep=keep)).select(
        "", pool
    )
    trace = make_trace(gold_pages=tuple(f"x#p{i}" for i in range(1, n + 6)))
    round_: Round = trace.rounds[0].model_copy(
        update={"filter": made, "stage1": tuple(Hit(page_id=c.page_id, score=c.score, rank=c.rank) for c in pool)}
    )
    loss = filter_loss([trace.model_copy(update={"rounds": (round_,)})])
    counts = {row.fate: row.count for row in loss.rows}
    assert sorted(counts) == sorted(FATES) and sum(counts.values()) == n == loss.candidates
    assert loss.never_candidates == 5
    assert counts["kept"] == len(made.kept) and counts["lost_unseen"] == 0
    if not any(c.fallback for c in made.calls):
        assert counts["lost_to_fallback"] == 0
