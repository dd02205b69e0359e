"""The driver of map and reduce: levels, repairs, fallbacks, threads."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medvrag_core.errors import ModelError, SettingsError
from medvrag_core.filter.base import Candidate, NoRankingError, Phase, Ranking, Shard, ShardRanker
from medvrag_core.filter.embedded_ranker import EmbeddedRanker
from medvrag_core.filter.llm_ranker import LlmRanker
from medvrag_core.filter.mapreduce import REDUCE_CUT, MapReduceFilter, interleaved, repaired, stage1_order
from medvrag_core.models.outcomes import CallError, RunStopped
from medvrag_core.records import ShardDecision
from medvrag_core.settings import FilterSettings

Pool = Callable[..., list[Candidate]]


class Reversed(ShardRanker):
    """Prefers the last candidate, so that every call visibly changes the order."""

    def rank(self, query: str, shard: Sequence[Candidate], keep: int, phase: Phase = "map") -> Ranking:
        return Ranking(page_ids=tuple(c.page_id for c in reversed(shard)))


class Small(Reversed):
    """Ranks at most ``most`` at one time, whatever the settings say."""

    def __init__(self, most: int) -> None:
        self.most = most

    def shards(self, query: str, ordered: Sequence[Candidate], size: int, keep: int) -> list[Shard]:
        return super().shards(query, ordered, min(size, self.most), keep)


class Failing(Reversed):
    """Raises what is planned for the shard that begins with a page."""

    def __init__(self, **errors: BaseException) -> None:
        self.errors = errors
        self.asked: list[str] = []

    def rank(self, query: str, shard: Sequence[Candidate], keep: int, phase: Phase = "map") -> Ranking:
        self.asked.append(shard[0].page_id)
        if error := self.errors.get(shard[0].page_id.split("#")[0]):
            raise error
        return super().rank(query, shard, keep, phase)


def ids(numbers: Sequence[int]) -> tuple[str, ...]:
    return tuple(f"p{n}#p1" for n in numbers)


# --- sizes and levels -----------------------------------------------------------------------


def test_the_paper_sizes_give_eight_map_calls_and_one_reduce(pool: Pool) -> None:
    decision = MapReduceFilter(Reversed(), FilterSettings()).select("q", pool(2_000))
    assert [call.phase for call in decision.calls] == ["map"] * 8 + ["reduce"]
    assert [len(call.kept) for call in decision.calls] == [25] * 8 + [100]
    assert len(set(decision.kept)) == 100


def test_nothing_in_nothing_out() -> None:
    assert MapReduceFilter(Reversed(), FilterSettings()).select("q", []).kept == ()


def test_survivors_that_do_not_fit_are_reduced_in_levels(pool: Pool) -> None:
    decision = MapReduceFilter(Small(20), FilterSettings(map_keep=5, keep=8)).select("q", pool(200))
    # 200 -> 10 shards, 50 left -> 3 shards, 15 left -> one call.
    assert [call.phase for call in decision.calls] == ["map"] * 10 + ["reduce"] * 4
    assert [len(call.shown) for call in decision.calls] == [20] * 10 + [20, 20, 10, 15]
    assert decision.kept == decision.calls[-1].kept and len(decision.kept) == 8
    assert not any(call.flags for call in decision.calls)


def test_a_level_that_does_not_halve_ends_in_one_call_on_the_best_of_each_shard(pool: Pool) -> None:
    decision = MapReduceFilter(Small(4), FilterSettings(map_keep=25, keep=10)).select("q", pool(12))
    assert [len(call.shown) for call in decision.calls] == [4, 4, 4, 4]
    assert decision.calls[-1].flags == (REDUCE_CUT,)
    assert decision.calls[-1].shown == ids([4, 8, 12, 3])
    assert decision.kept == ids([3, 12, 8, 4, 7, 11, 2, 6, 10, 1]), "ranked ones first, then the others interleaved"


def test_room_that_only_the_shorter_reply_of_map_has_does_not_cost_pages(pool: Pool) -> None:
    class LongReplies(Reversed):
        def shards(self, query: str, ordered: Sequence[Candidate], size: int, keep: int) -> list[Shard]:
            return super().shards(query, ordered, 20 - keep, keep)

    decision = MapReduceFilter(LongReplies(), FilterSettings(map_keep=5, keep=12)).select("q", pool(10))
    assert [len(call.shown) for call in decision.calls] == [8, 2, 7]
    assert len(decision.kept) == 7, "one map call over all ten would keep five"


@settings(deadline=None)
@given(
    n=st.integers(0, 300),
    size=st.integers(2, 40),
    most=st.integers(1, 40),
    map_keep=st.integers(1, 50),
    keep=st.integers(1, 60),
    data=st.data(),
)
def test_it_always_ends_with_whole_ids_and_a_bounded_number_of_calls(
    pool: Pool, n: int, size: int, most: int, map_keep: int, keep: int, data: st.DataObject
) -> None:
    given_order = data.draw(st.permutations(pool(n))) if n < 40 else pool(n)
    decision = MapReduceFilter(Small(most), FilterSettings(shard_size=size, map_keep=map_keep, keep=keep)).select(
        "q", given_order
    )
    assert len(decision.kept) == len(set(decision.kept)) <= keep
    assert set(decision.kept) <= {c.page_id for c in given_order}
    shards = -(-n // min(size, most))
    assert len(decision.calls) <= 3 * shards + 1
    shown = [page_id for call in decision.calls if call.phase == "map" for page_id in call.shown]
    assert shown == [f"p{i}#p1" for i in range(1, n + 1)], "each candidate in exactly one map call, in Stage-1 order"
    if n <= min(size, most):
        assert len(decision.kept) == min(n, keep)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 5), st.sampled_from("abcdef")), max_size=12), st.randoms())
def test_candidates_stand_by_rank_then_id_and_once(drawn: list[tuple[int, str]], shuffle: random.Random) -> None:
    candidates = [Candidate(page_id, "", rank, 0.0) for rank, page_id in drawn]
    ordered = stage1_order(candidates)
    assert [(c.rank, c.page_id) for c in ordered] == sorted((c.rank, c.page_id) for c in ordered)
    assert {c.page_id: c.rank for c in ordered} == {p: min(r for r, q in drawn if q == p) for _, p in drawn}
    shuffle.shuffle(candidates)
    assert stage1_order(candidates) == ordered


def test_interleaving_takes_the_best_of_each_first() -> None:
    calls = [ShardDecision(phase="map", shown=(), kept=kept) for kept in (("a", "b", "c"), ("d",), ("e", "f"))]
    assert interleaved(calls) == ("a", "d", "e", "b", "f", "c")


# --- repairs --------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.lists(st.integers(0, 30).map(str), max_size=40), st.integers(1, 12), st.integers(1, 12))
def test_whatever_comes_back_the_kept_ids_are_whole(reply: list[str], size: int, keep: int) -> None:
    shown = tuple(str(i) for i in range(size))
    shard = Shard(tuple(Candidate(page_id, "", rank=n, score=0.0) for n, page_id in enumerate(shown, 1)))
    keep = min(keep, size)
    call = repaired("map", shard, Ranking(page_ids=tuple(reply)), keep)
    assert len(call.kept) == keep == len(set(call.kept)) and set(call.kept) <= set(shown)
    assert call.strangers == sum(page_id not in shown for page_id in reply)
    assert call.repeated == sum(page_id in reply[:n] for n, page_id in enumerate(reply) if page_id in shown)
    assert call.dropped_ids == call.repeated + call.strangers
    named = [page_id for page_id in dict.fromkeys(reply) if page_id in shown][:keep]
    assert list(call.kept[: len(named)]) == named and call.filled == keep - len(named)
    assert list(call.kept[len(named) :]) == [i for i in shown if i not in named][: call.filled]
    assert call.fallback == (not named) and call.reason == ("" if named else "unreadable")


# --- failures -------------------------------------------------------------------------------


def stored(kind: Any, **fields: Any) -> CallError:
    error = CallError(kind, "late", tokens=(700, 30))
    error.call = "k1"
    return error


@pytest.mark.parametrize(
    ("error", "reason", "call", "tokens"),
    [
        (stored("timeout"), "timeout", "k1", 700),
        (stored("truncated"), "truncated", "k1", 700),
        (ModelError("no"), "unreadable", "", 0),
        (
            NoRankingError("no", Ranking(page_ids=(), call="k2", prompt_tokens=9, flags=("x",))),
            "unreadable",
            "k2",
            9,
        ),
    ],
)
def test_a_failed_call_keeps_its_stage1_order_and_is_not_tried_again(
    pool: Pool, error: ModelError, reason: str, call: str, tokens: int
) -> None:
    ranker = Failing(p6=error)
    decision = MapReduceFilter(ranker, FilterSettings(shard_size=5, map_keep=2, keep=4)).select("q", pool(10))
    assert ranker.asked == ["p1#p1", "p6#p1", "p4#p1"]
    second = decision.calls[1]
    assert (second.kept, second.filled) == (ids([6, 7]), 2)
    assert (second.fallback, second.reason, second.call, second.prompt_tokens) == (True, reason, call, tokens)
    assert [c.fallback for c in decision.calls] == [False, True, False]


@pytest.mark.parametrize("at_once", [1, 4])
@pytest.mark.parametrize("error", [RunStopped("server is gone"), SettingsError("x"), ZeroDivisionError()])
def test_what_is_no_model_error_passes_through(pool: Pool, error: Exception, at_once: int) -> None:
    ranker = Failing(p6=error)
    ranker.side_by_side = at_once
    with pytest.raises(type(error)):
        MapReduceFilter(ranker, FilterSettings(shard_size=5, map_keep=2)).select("q", pool(50))


def test_tokens_that_cannot_be_counted_make_the_whole_question_fall_back(pool: Pool) -> None:
    class Uncountable(Reversed):
        def shards(self, query: str, ordered: Sequence[Candidate], size: int, keep: int) -> list[Shard]:
            raise CallError("transport", "cannot be reached")

    decision = MapReduceFilter(Uncountable(), FilterSettings(keep=3)).select("q", pool(9))
    assert decision.kept == ids([1, 2, 3])
    assert [(c.fallback, c.reason, len(c.shown)) for c in decision.calls] == [(True, "transport", 9)]


# --- threads --------------------------------------------------------------------------------


def test_threads_and_the_order_of_replies_change_nothing(fake_chat: Any, pool: Pool) -> None:
    def after_a_while(request: Any) -> str | Exception:
        time.sleep(random.random() / 100)
        if "\n7. about page 107\n" in request.messages[0].text:
            return CallError("timeout", "late")
        return str(fake_chat.by_digest(request))

    decisions = []
    for at_once in (1, 8, 32):
        model = fake_chat(after_a_while)
        page_filter = MapReduceFilter(
            LlmRanker(model, side_by_side=at_once), FilterSettings(shard_size=10, map_keep=3, keep=12)
        )
        candidates = pool(400)
        random.shuffle(candidates)
        decisions.append(page_filter.select("q", candidates))
        assert model.most_at_once <= at_once
        assert (model.most_at_once > 1) == (at_once > 1)
    assert decisions[0] == decisions[1] == decisions[2]
    assert [c.fallback for c in decisions[0].calls].count(True) == 1


HANGS = """
import os
import threading
from medvrag_core.filter.base import Candidate, ShardRanker
from medvrag_core.filter.mapreduce import MapReduceFilter
from medvrag_core.settings import FilterSettings

