"""Audits as plain text, for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from medvrag_core.evaluation.audit.averages import AverageRow
from medvrag_core.evaluation.audit.grim import GrimCell
from medvrag_core.evaluation.audit.report import PaperAudit, TableAudit
from medvrag_core.evaluation.audit.rounded import signed
from medvrag_core.evaluation.audit.significance import ALPHA, PLAUSIBLE, StepTest
from medvrag_core.views.tables import p_text
from medvrag_core.views.trace_text import plain


def table_audit_text(audit: TableAudit) -> str:
    """Possible values, averages and steps of any table; text from the table cannot steer the terminal."""
    lines = [f"{audit.table}: {len(audit.averages)} rows; reasons for care, not verdicts on anyone's work"]
    if audit.unsized:
        lines.append(f"no size known for {', '.join(audit.unsized)}: give --size NAME=N, or a first row named n")
    lines += ["", *_grim_lines(audit.grim), "", *_average_lines(audit.averages), ""]
    low, high = PLAUSIBLE
    lines.append(f"Row over the row before (points; p if the rows differ on {low:.0%} and {high:.0%} of questions)")
    for row in audit.steps:
        by_set = ", ".join(
            f"{name} {signed(delta, 2)}" + (f" ({row.net[name]:+d})" if name in row.net else "")
            for name, delta in row.by_set.items()
        )
        means = (
            f"; mean of sets {signed(row.plain)}, of questions {signed(row.weighted)}" if row.plain is not None else ""
        )
        lines.append(f"  {row.second} over {row.first}: {by_set or 'no set in common'}{means}")
        lines += _test_lines([t for t in audit.tests if (t.first, t.second) == (row.first, row.second)])
    return "\n".join(plain(line) for line in lines)


def paper_audit_text(audit: PaperAudit) -> str:
    """Findings of the paper's audit, the gravest first; what holds is counted."""
    counts = audit.counts()
    told = (
        f"{counts['fails']} fail, {counts['open']} stay open, {counts['holds']} hold, {counts['derived']} are derived"
    )
    lines = [f"{len(audit.findings)} checks of the paper's numbers: {told}"]
    for finding in audit.of("fails", "open"):
        lines += [
            "",
            f"[{finding.severity}] {finding.claim} ({finding.where})",
            f"    {finding.arithmetic}",
            f"    {finding.result}",
            f"    {finding.wording}",
            f"    could be explained: {'; or '.join(finding.alternatives) or 'no proposal'}",
        ]
    return "\n".join(plain(line) for line in lines)


def _grim_lines(cells: Sequence[GrimCell]) -> list[str]:
    bad = [cell for cell in cells if not cell.possible]
    telling = sum(cell.telling for cell in cells)
    lines = [
        f"Possible values (GRIM): {len(cells)} cells tested, {telling} of them fine enough for the test to fail, "
        f"{len(bad)} with no whole count of right answers"
    ]
    for cell in bad:
        more = f"; possible as a mean of {cell.runs_needed} runs" if cell.runs_needed else ""
        cut = "; possible if cut instead of rounded" if cell.truncated_only else ""
        of = f"{cell.n} questions" + (f" x {cell.runs} runs" if cell.runs > 1 else "")
        between = f"lies between {cell.below} and {cell.above}"
        lines.append(f"  {cell.arm}, {cell.set_name}: {cell.accuracy} on {of} {between}{more}{cut}")
    return lines


def _average_lines(rows: Sequence[AverageRow]) -> list[str]:
    lines = ["Averages (printed; mean of sets; mean of questions)"]
    for row in rows:
        verdict = ""
        if row.printed is not None and row.agrees_plain is not None:
            which = [name for name, ok in (("sets", row.agrees_plain), ("questions", row.agrees_weighted)) if ok]
            verdict = f"  agrees with the mean of {' and of '.join(which)}" if which else "  agrees with neither"
        values = "; ".join("-" if value is None else f"{value:.2f}" for value in (row.printed, row.plain, row.weighted))
        lines.append(f"  {row.arm}: {values}{verdict}")
    return lines


def _test_lines(tests: Sequence[StepTest]) -> list[str]:
    lines = []
    for test in (t for t in tests if t.discordance in PLAUSIBLE):
        parts = [f"{name} {p_text(p)}" for name, p in test.by_set.items()]
        parts += [f"sets {p_text(test.plain)}"] if test.plain is not None else []
        parts += [f"questions {p_text(test.weighted)}"] if test.weighted is not None else []
        if parts:
            lines.append(
                f"    p at {test.discordance:.0%}: {', '.join(parts)} (not adjusted; {ALPHA} is the usual bar)"
            )
    return lines
