"""Renders the reader prompt of one round from the templates in ``prompts/*.md`` (paper sections 3.4 and 3.5).

The wording is ours: the paper's appendix with its prompts is not in the source text. Everything that comes
from pages, questions or earlier replies is made neutral first, so that it cannot close a section of the prompt.
"""

from __future__ import annotations

import hashlib
from importlib import resources
from string import Template

from medvrag_core.models.reply_text import neutral
from medvrag_core.records import MemoryBank, ReaderInput

TEMPLATES = ("reader_system", "reader_round", "reader_decide", "reader_final")


def template(name: str) -> str:
    """Text of one template file."""
    return (resources.files("medvrag_core.reasoning") / "prompts" / f"{name}.md").read_text(encoding="utf-8")


def prompt_version() -> str:
    """Twelve hex digits over all templates; part of a reader's fingerprint."""
    return hashlib.sha256("\0".join(template(name) for name in TEMPLATES).encode()).hexdigest()[:12]


def system_prompt() -> str:
    """The standing instructions."""
    return template("reader_system").strip()


def round_prompt(given: ReaderInput) -> str:
    """The user turn of one round.

    Page images are named in the order of ``given.evidence``; an item without image brings its text instead.
    The last round asks for an answer only.
    """
    return (
        Template(template("reader_round"))
        .substitute(
            round=given.round,
            query=neutral(given.query or given.question.question),
            question=neutral(given.question.question),
            options="\n".join(f"{neutral(k)}) {neutral(v)}" for k, v in given.question.options.items()),
            bank=bank_text(given.bank),
            pages="\n".join(_evidence_lines(given)) or "(none)",
            summaries="\n".join(f"[{neutral(s.page_id)}] {neutral(s.text)}" for s in given.summaries) or "(none)",
            decision=template("reader_final" if given.must_answer else "reader_decide").strip(),
        )
        .strip()
    )


def bank_text(bank: MemoryBank) -> str:
    """Findings and notes of earlier rounds as lines; ``(empty)`` in round 1 and in the arm without memory.

    >>> print(bank_text(MemoryBank(iteration=1, key_findings=("[Round 1] Screen yearly",), reasoning_history=("?",))))
    - [Round 1] Screen yearly
    Note of round 1: ?
    """
    lines = [f"- {neutral(finding)}" for finding in bank.key_findings]
    lines += [f"Note of round {k}: {neutral(note)}" for k, note in enumerate(bank.reasoning_history, 1) if note]
    return "\n".join(lines) or "(empty)"


def _evidence_lines(given: ReaderInput) -> list[str]:
    lines = []
    for number, item in enumerate(given.evidence, 1):
        name = f"{number}. page {neutral(item.page_id)}"
        lines.append(name if item.image else f"{name}, as text: {neutral(item.text)}")
    return lines
