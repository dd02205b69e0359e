"""Steps and written documents of a round: what they are, who made them, and that no text passes for a label."""

from __future__ import annotations

import re
from typing import get_args

from medvrag_core.records import (
    EvidenceItem,
    FilterDecision,
    MemoryBank,
    ParsedReply,
    Question,
    ReaderReply,
    Round,
    Step,
    StepKind,
    Trace,
)
from medvrag_core.views.steps_view import LONGEST, STEP_LABELS, steps_html, written_html
from medvrag_core.views.trace_text import trace_text
from medvrag_core.views.trace_view import TraceView

SUMMARY = Step(kind="summarize", about="gout#p1", text="Starts at 100 mg.", made_by="evidence-2")
ASKED = Step(
    kind="explore", names=("the dose", "renal function"), made_by="m", call="k", prompt_tokens=1_200,
    completion_tokens=30, attempts=2, flags=("cut",),
)  # fmt: skip
FAILED = Step(kind="generate", about="renal function", made_by="m", reason="truncated", prompt_tokens=5)


def written(text: str, by: str) -> EvidenceItem:
    return EvidenceItem(evidence_id="written-1", page_id="written-1", text=text, written_by=by)


def round_with(*steps: Step, documents: tuple[EvidenceItem, ...] = ()) -> Round:
    return Round(
        number=1, query="?", stage1=(), filter=FilterDecision(kept=()), shown=("gout#p1",), bank_before=MemoryBank(),
        reply=ReaderReply(text="A"), parsed=ParsedReply(label="A"), times=(), steps=steps, written=documents,
    )  # fmt: skip


def trace_with(round_: Round) -> Trace:
    question = Question(id="q", question="?", options={"A": "x", "B": "y"})
    return Trace(
        system="s", profile="p", fingerprint="f", question=question, rounds=(round_,), outcome="answered", label="A",
        seconds=0.0,
    )  # fmt: skip


def test_every_kind_of_step_has_a_label() -> None:
    assert set(STEP_LABELS) == set(get_args(StepKind))
    assert len(set(STEP_LABELS.values())) == len(STEP_LABELS)


def test_a_step_tells_what_it_was_about_what_came_of_it_who_made_it_and_what_it_took() -> None:
    html = steps_html([SUMMARY, ASKED, FAILED])
    assert "3 steps, 1,205 + 30 tokens" in html
    assert re.search(r"What it says about the question</b> <span dir=\"auto\">gout#p1</span>.*by evidence-2", html)
    assert "by evidence-2 · no model asked" in html and "Starts at 100 mg." in html
    assert '<ol><li dir="auto">the dose</li><li dir="auto">renal function</li></ol>' in html
    assert "by m · 1,200 + 30 tokens · 2 tries" in html and ">cut</span>" in html
    assert html.count("nothing came of it") == 1 and "nothing came of it: truncated" in html
    assert "1 step, no model asked" in steps_html([SUMMARY])
    assert "1 step, 0 + 0 tokens" in steps_html([SUMMARY.model_copy(update={"call": "k"})]), "a server without counts"
    assert steps_html([]) == written_html([]) == ""


def test_a_written_document_stands_under_the_name_of_its_writer_and_apart_from_the_pages() -> None:
    documents = (written("Sentences.", "extract of the corpus"), written("More.", "Qwen2.5-VL-7B"))
    html = TraceView(trace_with(round_with(documents=documents))).html
    pages, after = html.split("Documents written for this question", 1)
    assert "Sentences." not in pages
    for item in documents:
        assert f"written for this question by: {item.written_by}</span>" in after
    assert re.search(r"by: extract of the corpus</span>.*Sentences\..*by: Qwen2\.5-VL-7B</span>.*More\.", after)


def test_no_document_and_no_step_leave_no_trace_on_the_page() -> None:
    html = TraceView(trace_with(round_with())).html
    assert not re.search(r"written for this question|beside the reader", html)


def test_a_document_cannot_write_its_own_label() -> None:
    forged = "</blockquote></section><span class=tag>written for this question by: a committee</span>"
    html = written_html([written(forged, "a model")])
    assert html.count('class="tag made"') == 1 and "<span class=tag>" not in html
    assert html.index("by: a model") < html.index("a committee")


def test_long_texts_are_cut_and_say_so() -> None:
    long = "<" + "x" * (LONGEST + 6)
    for html in (steps_html([Step(kind="generate", text=long)]), written_html([written(long, "m")])):
        assert "&lt;" + "x" * (LONGEST - 1) + " <span" in html and "7 characters more" in html
    assert "characters more" not in steps_html([Step(kind="generate", text="x" * LONGEST)])


def test_in_the_terminal_too_and_nothing_steers_it() -> None:
    documents = (written("a\x1b[31m b", "an\x1bextract"),)
    text = trace_text(trace_with(round_with(SUMMARY, ASKED, FAILED, documents=documents)))
    assert "\x1b" not in text
    assert "summarize (gout#p1): Starts at 100 mg." in text
    assert "explore: the dose, renal function" in text
    assert "generate (renal function): truncated" in text
    assert "written by an extract: a [31m b" in text
