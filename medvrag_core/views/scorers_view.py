"""Three scorers side by side, as text and as a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from medvrag_core.evaluation.scorers.base import SCORERS, ScorerName
from medvrag_core.evaluation.scorers.file import ScoredFile
from medvrag_core.evaluation.scorers.report import ScorerColumn, ScorersReport
from medvrag_core.views.tables import HtmlTable, Number


def scorers_text(report: ScorersReport) -> str:
    """A run under each scorer, headed by what it is."""
    head = f"{report.system} ({report.profile}): {report.n} of {report.expected} questions"
    errors = f", errors {report.error_rate:.2%}{'' if report.complete else ', INCOMPLETE'}"
    return "\n".join([head + errors, *scorers_lines(report)])


def scorers_lines(report: ScorersReport) -> list[str]:
    """One line a scorer: right, interval, unparsed, points against strict, and reasons of what was not read plainly."""
    lines = []
    for name in SCORERS:
        column: ScorerColumn = getattr(report, name)
        gap = "" if name == "strict" else f"  {100 * _gap(report, name):+.2f} points"
        reasons = ", ".join(f"{reason} {count}" for reason, count in column.reasons.items())
        lines.append(
            f"  {name:8} {column.correct}/{report.n} = {column.accuracy:.2%} [{column.low:.2%}, {column.high:.2%}]"
            f"  unparsed {column.unparsed_rate:.2%}{gap}{f'  ({reasons})' if reasons else ''}"
        )
    if report.read_anew_differently:
        lines.append(f"  {len(report.read_anew_differently)} stored label(s) differ from what strict reads today")
    return lines


def scored_file_text(made: ScoredFile, out: Path) -> str:
    """What came out of a file of replies, and where it lies now."""
    reasons = ", ".join(f"{reason} {count}" for reason, count in made.reasons.items())
    lines = [f"{out}: {made.replies} replies, scorer {made.scorer}"]
    if made.accuracy is not None:
        lines.append(f"  right       {made.correct} of {made.with_gold} ({made.accuracy:.2%})")
    lines.append(f"  unparsed    {made.unparsed} ({made.unparsed_rate:.2%})")
    lines.append(f"  unfinished  {made.unfinished}, without a reply {made.no_reply}")
    return "\n".join(lines + ([f"  reasons     {reasons}"] if reasons else []))


def scorers_table(reports: Sequence[ScorersReport], *, caption: str = "") -> HtmlTable:
    """Every arm under each scorer; only strict is a result, the others show what a format costs or chance gives."""
    rows: list[list[object]] = []
    for report in reports:
        for name in SCORERS:
            column: ScorerColumn = getattr(report, name)
            rows.append(
                [
                    report.system,
                    name,
                    Number(f"{column.correct} of {report.n}"),
                    Number(f"{column.accuracy:.1%}"),
                    Number(f"[{column.low:.1%}, {column.high:.1%}]"),
                    Number("–" if name == "strict" else f"{100 * _gap(report, name):+.1f}"),
                    Number(f"{column.unparsed_rate:.1%}"),
                    Number(str(column.correct_by_fallback)),
                    ", ".join(f"{reason} {count}" for reason, count in column.reasons.items()) or "–",
                ]
            )
    columns = ["arm", "scorer", "right", "accuracy", "95% interval", "points against strict", "unparsed"]
    return HtmlTable([*columns, "right by a handed-out letter", "reasons"], rows, caption=caption)


def _gap(report: ScorersReport, name: ScorerName) -> float:
    return report.mirage_gap if name == "mirage" else report.lenient_gap
