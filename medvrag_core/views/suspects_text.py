"""A report with and without suspect questions as plain text."""

from __future__ import annotations

from pathlib import Path

from medvrag_core.evaluation.suspects import SuspectReport
from medvrag_core.views.report_text import shown
from medvrag_core.views.tables import counted

_SIDE_BY_SIDE = (
    *("n", "accuracy", "accuracy_low", "accuracy_high", "chance", "unparsed_rate", "error_rate"),
    *("recall_at_10", "recall_at_100", "ndcg_at_10", "filtered_recall_at_10"),
)


def suspects_text(report: SuspectReport, run: Path) -> str:
    """The figures of both reports side by side, and which questions make the difference."""
    columns = [report.all, *([report.without] if report.without else [])]
    heads = ["all", *(["without suspects"] if report.without else [])]
    rows = [f"  {'':28}" + "".join(f"{head:>18}" for head in heads)]
    rows += [f"  {name:28}" + "".join(f"{shown(getattr(c, name)):>18}" for c in columns) for name in _SIDE_BY_SIDE]
    named = ", ".join(report.suspect[:20]) + (", ..." if len(report.suspect) > 20 else "")
    rows.append(
        f"  suspect: {counted(len(report.suspect), 'question')} whose text stands in the corpus"
        + (f": {named}" if named else "")
    )
    rows.append(f"  not checked: {counted(report.unchecked, 'question')}, in both columns")
    return "\n".join([f"{run}", *rows])
