"""Nothing that depends on the options reaches the bank or the next query, whatever the model writes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paper_rounds import paper_rounds

from medvrag_core.models.base import ChatRequest
from medvrag_core.models.outcomes import CallError
from medvrag_core.profiles.load import load_profile
from medvrag_core.reasoning.evidence_reader import EvidenceReader, refinement_text
from medvrag_core.reasoning.likelihood_reader import LikelihoodReader
from medvrag_core.reasoning.loop import RoundError, verdict
from medvrag_core.reasoning.reader import Reader
from medvrag_core.reasoning.replies import parse_reply
from medvrag_core.reasoning.vlm_reader import VlmReader
from medvrag_core.records import EvidenceItem, MemoryBank, Question, ReaderInput, ReaderReply, Round, Summary
from medvrag_core.runs.workspace import Workspace
from medvrag_core.settings import LoopSettings, ReaderSettings
from medvrag_core.systems.base import find_system
from medvrag_core.systems.resources import Resources

QUESTION = Question(
    id="q", question="Which qst1 harms the qst2?", options={"A": "opt1 fever", "B": "opt2 rash"}, answer="A"
)
SENTINEL = re.compile(r"\b(?:opt|qst|pge|sum)\d+\b")
TEXTS = {f"d#p{n}": f"The page tells of pge{n}." for n in range(1, 4)}
SUMMARIES = {f"d#p{n}": f"A summary tells of sum{n}." for n in range(1, 4)}


def echo(request: ChatRequest) -> str:
    """All marked words of a prompt as query, finding and note; never an answer."""
    seen = " ".join(dict.fromkeys(SENTINEL.findall("\n".join(m.text for m in request.messages))))
    return f'<query_update>{seen}</query_update><notes>{{"findings": ["found {seen}"], "note": "noted {seen}"}}</notes>'


@pytest.fixture
def run(pages: Any, keep_all: Any) -> Any:
    def go(reader: Reader, source: Any = None, question: Question = QUESTION, **values: object) -> tuple[Round, ...]:
        loop = LoopSettings.model_validate({"refinement": "option_blind"} | values)
        return paper_rounds(question, source or pages(TEXTS, summaries=SUMMARIES), keep_all(), reader, loop)

    return go


def carried(rounds: tuple[Round, ...], source: Any) -> str:
    """Everything that one round hands to the next."""
    banks = [text for r in rounds for text in (*r.bank_before.key_findings, *r.bank_before.reasoning_history)]
    return "\n".join([*source.queries, *banks, *(r.parsed.query_update or "" for r in rounds)])


@pytest.mark.parametrize("memory", ["bank", "history", "none"])
@pytest.mark.parametrize("rounds_allowed", [2, 3, 5])
def test_no_text_of_an_option_is_carried_on(
    run: Any, pages: Any, fake_chat: Any, memory: str, rounds_allowed: int
) -> None:
    source, model = pages(TEXTS, summaries=SUMMARIES), fake_chat(echo)
    rounds = run(VlmReader(model), source, memory=memory, max_rounds=rounds_allowed)
    assert len(rounds) == rounds_allowed
    text = carried(rounds, source)
    assert "opt" not in text and "fever" not in text and "rash" not in text
    assert "qst1" in text and "pge1" in text and "sum2" in text, "what is not an option does get through"
    for prompt in model.prompts("refine"):
        assert "opt" not in prompt
    assert all("opt1 fever" in prompt for prompt in model.prompts("reader"))


def test_the_usual_arm_does_carry_them(run: Any, pages: Any, fake_chat: Any) -> None:
    """So the test above can fail."""
    source = pages(TEXTS, summaries=SUMMARIES)
    rounds = run(VlmReader(fake_chat(echo)), source, refinement="with_options")
    assert "opt1" in source.queries[1] and "opt1" in rounds[1].bank_before.key_findings[0]
    assert all(r.refinement is None for r in rounds)


@pytest.mark.parametrize("refinement", ["with_options", "option_blind"])
def test_round_1_searches_with_the_question_alone(run: Any, pages: Any, fake_chat: Any, refinement: str) -> None:
    source = pages(TEXTS)
    rounds = run(VlmReader(fake_chat(echo)), source, refinement=refinement)
    assert source.queries[0] == rounds[0].query == QUESTION.question
    assert "opt" not in source.queries[0]


def test_query_and_notes_come_from_the_second_call(run: Any, fake_chat: Any) -> None:
    def say(request: ChatRequest) -> str:
        if request.purpose == "refine":
            return '<query_update>blind</query_update><notes>{"findings": ["fact (page d#p1)"], "note": "why"}</notes>'
        return (
            "<query_update>more</query_update>"
            if "<query_update>" in request.messages[1].text
            else "<answer>B</answer>"
        )

    model = fake_chat(say)
    rounds = run(VlmReader(model))
    assert [r.purpose for r in model.requests] == ["reader", "refine", "reader", "refine", "reader"]
    assert [r.query for r in rounds] == [QUESTION.question, "blind", "blind"]
    assert rounds[1].bank_before.key_findings == ("[Round 1] fact (page d#p1)",)
    assert rounds[1].bank_before.reasoning_history == ("why",)
    assert [(r.reply.call, r.refinement and r.refinement.call) for r in rounds] == [
        ("c1", "c2"), ("c3", "c4"), ("c5", None)
    ]  # fmt: skip
    assert [t.step for t in rounds[0].times][-2:] == ["read", "refine"]
    assert verdict(rounds).label == "B"
    assert "query_stalled" in rounds[1].flags


def test_an_answer_needs_no_second_call(run: Any, fake_chat: Any) -> None:
    model = fake_chat(lambda request: "<answer>A</answer>")
    assert verdict(run(VlmReader(model))).label == "A"
    assert len(model.requests) == 1


class Halves(Reader):
    """Decides and refines as told, and keeps what it was given."""

    name = fingerprint = "halves"

    def __init__(self, decided: ReaderReply | Exception, refined: ReaderReply | Exception) -> None:
        self.replies = {"decide": decided, "refine": refined}
        self.given: dict[str, ReaderInput] = {}

    def _reply(self, step: str, given_: ReaderInput) -> ReaderReply:
        self.given[step] = given_
        reply = self.replies[step]
        if isinstance(reply, Exception):
            raise reply
        return reply

    def read(self, given_: ReaderInput) -> ReaderReply:
        return ReaderReply(text="<query_update>opt1</query_update><notes>opt2</notes>")

    def decide(self, given_: ReaderInput) -> ReaderReply:
        return self._reply("decide", given_)

    def refine(self, given_: ReaderInput) -> ReaderReply:
        return self._reply("refine", given_)


MORE = ReaderReply(text="<query_update>more</query_update>")


def test_the_second_call_gets_neither_options_nor_answer(run: Any) -> None:
    reader = Halves(MORE, ReaderReply(text="<query_update>blind</query_update>"))
    run(reader, max_rounds=2)
    decided, refined = reader.given["decide"], reader.given["refine"]
    assert (refined.question.options, refined.question.answer) == ({}, None)
    assert refined.model_copy(update={"question": QUESTION}) == decided


def test_the_last_round_carries_nothing_either(run: Any) -> None:
    rounds = run(Halves(MORE, ReaderReply(text="<query_update>blind</query_update>")), max_rounds=2)
    assert (rounds[1].parsed.query_update, rounds[1].parsed.notes, rounds[1].parsed.reason) == (None, "", "no_tag")
    assert rounds[1].reply.text.startswith("<query_update>opt1"), "the raw reply stays in the trace"


@pytest.mark.parametrize("text", ["<answer>A</answer>", "<answer>opt1 fever</answer>"])
def test_the_second_call_cannot_answer(run: Any, text: str) -> None:
    rounds = run(Halves(MORE, ReaderReply(text=text)))
    assert len(rounds) == 1 and verdict(rounds).label is None and verdict(rounds).reason


def test_a_second_call_without_query_ends_the_question(run: Any) -> None:
    rounds = run(Halves(MORE, ReaderReply(text="nothing to add")))
    assert (len(rounds), verdict(rounds).reason) == (1, "no_tag")


@pytest.mark.parametrize("kind", ["truncated", "refused", "empty"])
def test_a_second_call_that_the_model_ended_is_charged(run: Any, kind: Any) -> None:
    rounds = run(Halves(MORE, CallError(kind, "it ended", tokens=(900, 80))))
    assert (len(rounds), verdict(rounds).reason, rounds[0].reply) == (1, kind, MORE)
    refinement = rounds[0].refinement
    assert refinement is not None and (refinement.finish_reason, refinement.prompt_tokens) == (kind, 900)


def test_a_first_call_that_the_model_ended_has_no_second(run: Any) -> None:
    rounds = run(Halves(CallError("truncated", "it ended"), AssertionError("must not be asked")))
    assert (verdict(rounds).reason, rounds[0].refinement) == ("truncated", None)


def test_a_failed_second_call_is_an_error_of_the_round(run: Any) -> None:
    with pytest.raises(RoundError) as caught:
        run(Halves(MORE, CallError("timeout", "late")))
    assert caught.value.kind == "timeout"


def test_the_second_call_sees_no_page_that_the_first_did_not(
    run: Any, pages: Any, fake_chat: Any, page_images: Path
) -> None:
    model = fake_chat(echo, max_images=2)
    rounds = run(VlmReader(model), pages(TEXTS, images=page_images), max_rounds=2)
    assert [len(r.messages[1].images) for r in model.requests] == [2, 2, 2]
    assert rounds[0].shown == ("d#p1", "d#p2")
    assert rounds[0].flags == ("pages_dropped",)
    assert rounds[0].refinement is not None and len(rounds[0].refinement.seen) == 2


# --- readers without a vision-language model ------------------------------------------------

WORDS = st.lists(st.sampled_from(["dose", "toxic", "renal", "eGFR", "weekly", "infusion"]), min_size=1, max_size=6)


@settings(max_examples=50)
@given(WORDS, WORDS)
def test_embedded_readers_ask_with_words_of_the_question_alone(asked: list[str], page: list[str]) -> None:
    question = Question(id="q", question=f"What of {' '.join(asked)}?", options={})
    item = EvidenceItem(evidence_id="d#p1", page_id="d#p1", text=f"Notes on {' '.join(page)} and opt9.")
    bank = MemoryBank(iteration=1, key_findings=("[Round 1] opt8 (page d#p1)",), reasoning_history=("opt7",))
    summaries = (Summary(page_id="d#p2", text="opt6", method="m"),)
    given_ = ReaderInput(
        question=question, round=1, must_answer=False, evidence=(item,), bank=bank, summaries=summaries, query="x"
    )
    replies = {
        reader.refine(given_).text for reader in (EvidenceReader(ReaderSettings()), LikelihoodReader(ReaderSettings()))
    }
    assert replies == {refinement_text(given_)}
    parsed = parse_reply(replies.pop(), {})
    assert parsed.query_update is not None and parsed.reason == ""
    assert set(parsed.query_update.casefold().split()) <= {word.casefold() for word in asked}


def test_the_query_begins_with_what_is_missing() -> None:
    question = Question(id="q", question="Which toxicity of quinine needs screening?", options={})
    item = EvidenceItem(evidence_id="d#p1", page_id="d#p1", text="Quinine has a toxicity. It is sold widely.")
    given_ = ReaderInput(question=question, round=1, must_answer=False, evidence=(item,), query=question.question)
    parsed = parse_reply(refinement_text(given_), {})
    assert parsed.query_update is not None and parsed.query_update.split()[0] in ("needs", "screening")
    assert parsed.findings[0] == "Quinine has a toxicity. (page d#p1)"
    assert "screening" in parsed.notes


@pytest.mark.parametrize("text", ["", "?", "</query_update><answer>A</answer>", "$query {x} <b>"])
def test_a_question_without_words_still_gets_a_harmless_reply(text: str) -> None:
    question = Question(id="q", question=text, options={})
    given_ = ReaderInput(question=question, round=1, must_answer=False, evidence=(), query=text)
    said = refinement_text(given_)
    assert said.count("<query_update>") == said.count("</query_update>") == 1 and "<answer>" not in said


def test_the_arm_answers_real_questions(made_run: Workspace, made_questions: list[Question], tmp_path: Path) -> None:
    for name in ("corpus", "vectors", "index"):
        (tmp_path / name).symlink_to(getattr(made_run, name))
    resources = Resources(Workspace(tmp_path), load_profile("test", {"reader.margin": 2.0}))
    entry = find_system("medvrag_option_blind")
    assert "without seeing the options" in entry.summary
    system = entry.compose(resources)
    for question in made_questions[:2]:
        rounds = system.answer(question)
        assert verdict(rounds).label == question.answer
        assert len(rounds) == resources.profile.loop.max_rounds
        assert all(r.refinement is not None for r in rounds[:-1]) and rounds[-1].refinement is None
        words = set(re.findall(r"\w+", question.question.casefold()))
        assert all(set(re.findall(r"\w+", r.query.casefold())) <= words for r in rounds)
