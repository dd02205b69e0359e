"""What a system did in a round beside searching, filtering and reading, and what was written for the question."""

from __future__ import annotations

from collections.abc import Sequence

from medvrag_core.records import EvidenceItem, Step, StepKind
from medvrag_core.views.markup import escape

STEP_LABELS: dict[StepKind, str] = {
    "summarize": "What it says about the question",
    "explore": "What is still missing",
    "generate": "Document written",
    "select": "Documents chosen",
    "weigh": "Answer from one page alone",
    "ask": "Follow-up queries",
    "follow_up": "Follow-up query answered",
    "observe": "What a page shows",
}
LONGEST = 2_000
"""Characters of a text that are shown; what follows is counted."""


def steps_html(steps: Sequence[Step]) -> str:
    """Every step in order: its kind, what it was about, what came of it, who made it and what it took; else nothing."""
    if not steps:
        return ""
    items = "".join(f"<li>{_step(step)}</li>" for step in steps)
    title = f"Tasks beside the reader's: {len(steps)} step{'s' * (len(steps) != 1)}, {_tokens_of(steps)}"
    return f'<details><summary>{title}</summary><ol class="steps">{items}</ol></details>'


def written_html(written: Sequence[EvidenceItem]) -> str:
    """Documents that the reader got and no page holds, each under the name of who wrote it; else nothing.

    The label stands outside of the document's own box, so that no text can pass for it.
    """
    documents = "".join(
        f'<section class="written"><p><span class="tag made">written for this question by: '
        f"{escape(item.written_by)}</span> <b>{escape(item.evidence_id)}</b></p>"
        f'<blockquote dir="auto">{_cut(item.text)}</blockquote></section>'
        for item in written
    )
    note = '<p class="meta">No page of the corpus holds these as they stand; the label says where their words are from.'
    return f"<h5>Documents written for this question</h5>{note}</p>{documents}" if documents else ""


def _step(step: Step) -> str:
    about = f' <span dir="auto">{escape(step.about)}</span>' if step.about else ""
    made = [f"by {escape(step.made_by)}"] if step.made_by else []
    tries = [f"{step.attempts} tries"] if step.attempts > 1 else []
    meta = " · ".join([*made, _tokens_of([step]), *tries])
    reason = f' <span class="tag">nothing came of it: {escape(step.reason)}</span>' if step.reason else ""
    flags = "".join(f' <span class="tag bad">{escape(flag)}</span>' for flag in step.flags)
    names = "".join(f'<li dir="auto">{escape(name)}</li>' for name in step.names)
    text = f'<blockquote dir="auto">{_cut(step.text)}</blockquote>' if step.text else ""
    return (
        f'<p><b>{STEP_LABELS[step.kind]}</b>{about}{reason}{flags} <span class="meta">{meta}</span></p>'
        f"{f'<ol>{names}</ol>' if names else ''}{text}"
    )


def _tokens_of(steps: Sequence[Step]) -> str:
    read, wrote = sum(step.prompt_tokens for step in steps), sum(step.completion_tokens for step in steps)
    asked = read or wrote or any(step.call for step in steps)
    return f"{read:,} + {wrote:,} tokens" if asked else "no model asked"


def _cut(text: str) -> str:
    more = len(text) - LONGEST
    rest = f' <span class="meta">{more:,} characters more</span>' if more > 0 else ""
    return f"{escape(text[:LONGEST])}{rest}"
