"""A trace in plain text, for the terminal."""

from __future__ import annotations

from textwrap import shorten

from medvrag_core.records import Round, Step, Trace


def trace_text(trace: Trace) -> str:
    """Rounds, pages, findings and the answer of one question, a few lines each.

    Control characters are taken out, so text from a page cannot steer the terminal.
    """
    lines = [plain(trace.question.question)]
    if trace.question.context:
        lines.append(f"  given: {shorten(plain(trace.question.context), 400)}")
    lines += [f"  {label}  {plain(text)}" for label, text in trace.question.options.items()]
    for round_ in trace.rounds:
        lines += _round_lines(round_)
    if trace.label is not None:
        lines.append(f"\nAnswer: {trace.label}  {plain(trace.question.options[trace.label])}")
    else:
        lines.append(f"\nNo answer ({trace.outcome}: {plain(trace.reason)})")
    lines.append(f"{trace.seconds:.1f} s, profile {trace.profile}. For software research, not medical advice.")
    return "\n".join(lines)


def _round_lines(round_: Round) -> list[str]:
    pages = ", ".join(round_.shown) or "none"
    lines = [
        f"\nRound {round_.number}: {shorten(plain(round_.query), 200)}",
        f"  {len(round_.stage1)} candidates, {len(round_.filter.kept)} after the filter; pages read: {plain(pages)}",
    ]
    lines += [f"  bank: {shorten(plain(finding), 160)}" for finding in round_.bank_before.key_findings]
    lines += [f"  {_step_line(step)}" for step in round_.steps]
    lines += [
        f"  written by {shorten(plain(item.written_by), 60)}: {shorten(plain(item.text), 160)}"
        for item in round_.written
    ]
    if round_.history:
        lines.append(f"  history: {shorten(plain(round_.history), 160)}")
    lines += [f"  found: {shorten(plain(finding), 160)}" for finding in round_.parsed.findings]
    if round_.parsed.notes:
        lines.append(f"  note: {shorten(plain(round_.parsed.notes), 200)}")
    if round_.parsed.query_update is not None:
        lines.append(f"  asks for: {shorten(plain(round_.parsed.query_update), 200)}")
    return lines


def _step_line(step: Step) -> str:
    # A follow-up query names the snippets that it was answered from; other steps name what they chose.
    told = (step.text,) if step.kind == "follow_up" else (", ".join(step.names), step.text)
    came = next(filter(None, (step.reason, *told)), "nothing")
    about = f" ({shorten(plain(step.about), 80)})" if step.about else ""
    return f"{step.kind.replace('_', ' ')}{about}: {shorten(plain(came), 160)}"


def plain(text: str) -> str:
    """Text in which nothing can steer a terminal."""
    return "".join(c if c.isprintable() else " " for c in text)
