"""The loop over scripted readers: when it goes on, when it ends, what it keeps and what it flags."""

from __future__ import annotations

from typing import Any

import pytest

from medvrag_core.errors import ModelError
from medvrag_core.filter.embedded_ranker import EmbeddedRanker
from medvrag_core.filter.mapreduce import MapReduceFilter
from medvrag_core.models.outcomes import CallError, RunStopped
from medvrag_core.reasoning.loop import RoundError, run_rounds, verdict
from medvrag_core.reasoning.memory import MAX_FINDINGS
from medvrag_core.reasoning.reader import Reader
from medvrag_core.records import Question, ReaderInput, ReaderReply, Round, SeenPage, ShardDecision
from medvrag_core.settings import FilterSettings, LoopSettings

QUESTION = Question(id="q", question="Which test?", options={"A": "Fundoscopy", "B": "Spirometry"}, answer="A")
Said = str | ReaderReply | Exception


class Scripted(Reader):
    name = "scripted"
    fingerprint = "scripted"

    def __init__(self, *replies: Said) -> None:
        self.replies = list(replies)
        self.seen: list[ReaderInput] = []

    def read(self, given: ReaderInput) -> ReaderReply:
        self.seen.append(given)
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply if isinstance(reply, ReaderReply) else ReaderReply(text=reply)

    def refine(self, given: ReaderInput) -> ReaderReply:
        raise AssertionError("only the option-blind arm refines")


@pytest.fixture
def run(pages: Any, keep_all: Any) -> Any:
    def go(reader: Reader, source: Any = None, page_filter: Any = None, **settings: object) -> tuple[Round, ...]:
        loop = LoopSettings.model_validate(settings)
        return run_rounds(QUESTION, source or pages(), page_filter or keep_all(), reader, loop)

    return go


def ask(query: str, *findings: str) -> str:
    listed = ", ".join(f'"{finding}"' for finding in findings)
    notes = f'<notes>{{"findings": [{listed}], "note": "n"}}</notes>' if findings else ""
    return f"<query_update>{query}</query_update>{notes}"


def call_error(kind: Any) -> CallError:
    error = CallError(kind, "it ended", tokens=(900, 80))
    error.call = "key-1"
    error.attempts = 2
    return error


def test_an_answer_ends_the_loop(run: Any) -> None:
    reader = Scripted("<answer>A</answer>")
    rounds = run(reader, page_filter=MapReduceFilter(EmbeddedRanker(), FilterSettings()))
    assert len(rounds) == 1
    assert verdict(rounds).label == "A"
    assert [e.page_id for e in reader.seen[0].evidence] == [f"d#p{n}" for n in range(1, 11)]
    assert len(reader.seen[0].summaries) == 12
    assert [t.step for t in rounds[0].times] == ["exact", "filter", "read"]


def test_findings_reach_the_next_round_and_only_with_memory(run: Any) -> None:
    for memory, expected in ((True, ("[Round 1] dose is weight based",)), (False, ())):
        reader = Scripted(ask("retinal screening", "dose is weight based"), "<answer>A</answer>")
        run(reader, memory=memory)
        assert reader.seen[1].bank.key_findings == expected
        assert reader.seen[1].query == "retinal screening"


def test_bc37_the_round_cap_holds_and_a_stalled_query_is_flagged(run: Any, pages: Any) -> None:
    """Round 3 asks for the query of round 2 in other case; three searches, three calls, no answer."""
    source = pages(found=lambda query: [f"{query}#p1"])
    reader = Scripted(ask("Q one", "Screen yearly."), ask("Q two", "screen  YEARLY", "new"), ask("q  TWO!", "new"))
    rounds = run(reader, source)
    assert source.queries == ["Which test?", "Q one", "Q two"]
    assert [given.must_answer for given in reader.seen] == [False, False, True]
    assert (verdict(rounds).label, verdict(rounds).reason) == (None, "no_tag")
    assert [r.flags for r in rounds] == [(), (), ("query_stalled",)]
    assert rounds[2].bank_before.key_findings == ("[Round 1] Screen yearly.", "[Round 2] new")


@pytest.mark.parametrize("again", ["which TEST", "Which   test?", " which test ?! "])
def test_the_question_itself_as_query_is_a_stall(run: Any, again: str) -> None:
    assert "query_stalled" in run(Scripted(ask(again), "<answer>A</answer>"))[0].flags


def test_a_comparison_the_other_way_round_is_no_stall(run: Any) -> None:
    rounds = run(Scripted(ask("eGFR < 30"), ask("eGFR > 30"), "<answer>A</answer>"))
    assert not any("query_stalled" in r.flags for r in rounds)


def test_a_round_with_the_pages_of_the_round_before_is_flagged(run: Any, pages: Any) -> None:
    found = {"Which test?": ["a#p1", "a#p2"], "one": ["a#p2", "a#p1"], "two": ["a#p2"]}
    rounds = run(Scripted(ask("one"), ask("two"), "<answer>A</answer>"), pages(found=found.__getitem__))
    assert [r.flags for r in rounds] == [(), ("same_pages",), ()]


def test_a_reply_that_neither_answers_nor_asks_ends_the_loop(run: Any) -> None:
    rounds = run(Scripted("I cannot tell."))
    assert len(rounds) == 1
    assert verdict(rounds).label is None
    assert verdict(rounds).reason == "no_tag"


def test_a_single_round_must_answer_at_once(run: Any) -> None:
    reader = Scripted("<answer>B</answer>")
    run(reader, max_rounds=1)
    assert reader.seen[0].must_answer


