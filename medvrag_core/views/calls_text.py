"""Model calls and differences between runs as plain text, for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from medvrag_core.evaluation.diff import RunDiff
from medvrag_core.models.calls_status import CallsStatus
from medvrag_core.views.tables import counted
from medvrag_core.views.trace_text import plain


def calls_text(status: CallsStatus) -> str:
    """What a call store holds, a few lines."""
    outcomes = ", ".join(f"{name} {count}" for name, count in status.outcomes.items())
    lines = [f"{status.calls} calls ({outcomes or 'none'})"]
    lines += [f"  {plain(g.purpose):14} prompt {plain(g.prompt_version):14} {g.calls:>7} calls" for g in status.prompts]
    lines.append(f"  {status.prompt_tokens:,} tokens read, {status.completion_tokens:,} written")
    return "\n".join(lines)


def diff_text(diff: RunDiff, settings: Sequence[str] = (), *, show: int = 40) -> str:
    """The differences of two runs, one line a question."""
    lines = [
        f"{counted(diff.both, 'question')} in both: {diff.identical} identical in every detail, "
        f"{diff.same_outcome} same outcome",
        f"  A {plain(diff.first)}",
        f"  B {plain(diff.second)}",
    ]
    if diff.only_first or diff.only_second:
        lines.append(f"  {counted(len(diff.only_first), 'question')} only in A, {len(diff.only_second)} only in B")
    if diff.p_value is not None:
        p_value = f"exact McNemar p = {diff.p_value:.3g}"
        lines.append(f"  wrong -> right {diff.gained}, right -> wrong {diff.lost}, {p_value}")
    lines += [f"  setting {plain(change)}" for change in settings[:show]]
    if len(settings) > show:
        lines.append(f"  ... and {len(settings) - show} more settings")
    for question in diff.questions[:show]:
        outcome = f"{question.first} -> {question.second}" if question.first != question.second else question.first
        lines.append(f"{plain(question.question_id)}: {plain(outcome)}; {question.where}: {plain(question.detail)}")
    if len(diff.questions) > show:
        lines.append(f"... and {len(diff.questions) - show} more (--json shows all)")
    return "\n".join(lines)