class Hangs(ShardRanker):
    side_by_side = 4
    def rank(self, query, shard, keep, phase="map"):
        os.write(1, b"begun\\n")  # one write, since threads share the output
        threading.Event().wait(300)

pool = [Candidate(str(n), "", n, 0.0) for n in range(1, 101)]
MapReduceFilter(Hangs(), FilterSettings(shard_size=2, map_keep=1)).select("q", pool)
"""


def test_ctrl_c_twice_ends_a_process_whose_calls_hang() -> None:
    process = subprocess.Popen([sys.executable, "-c", HANGS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(4)] == ["begun\n"] * 4
        time.sleep(0.3)  # The last thread has begun; the first one may still wait for the others to start.
        process.send_signal(signal.SIGINT)  # No further call begins, those under way may end.
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=20)
    finally:
        process.kill()
    assert "KeyboardInterrupt" in errors and "begun" not in rest


# --- the embedded ranker --------------------------------------------------------------------


@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_the_embedded_ranker_prefers_the_summary_that_fits(weight: float) -> None:
    shard = [
        Candidate("a#p1", "dosing of metformin in renal failure", 1, 0.52),
        Candidate("b#p1", "retinal screening schedule for hydroxychloroquine", 2, 0.51),
        Candidate("c#p1", "history of the clinic", 3, 0.50),
    ]
    ranking = EmbeddedRanker(weight).rank("hydroxychloroquine retinal screening", shard, 1)
    assert ranking == Ranking(page_ids=("b#p1",))


def test_the_embedded_ranker_without_any_signal_keeps_stage1_order() -> None:
    shard = [Candidate(f"{n}#p1", "", n, 1.0) for n in (1, 2, 3)]
    assert EmbeddedRanker().rank("anything", shard, 3).page_ids == ("1#p1", "2#p1", "3#p1")
