"""Renders the reader's prompts from the templates in ``prompts/*.md`` (paper sections 3.4 and 3.5).

The wording is ours: the paper's appendix with its prompts is not in the source text. Everything that comes
from pages, questions or earlier replies is made neutral first, so that it cannot close a section of the prompt.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib import resources
from string import Template
from typing import Literal

from medvrag_core.models.reply_text import neutral
from medvrag_core.records import MemoryBank, Question, ReaderInput, Round

ReaderPurpose = Literal["reader", "refine"]

TEMPLATES: dict[ReaderPurpose, tuple[str, ...]] = {
    "reader": ("reader_system", "reader_round", "reader_decide", "reader_decide_blind", "reader_final"),
    "refine": ("reader_refine_system", "reader_refine"),
}
"""Templates of each kind of call. Each belongs to one kind, so that its change touches the calls of that kind alone."""


def template(name: str) -> str:
    """Text of one template file."""
    return (resources.files("medvrag_core.reasoning") / "prompts" / f"{name}.md").read_text(encoding="utf-8")


def prompt_version(purpose: ReaderPurpose = "reader") -> str:
    """Twelve hex digits over all templates of one kind of call."""
    return version_of(*TEMPLATES[purpose])


def version_of(*names: str) -> str:
    """Twelve hex digits over some templates."""
    return hashlib.sha256("\0".join(map(template, names)).encode()).hexdigest()[:12]


def prompt_versions() -> dict[str, str]:
    """The version of every kind of call, by purpose; part of a reader's fingerprint.

    >>> sorted(prompt_versions())
    ['reader', 'refine']
    """
    return {purpose: prompt_version(purpose) for purpose in TEMPLATES}


def system_prompt(purpose: ReaderPurpose = "reader") -> str:
    """The standing instructions."""
    return template(TEMPLATES[purpose][0]).strip()


def round_prompt(given: ReaderInput, *, option_blind: bool = False) -> str:
    """The user turn of one round.

    Page images are named in the order of ``given.evidence``; an item without image brings its text instead.
    The last round asks for an answer only. With ``option_blind`` an earlier round may say that something is missing,
    but writes no query: that is left to :func:`refine_prompt`.
    """
    decide = "reader_decide_blind" if option_blind else "reader_decide"
    return filled(
        "reader_round",
        given,
        options=options_text(given.question),
        decision=template("reader_final" if given.must_answer else decide).strip(),
    )


def refine_prompt(given: ReaderInput) -> str:
    """The user turn of a call that writes query and notes and never sees the options."""
    return filled("reader_refine", given)


def bank_text(bank: MemoryBank) -> str:
    """Findings and notes of earlier rounds as lines; ``(empty)`` in round 1 and in the arm without memory.

    >>> print(bank_text(MemoryBank(iteration=1, key_findings=("[Round 1] Screen yearly",), reasoning_history=("?",))))
    - [Round 1] Screen yearly
    Note of round 1: ?
    """
    return _bank_lines(bank) or "(empty)"


def _bank_lines(bank: MemoryBank) -> str:
    lines = [f"- {neutral(finding)}" for finding in bank.key_findings]
    lines += [f"Note of round {k}: {neutral(note)}" for k, note in enumerate(bank.reasoning_history, 1) if note]
    return "\n".join(lines)


QUERY_LINE = "Query of round "


def history_text(rounds: Sequence[Round], bank: MemoryBank) -> str:
    """Queries and replies of earlier rounds as they came, for the arm that has them in the place of ``bank``.

    Never longer than the bank would be in the same prompt, in characters; the newest is kept.
    """
    lines = []
    for done in rounds:
        lines.append(f"{QUERY_LINE}{done.number}: {neutral(done.query)}")
        # Where a call of its own wrote the query, the reply before it may hold options and is not carried on.
        lines.append(f"Reply of round {done.number}: {neutral((done.refinement or done.reply).text)}")
    text, room = "\n".join(lines), len(_bank_lines(bank))
    # A cut leaves half a word in front.
    return text if len(text) <= room else text[len(text) - room :].partition(" ")[2]


def options_text(question: Question) -> str:
    """The options as a prompt lists them, a line each."""
    return "\n".join(f"{neutral(k)}) {neutral(v)}" for k, v in question.options.items())


def filled(name: str, given: ReaderInput, **more: str) -> str:
    """A template with the parts of a round, and ``more``, in the places that it has for them."""
    # `substitute` fills a value in as it is, so a `$` in a page or question is never read as a placeholder.
    return (
        Template(template(name))
        .substitute(
            round=given.round,
            query=neutral(given.query or given.question.question),
            question=_question_text(given.question),
            bank=given.history or bank_text(given.bank),
            pages="\n".join(_evidence_lines(given)) or "(none)",
            summaries="\n".join(f"[{neutral(s.page_id)}] {neutral(s.text)}" for s in given.summaries) or "(none)",
            **more,
        )
        .strip()
    )


def _question_text(question: Question) -> str:
    """The question, and below it, marked off, the text that comes with it; nothing is added where there is none."""
    context = [neutral(line) for line in question.context.splitlines() if line.strip()]
    return "\n".join([neutral(question.question), *(["<context>", *context, "</context>"] if context else [])])


def _evidence_lines(given: ReaderInput) -> list[str]:
    lines = []
    for number, item in enumerate(given.evidence, 1):
        kind = "document written for this question and on no page:" if item.written_by else "page"
        name = f"{number}. {kind} {neutral(item.page_id)}"
        lines.append(name if item.image else f"{name}, as text: {neutral(item.text)}")
    return lines
