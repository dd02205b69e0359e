"""The report of a run as plain text."""

from __future__ import annotations

from pathlib import Path

from medvrag_core.evaluation.report import RunReport
from medvrag_core.views.scorers_view import scorers_lines


def report_text(report: RunReport, run: Path) -> str:
    """One line a figure, then the three scorers."""
    rows = [f"  {name:28}{shown(value)}" for name, value in report.model_dump(exclude={"scorers"}).items()]
    return "\n".join([f"{run}", *rows, "  the same replies under the three scorers", *scorers_lines(report.scorers)])


def shown(value: object) -> str:
    """A figure with four digits; a dash where there is none."""
    return f"{value:.4g}" if isinstance(value, float) else "-" if value is None else str(value)
