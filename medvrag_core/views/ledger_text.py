"""The ledger of a corpus in numbers, as plain text for the terminal."""

from __future__ import annotations

from medvrag_core.corpus.ledger_report import LedgerReport
from medvrag_core.views.trace_text import plain


def ledger_text(report: LedgerReport) -> str:
    """The funnel, the rules with their counts, and the licences."""
    lines = [f"{step.count:>9,}  {step.name}" for step in report.funnel]
    if report.pages_indexed is not None:
        lines.append(f"{report.near_duplicates:>9,}  near-duplicates left out of the index")
    lines.append("by rule")
    lines += [f"{rule.count:>9,}  {rule.level}s  {rule.status:12}{plain(rule.reason)}" for rule in report.rules]
    if report.changes:
        lines.append("kept, with something to know")
        lines += [f"{count:>9,}  {plain(change)}" for change, count in report.changes.items()]
    if report.licences:
        lines.append("articles by licence")
        lines += [
            f"{of.articles:>9,}  {plain(of.licence)}{' (not in a published book)' if of.hidden else ''}"
            for of in report.licences
        ]
    return "\n".join(lines)
