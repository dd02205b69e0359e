"""The loop over scripted readers: when it goes on, when it ends, what it keeps and what it flags."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from paper_rounds import paper_rounds

from medvrag_core.errors import ModelError
from medvrag_core.filter.embedded_ranker import EmbeddedRanker
from medvrag_core.filter.mapreduce import MapReduceFilter
from medvrag_core.models.outcomes import CallError, RunStopped
from medvrag_core.models.reply_text import neutral
from medvrag_core.reasoning.exhibit import Exhibit, as_found
from medvrag_core.reasoning.loop import RoundError, verdict
from medvrag_core.reasoning.memory import MAX_FINDINGS
from medvrag_core.reasoning.prompts import bank_text
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
        raise AssertionError("only the option-blind arm and forced rounds refine")


class Refining(Scripted):
    """Its calls for a query alone reply in turn too, and are remembered apart."""

    def __init__(self, *replies: Said, refinements: tuple[Said, ...]) -> None:
        super().__init__(*replies)
        self.second = Scripted(*refinements)

    def refine(self, given: ReaderInput) -> ReaderReply:
        return self.second.read(given)


@pytest.fixture
def run(pages: Any, keep_all: Any) -> Any:
    def go(
        reader: Reader, source: Any = None, page_filter: Any = None, show: Any = as_found, **settings: object
    ) -> tuple[Round, ...]:
        loop = LoopSettings.model_validate(settings)
        return paper_rounds(QUESTION, source or pages(), page_filter or keep_all(), reader, loop, show)

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
    for memory, expected in (("bank", ("[Round 1] dose is weight based",)), ("none", ()), ("history", ())):
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


def test_a_query_of_two_rounds_ago_is_a_stall(run: Any) -> None:
    rounds = run(Scripted(ask("Q one"), ask("which test"), "<answer>A</answer>"))
    assert ["query_stalled" in r.flags for r in rounds[:2]] == [False, True]


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


class TestRoundsThatMustAsk:
    def test_a_round_that_would_answer_asks_without_the_options_instead(self, run: Any, pages: Any) -> None:
        source = pages()
        reader = Refining("<answer>A</answer>", "<answer>B</answer>", refinements=(ask("more", "fact (page d#p1)"),))
        rounds = run(reader, source, min_rounds=2, max_rounds=2)
        assert source.queries == ["Which test?", "more"]
        assert reader.second.seen[0].question.options == {} and reader.second.seen[0].question.answer is None
        assert rounds[0].reply.text == "<answer>A</answer>", "what it would have said is kept"
        assert rounds[0].refinement is not None and rounds[0].parsed.label is None
        assert rounds[1].bank_before.key_findings == ("[Round 1] fact (page d#p1)",)
        assert (verdict(rounds).label, rounds[1].refinement) == ("B", None)
        assert [given.must_answer for given in reader.seen] == [False, True]

    def test_a_round_that_asks_by_itself_is_left_alone(self, run: Any, pages: Any) -> None:
        source = pages()
        rounds = run(Scripted(ask("mine"), "<answer>A</answer>"), source, min_rounds=2, max_rounds=2)
        assert source.queries[1] == "mine" and rounds[0].refinement is None

    def test_a_round_that_says_neither_must_ask_too(self, run: Any) -> None:
        rounds = run(Refining("I cannot tell.", "<answer>A</answer>", refinements=(ask("more"),)), min_rounds=2)
        assert [r.number for r in rounds] == [1, 2]

    def test_a_call_that_the_model_ended_is_not_asked_for_more(self, run: Any) -> None:
        rounds = run(Scripted(call_error("truncated")), min_rounds=2)
        assert (len(rounds), verdict(rounds).reason) == (1, "truncated")

    def test_when_no_query_comes_of_it_the_question_ends_unread(self, run: Any) -> None:
        rounds = run(Refining("<answer>A</answer>", refinements=("I would rather not.",)), min_rounds=2)
        assert (len(rounds), verdict(rounds).label, verdict(rounds).reason) == (1, None, "no_tag")

    @pytest.mark.parametrize("least", [1, 2, 3])
    def test_after_them_the_reader_decides(self, run: Any, least: int) -> None:
        refinements = tuple(ask(f"q{n}") for n in range(least - 1))
        rounds = run(Refining(*["<answer>A</answer>"] * least, refinements=refinements), min_rounds=least)
        assert len(rounds) == least and verdict(rounds).label == "A"

    def test_more_forced_rounds_than_rounds_are_refused(self) -> None:
        with pytest.raises(ValueError, match=r"min_rounds \(3\) is above max_rounds \(2\)"):
            LoopSettings(min_rounds=3, max_rounds=2)


class TestPlainHistory:
    def test_queries_and_replies_are_told_and_stored(self, run: Any) -> None:
        long = "The dose is weight based and capped at five milligrams"
        reader = Scripted(ask("retinal screening", *(f"{long} {n}" for n in range(9))), "<answer>A</answer>")
        rounds = run(reader, memory="history")
        assert (reader.seen[0].history, rounds[0].history) == ("", "")
        assert rounds[1].history == reader.seen[1].history
        assert rounds[1].history.endswith('"note": "n"}‹/notes>') and "weight based" in rounds[1].history
        assert rounds[1].bank_before.key_findings == ()

    def test_nothing_in_the_bank_is_no_history(self, run: Any) -> None:
        reader = Scripted(ask("more"), "<answer>A</answer>")
        run(reader, memory="history")
        assert reader.seen[1].history == ""

    @settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        st.lists(st.tuples(st.text(max_size=60), st.lists(st.text(max_size=300), max_size=5)), min_size=1, max_size=3)
    )
    def test_it_is_never_longer_than_the_bank_in_the_same_round(
        self, run: Any, notes: list[tuple[str, list[str]]]
    ) -> None:
        """The same replies under both memories; the newest words are what is kept."""
        replies = [
            f"<query_update>q{n} {query}</query_update><notes>{json.dumps({'findings': found, 'note': query})}</notes>"
            for n, (query, found) in enumerate(notes)
        ]
        script = [*replies, "<answer>A</answer>"]
        bank = run(Scripted(*script), memory="bank", max_rounds=4)
        history = run(Scripted(*script), memory="history", max_rounds=4)
        assert len(bank) == len(history)
        for with_bank, with_history, before in zip(bank[1:], history[1:], history[:-1], strict=True):
            text = with_history.history
            shown = bank_text(with_bank.bank_before)
            assert len(text) <= (0 if shown == "(empty)" else len(shown))
            newest = f"Reply of round {before.number}: {neutral(before.reply.text)}"
            assert newest.endswith(text) or text.endswith(newest)

    def test_what_was_written_with_the_options_in_sight_is_not_told_to_the_option_blind_arm(self, run: Any) -> None:
        refinements = (ask("blind query", "a long finding of the blind call " * 9),)
        reader = Refining(
            "<query_update>seen: Fundoscopy</query_update>", "<answer>A</answer>", refinements=refinements
        )
        run(reader, memory="history", refinement="option_blind")
        assert "Fundoscopy" not in reader.seen[1].history and "blind call" in reader.seen[1].history


class TestShow:
    def test_the_reader_gets_what_the_control_shows_and_the_round_says_so(self, run: Any, pages: Any) -> None:
        calls = []

        def show(question: Question, number: int, exhibit: Exhibit) -> Exhibit:
            calls.append((question.id, number, len(exhibit.evidence), len(exhibit.summaries)))
            item = exhibit.evidence[0].model_copy(update={"evidence_id": "x#p1", "page_id": "x#p1", "text": "other"})
            return Exhibit(evidence=(item,), summaries=(), flags=("placebo_test",))

        reader = Scripted(ask("more", "fact (page d#p1)"), "<answer>A</answer>")
        rounds = run(reader, pages(), show=show, pages_shown=3, summaries_shown=4)
        assert calls == [("q", 1, 3, 4), ("q", 2, 3, 4)]
        assert [given.evidence[0].text for given in reader.seen] == ["other", "other"]
        assert [r.shown for r in rounds] == [("x#p1",), ("x#p1",)]
        assert rounds[0].flags == ("placebo_test", "foreign_page_id"), "the page that it names was not shown"
        assert rounds[0].filter.kept[0] == "d#p1"

    def test_no_page_shown_leaves_the_summaries(self, run: Any) -> None:
        reader = Scripted("<answer>A</answer>")
        rounds = run(reader, pages_shown=0)
        assert (rounds[0].shown, len(rounds[0].summaries_shown)) == ((), 12)
