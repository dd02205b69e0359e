"""MedRGAG's stages in a round: what each leaves in the state, what follows from a task that gave nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from medvrag_core.errors import CompositionError
from medvrag_core.models.outcomes import CallError
from medvrag_core.reasoning.composition import Pipeline, RoundState
from medvrag_core.reasoning.evidence_reader import EvidenceReader
from medvrag_core.reasoning.exhibit import Exhibit
from medvrag_core.reasoning.knowledge.base import Explorer, Generator, Integrator, Summarizer
from medvrag_core.reasoning.knowledge.embedded import CoveringIntegrator, ExtractingSummarizer, WordExplorer
from medvrag_core.reasoning.knowledge.prompted import PromptedGenerator, PromptedSummarizer
from medvrag_core.reasoning.knowledge.stages import (
    AskForGaps,
    Explore,
    Select,
    ShowWritten,
    Summarize,
    Write,
    WriteForQuestion,
    by_score,
)
from medvrag_core.reasoning.loop import RoundError, as_round, run_rounds
from medvrag_core.reasoning.prompts import round_prompt
from medvrag_core.reasoning.replies import MAX_QUERY
from medvrag_core.reasoning.stages import PresentNothing, Read
from medvrag_core.records import EvidenceItem, ParsedReply, Question, ReaderInput, Step, Summary
from medvrag_core.settings import LoopSettings, ReaderSettings

QUESTION = Question(
    id="q",
    question="At which dose is allopurinol started?",
    options={"A": "100 mg", "B": "600 mg"},
    answer="A",
    gold_pages=("d#p1",),
)
ITEMS = tuple(EvidenceItem(evidence_id=f"d#p{n}", page_id=f"d#p{n}", text=f"Fact {n}.") for n in (1, 2, 3))


class Seeing:
    """Keeps what it was asked."""

    def __init__(self, say: Callable[..., Step]) -> None:
        self.say, self.asked = say, list[tuple[Any, ...]]()

    def _said(self, *asked: Any) -> Step:
        self.asked.append(asked)
        return self.say(*asked)


class Sums(Seeing, Summarizer):
    def summarize(self, question: Question, document: EvidenceItem) -> Step:
        return self._said(question, document)


class Looks(Seeing, Explorer):
    def explore(self, question: Question, digest: Sequence[Summary], most: int) -> Step:
        return self._said(question, digest, most)


class Writes(Seeing, Generator):
    def generate(self, question: Question, point: str, number: int = 1, of: int = 1) -> Step:
        return self._said(question, point, number, of)


class Chooses(Seeing, Integrator):
    def select(self, question: Question, documents: Sequence[EvidenceItem], most: int) -> Step:
        return self._said(question, documents, most)


def writing(text: Callable[[str, int], str] = lambda point, number: f"{point or 'whole'} {number}") -> Writes:
    return Writes(
        lambda q, point, number, of: Step(kind="generate", about=point, text=text(point, number), made_by="w")
    )


def state(*items: EvidenceItem, summaries: Sequence[Summary] = (), **fields: Any) -> RoundState:
    exhibit = Exhibit(evidence=items, summaries=tuple(summaries))
    start = RoundState(question=QUESTION, number=2, must_answer=False, query="q")
    return start.made(exhibit=exhibit, **fields)


# --- digest -------------------------------------------------------------------------------


def test_what_says_nothing_useful_or_was_not_read_is_left_out_of_the_digest() -> None:
    reasons = {"d#p1": "", "d#p2": "nothing_useful", "d#p3": "truncated"}
    say = lambda q, d: Step(kind="summarize", about=d.evidence_id, text="told", reason=reasons[d.evidence_id])  # noqa: E731
    done = Summarize(Sums(say)).run(state(*ITEMS))
    assert done.digest == (Summary(page_id="d#p1", text="told", method=""),)
    assert [step.reason for step in done.steps] == list(reasons.values())
    assert [time.step for time in done.times] == ["summarize"]


def test_a_page_is_told_by_its_summary_and_pages_of_which_no_more_is_shown_are_told_too() -> None:
    image = ITEMS[0].model_copy(update={"image": "1.png"})
    bare = ITEMS[1].model_copy(update={"image": "2.png"})
    told = [Summary(page_id=name, text=f"summary of {name}", method="m") for name in ("d#p1", "d#p9", "d#p3")]
    sums = Sums(lambda q, d: Step(kind="summarize", about=d.evidence_id, text=d.text))
    done = Summarize(sums).run(state(image, bare, ITEMS[2], summaries=told))
    assert {s.page_id: s.text for s in done.digest or ()} == {
        "d#p1": "summary of d#p1",
        "d#p2": "Fact 2.",
        "d#p3": "Fact 3.",
        "d#p9": "summary of d#p9",
    }
    assert all(not document.image for _, document in sums.asked)


def test_calls_side_by_side_give_the_order_of_the_documents(fake_chat: Any) -> None:
    both = threading.Barrier(2, timeout=20)

    def say(request: Any) -> str:
        both.wait()
        return '{"useful": true, "summary": "told"}'

    done = Summarize(PromptedSummarizer(fake_chat(say), at_once=2)).run(state(*ITEMS[:2]))
    assert [step.about for step in done.steps] == ["d#p1", "d#p2"]


# --- gaps ---------------------------------------------------------------------------------


def test_an_explorer_that_cannot_be_read_leaves_no_gap() -> None:
    looks = Looks(lambda *asked: Step(kind="explore", text="hm", reason="unreadable"))
    done = Explore(looks, 3).run(state(digest=()))
    assert done.gaps == () and done.steps[0].reason == "unreadable"
    assert looks.asked == [(QUESTION, (), 3)]


@pytest.mark.parametrize("blind", [True, False])
def test_blind_stages_keep_the_options_from_their_helpers(blind: bool) -> None:
    sums = Sums(lambda q, d: Step(kind="summarize", about=d.evidence_id, text="x"))
    looks = Looks(lambda *asked: Step(kind="explore"))
    chooses = Chooses(lambda *asked: Step(kind="select", names=("d#p1",)))
    done = Summarize(sums, blind=blind).run(state(*ITEMS))
    Select(chooses, 1, blind=blind).run(Explore(looks, 1, blind=blind).run(done))
    seen = [helper.asked[0][0] for helper in (sums, looks, chooses)]
    assert {(q.question, bool(q.options), bool(q.answer), bool(q.gold_pages)) for q in seen} == {
        (QUESTION.question, not blind, not blind, not blind)
    }


# --- documents ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gaps", "count", "tasks"),
    [
        ((), 3, [("", 1, 3), ("", 2, 3), ("", 3, 3)]),
        (("a", "b"), 5, [("a", 1, 1), ("b", 1, 1), ("", 1, 3), ("", 2, 3), ("", 3, 3)]),
        (("a", "b", "c"), 2, [("a", 1, 1), ("b", 1, 1)]),
        (("a",), 1, [("a", 1, 1)]),
    ],
)
def test_documents_are_padded_from_the_question(gaps: tuple[str, ...], count: int, tasks: list[Any]) -> None:
    writes = writing()
    done = Write(writes, count).run(state(gaps=gaps))
    assert [asked[1:] for asked in writes.asked] == tasks
    assert [item.text for item in done.written or ()] == [f"{point or 'whole'} {n}" for point, n, _ in tasks]
    assert [item.evidence_id for item in done.written or ()] == [f"written-2-{n + 1}" for n in range(count)]
    assert {item.written_by for item in done.written or ()} == {"w"}


def test_without_completion_the_gaps_are_not_asked_for() -> None:
    writes = writing()
    WriteForQuestion(writes, 2).run(state())
    assert [asked[1:] for asked in writes.asked] == [("", 1, 2), ("", 2, 2)]
    read = Read(EvidenceReader(ReaderSettings()), LoopSettings())
    with pytest.raises(CompositionError, match="stage Write needs 'gaps'"):
        Pipeline(PresentNothing(), Write(writes, 2), ShowWritten(), read)
    assert Pipeline(PresentNothing(), WriteForQuestion(writes, 2), ShowWritten(), read)


def test_a_document_that_repeats_another_is_left_out_and_so_is_one_that_was_cut(fake_chat: Any) -> None:
    texts = {"a": "The dose.", "b": "the  dose", "": "More."}
    done = Write(writing(lambda point, number: texts[point]), 3).run(state(gaps=("a", "b")))
    assert [item.text for item in done.written or ()] == ["The dose.", "More."]
    assert [step.reason for step in done.steps] == ["", "repeated", ""]
    assert [item.evidence_id for item in done.written or ()] == ["written-2-1", "written-2-2"]
    cut = fake_chat(lambda request: CallError("truncated", "cut", text="half a sent"))
    done = Write(PromptedGenerator(cut), 1).run(state(gaps=()))
    assert done.written == () and [step.reason for step in done.steps] == ["truncated"]


def test_what_was_written_stands_behind_what_was_found() -> None:
    made = state(*ITEMS[:1], gaps=("a",))
    done = ShowWritten().run(Write(writing(), 1).run(made))
    assert [item.evidence_id for item in done.exhibit.evidence] == ["d#p1", "written-2-1"]  # type: ignore[union-attr]


# --- selection ----------------------------------------------------------------------------


def chosen(step: Step, **given: Any) -> list[str]:
    done = Select(Chooses(lambda *asked: step), 2, **given).run(state(*ITEMS))
    assert done.steps == (step,) and done.exhibit is not None
    return [item.evidence_id for item in done.exhibit.evidence]


def test_the_reader_gets_what_is_selected_in_an_order_of_its_own() -> None:
    step = Step(kind="select", names=("d#p3", "d#p1"))
    assert chosen(step) == ["d#p1", "d#p3"]
    scored = by_score(lambda query, items: [float(item.text[5]) for item in items])
    assert chosen(step, order=scored) == ["d#p3", "d#p1"]
    equal = by_score(lambda query, items: [0.5] * len(items))
    assert chosen(step, order=equal) == ["d#p1", "d#p3"]


@pytest.mark.parametrize("reason", ["unreadable", "truncated", "none_selected"])
def test_the_reader_gets_all_where_nothing_could_be_selected(reason: str) -> None:
    assert chosen(Step(kind="select", reason=reason)) == ["d#p1", "d#p2", "d#p3"]


def test_where_there_is_no_document_none_is_asked_for() -> None:
    chooses = Chooses(lambda *asked: Step(kind="select"))
    done = Select(chooses, 2).run(state())
    assert chooses.asked == [] and done.steps == ()


def test_images_stay_images_though_the_text_of_their_pages_is_judged() -> None:
    image = ITEMS[0].model_copy(update={"image": "1.png", "text": "allopurinol dose 100 mg"})
    told = [Summary(page_id="d#p1", text="A page.", method="m")]
    done = Select(CoveringIntegrator(), 2).run(state(image, ITEMS[1], summaries=told))
    assert done.exhibit is not None and done.exhibit.evidence == (image,)
    assert list(done.exhibit.summaries) == told


# --- the next query -----------------------------------------------------------------------


def asked_next(gaps: tuple[str, ...], query: str | None, *, label: str | None = None, last: bool = False) -> RoundState:
    parsed = ParsedReply(label=label, query_update=query)
    start = RoundState(question=QUESTION, number=1, must_answer=last, query="q")
    return AskForGaps().run(start.made(gaps=gaps, parsed=parsed))


def test_gaps_join_the_query_of_a_round_that_goes_on() -> None:
    done = asked_next(("Renal dose", "HLA-B*5801"), "allopurinol renal dose start")
    assert done.parsed is not None and done.parsed.query_update == "allopurinol renal dose start; HLA-B*5801"
    assert done.flags == ("gaps_in_query",)


@pytest.mark.parametrize(
    "changes",
    [
        {"gaps": (), "query": "x"},
        {"gaps": ("a gap",), "query": None},
        {"gaps": ("a gap",), "query": None, "label": "A"},
        {"gaps": ("a gap",), "query": "x", "label": "A"},
        {"gaps": ("a gap",), "query": "x", "last": True},
        {"gaps": ("the dose",), "query": "what is the dose?"},
        {"gaps": ("y" * MAX_QUERY,), "query": "x"},
    ],
)
def test_a_round_that_ends_or_asks_already_keeps_its_reply(changes: dict[str, Any]) -> None:
    done = asked_next(**changes)
    assert done.parsed == ParsedReply(label=changes.get("label"), query_update=changes["query"])
    assert done.flags == ()


def test_a_query_stays_within_its_longest_length() -> None:
    done = asked_next(tuple(f"{n} " + "g" * 150 for n in range(5)), "q" * 100)
    assert done.parsed is not None
    query = done.parsed.query_update or ""
    assert len(query) <= MAX_QUERY and query.count(";") == 2


# --- the round ----------------------------------------------------------------------------


def pipeline(sums: Summarizer) -> Pipeline:
    class Found(PresentNothing):
        def run(self, state: RoundState) -> RoundState:
            text = "Allopurinol is started at 100 mg. " + "Other text."
            return state.made(exhibit=Exhibit(evidence=(ITEMS[0].model_copy(update={"text": text}),), summaries=()))

    return Pipeline(
        Found(),
        Summarize(sums),
        Explore(WordExplorer(), 3),
        Write(writing(), 2),
        ShowWritten(),
        Select(CoveringIntegrator(), 2),
        Read(EvidenceReader(ReaderSettings()), LoopSettings(max_rounds=1)),
    )


def test_a_round_tells_every_step_what_was_written_and_what_took_time() -> None:
    (done,) = run_rounds(QUESTION, pipeline(ExtractingSummarizer()), LoopSettings(max_rounds=1))
    assert [step.kind for step in done.steps] == ["summarize", "explore", "generate", "generate", "select"]
    assert [time.step for time in done.times] == ["summarize", "explore", "generate", "select", "read"]
    assert done.parsed.label == "A" and done.shown == ("d#p1",)
    assert type(done).from_json(done.to_json()) == done


def test_a_call_that_fails_ends_the_question(fake_chat: Any) -> None:
    gone = PromptedSummarizer(fake_chat(lambda request: CallError("unavailable", "the server is gone")))
    with pytest.raises(RoundError, match="the server is gone"):
        run_rounds(QUESTION, pipeline(gone), LoopSettings(max_rounds=1))


def test_a_reader_is_told_which_documents_were_written() -> None:
    written = EvidenceItem(evidence_id="written-1-1", page_id="written-1-1", text="Told.", written_by="w")
    given = ReaderInput(question=QUESTION, round=1, must_answer=True, evidence=(ITEMS[0], written))
    lines = round_prompt(given).split("<pages>")[1].split("</pages>")[0].strip().splitlines()
    assert lines[1:] == [
        "1. page d#p1, as text: Fact 1.",
        "2. document written for this question and on no page: written-1-1, as text: Told.",
    ]


def test_a_written_document_that_is_shown_is_told_as_written() -> None:
    start = RoundState(question=QUESTION, number=1, must_answer=True, query="q")
    read = Read(EvidenceReader(ReaderSettings()), LoopSettings())
    stages = (PresentNothing(), WriteForQuestion(writing(), 2), ShowWritten(), read)
    done = as_round(Pipeline(*stages).run(start))
    assert done.shown == () and [(i.evidence_id, i.written_by) for i in done.written] == [
        ("written-1-1", "w"),
        ("written-1-2", "w"),
    ]
