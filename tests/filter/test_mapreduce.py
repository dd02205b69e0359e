from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvrag_core.errors import ModelError
from medvrag_core.filter.base import Candidate, ShardRanker
from medvrag_core.filter.embedded_ranker import EmbeddedRanker
from medvrag_core.filter.mapreduce import MapReduceFilter, repaired
from medvrag_core.settings import FilterSettings


def pool(n: int) -> list[Candidate]:
    return [Candidate(page_id=str(101 + i), summary=f"summary {i}", rank=i + 1, score=1.0 - i / 1000) for i in range(n)]


class Scripted(ShardRanker):
    """Replies from a script; a ModelError in the script is raised."""

    def __init__(self, *replies: list[str] | ModelError) -> None:
        self.replies = list(replies)
        self.calls: list[list[str]] = []

    def rank(self, query: str, shard: Sequence[Candidate], keep: int) -> list[str]:
        self.calls.append([c.page_id for c in shard])
        reply = self.replies.pop(0)
        if isinstance(reply, ModelError):
            raise reply
        return reply


class Reversed(ShardRanker):
    """Prefers the last candidate, so that every call visibly changes the order."""

    def rank(self, query: str, shard: Sequence[Candidate], keep: int) -> list[str]:
        return [c.page_id for c in reversed(shard)]


def test_bc20_repeats_strangers_and_gaps_are_repaired() -> None:
    call = repaired("map", ["104", "104", "999", "101"], ("101", "102", "103", "104"), 4)
    assert call.kept == ("104", "101", "102", "103")
    assert (call.dropped_ids, call.filled) == (2, 2)


@given(st.lists(st.integers(0, 30).map(str), max_size=40), st.integers(1, 12), st.integers(1, 12))
def test_whatever_comes_back_the_kept_ids_are_whole(reply: list[str], size: int, keep: int) -> None:
    shown = tuple(str(i) for i in range(size))
    keep = min(keep, size)
    kept = repaired("map", reply, shown, keep).kept
    assert len(kept) == keep == len(set(kept))
    assert set(kept) <= set(shown)


def test_bc21_a_shard_whose_calls_fail_keeps_its_stage1_order() -> None:
    ranker = Scripted(["105", "104"], ModelError("timeout"), ModelError("timeout"), ["110", "106", "105"])
    decision = MapReduceFilter(ranker, FilterSettings(shard_size=5, map_keep=2, keep=3)).select("q", pool(10))
    assert decision.calls[1].kept == ("106", "107")
    assert [call.fallback for call in decision.calls] == [False, True, False]
    assert len(decision.kept) == 3


def test_bc22_a_small_pool_needs_one_call() -> None:
    decision = MapReduceFilter(Reversed(), FilterSettings()).select("q", pool(7))
    assert [call.phase for call in decision.calls] == ["map"]
    assert decision.kept == tuple(str(101 + i) for i in reversed(range(7)))


def test_the_paper_sizes_give_eight_map_calls_and_one_reduce() -> None:
    decision = MapReduceFilter(Reversed(), FilterSettings()).select("q", pool(2_000))
    assert [call.phase for call in decision.calls] == ["map"] * 8 + ["reduce"]
    assert [len(call.kept) for call in decision.calls] == [25] * 8 + [100]
    assert len(set(decision.kept)) == 100


def test_nothing_in_nothing_out() -> None:
    assert MapReduceFilter(Reversed(), FilterSettings()).select("q", []).kept == ()


@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_the_embedded_ranker_prefers_the_summary_that_fits(weight: float) -> None:
    shard = [
        Candidate("a#p1", "dosing of metformin in renal failure", 1, 0.52),
        Candidate("b#p1", "retinal screening schedule for hydroxychloroquine", 2, 0.51),
        Candidate("c#p1", "history of the clinic", 3, 0.50),
    ]
    assert EmbeddedRanker(weight).rank("hydroxychloroquine retinal screening", shard, 1) == ["b#p1"]


def test_the_embedded_ranker_without_any_signal_keeps_stage1_order() -> None:
    shard = [Candidate(f"{n}#p1", "", n, 1.0) for n in (1, 2, 3)]
    assert EmbeddedRanker().rank("anything", shard, 3) == ["1#p1", "2#p1", "3#p1"]