@pytest.mark.parametrize("kind", ["truncated", "refused", "empty"])
def test_bc18_what_the_model_did_ends_the_question_and_is_charged(run: Any, kind: str) -> None:
    reader = Scripted(ask("more", "dose is weight based"), call_error(kind))
    rounds = run(reader)
    assert len(rounds) == 2 and not reader.replies
    reply = rounds[1].reply
    assert (reply.text, reply.finish_reason) == ("", kind)
    assert (reply.prompt_tokens, reply.completion_tokens, reply.call, reply.attempts) == (900, 80, "key-1", 2)
    assert (verdict(rounds).label, verdict(rounds).query_update, verdict(rounds).reason) == (None, None, kind)


@pytest.mark.parametrize("kind", ["timeout", "transport", "unavailable", "rejected", "not_stored", "malformed"])
def test_a_failed_call_keeps_the_finished_rounds_and_says_how_it_failed(run: Any, kind: str) -> None:
    with pytest.raises(RoundError, match="it ended") as caught:
        run(Scripted(ask("more"), call_error(kind)))
    assert [r.number for r in caught.value.rounds] == [1]
    assert caught.value.kind == kind


def test_other_model_errors_are_unreadable(run: Any) -> None:
    with pytest.raises(RoundError, match=r"server gone; run again") as caught:
        run(Scripted(ModelError("server gone")))
    assert (caught.value.kind, caught.value.rounds) == ("unreadable", ())


def test_the_way_out_of_the_cause_is_kept(run: Any) -> None:
    error = CallError("rejected", "too long", way_out="raise 'reader_model.context_tokens'")
    with pytest.raises(RoundError, match=r"reader_model\.context_tokens"):
        run(Scripted(error))


def test_a_stopped_run_is_not_survived(run: Any) -> None:
    with pytest.raises(RunStopped, match="stopped"):
        run(Scripted(RunStopped("stopped")))


def test_a_failed_filter_call_ends_nothing_of_the_reader(run: Any) -> None:
    """The filter's own truncated call must not pass for the reader's."""

    class Failing:
        def select(self, query: str, candidates: object) -> None:
            raise call_error("truncated")

    with pytest.raises(RoundError) as caught:
        run(Scripted("<answer>A</answer>"), page_filter=Failing())
    assert caught.value.kind == "truncated"


def test_bc21_fallbacks_are_flagged_with_their_reason(run: Any, keep_all: Any) -> None:
    calls = (
        ShardDecision(phase="map", shown=("d#p1",), kept=("d#p1",)),
        ShardDecision(phase="map", shown=("d#p2",), kept=("d#p2",), fallback=True, reason="timeout"),
    )
    done = run(Scripted("<answer>A</answer>"), page_filter=keep_all(*calls))[0]
    assert done.flags == ("filter_fallback",)
    assert [call.reason for call in done.filter.calls] == ["", "timeout"]


def test_bc15_flags_of_the_reply_are_flags_of_the_round(run: Any) -> None:
    reply = ReaderReply(text="<answer>A</answer>", flags=("reply_in_reasoning_field",))
    rounds = run(Scripted(reply))
    assert (rounds[0].flags, verdict(rounds).label) == (("reply_in_reasoning_field",), "A")


def test_shown_are_the_pages_that_the_reader_really_saw(run: Any, pages: Any, page_images: Any) -> None:
    seen = tuple(SeenPage(page_id=f"d#p{n}", width=1, height=1, tokens=4) for n in (1, 2, 3))
    reply = ReaderReply(text="<answer>A</answer>", seen=seen, flags=("pages_dropped",))
    assert run(Scripted(reply), pages(images=page_images))[0].shown == ("d#p1", "d#p2", "d#p3")
    # A reader that takes the text of a page says nothing of images, and got every page.
    assert len(run(Scripted("<answer>A</answer>"), pages(images=page_images))[0].shown) == 10


@pytest.mark.parametrize(
    ("finding", "foreign"),
    [
        ("dose is 5 mg (page d#p3)", False),
        ("dose is 5 mg (page D#P3).", False),
        ("dose is 5 mg (page d#p12)", False),  # not shown as an image, but by its summary
        ("dose is 5 mg (page d#p13)", True),
        ("dose is 5 mg (page d#p1, e#p1)", True),
        ("dose is 5 mg (page xd#p1)", True),
        ("dose is 5 mg", False),
    ],
)
def test_findings_from_pages_that_were_not_shown_are_kept_and_flagged(run: Any, finding: str, foreign: bool) -> None:
    reader = Scripted(ask("more", finding), "<answer>A</answer>")
    rounds = run(reader)
    assert ("foreign_page_id" in rounds[0].flags) is foreign
    assert reader.seen[1].bank.key_findings == (f"[Round 1] {finding}",)


def test_a_finding_of_an_earlier_round_may_be_repeated(run: Any, pages: Any) -> None:
    found = {"Which test?": ["a#p1"], "one": ["b#p1"]}
    reader = Scripted(ask("one", "dose (page a#p1)"), ask("two", "Dose (page a#p1)"))
    assert [r.flags for r in run(reader, pages(found=found.__getitem__), max_rounds=2)] == [(), ()]


def test_findings_left_out_of_a_full_bank_are_flagged(run: Any) -> None:
    many = [ask(f"q{k}", *(f"fact {k} {n}" for n in range(20))) for k in range(4)]
    answer = '<answer>A</answer><notes>{"findings": ["too late for the bank"]}</notes>'
    rounds = run(Scripted(*many, answer), max_rounds=5)
    assert ["bank_full" in r.flags for r in rounds] == [False, False, False, True, False]
    assert len(rounds[4].bank_before.key_findings) == MAX_FINDINGS
