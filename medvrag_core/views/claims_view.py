"""The paper's claims with what was expected, measured and checked, as a table and as plain text."""

from __future__ import annotations

from collections.abc import Mapping

from medvrag_core.evaluation.claims.checks import ClaimCheck, ClaimsReport
from medvrag_core.evaluation.claims.table import Claim, Claims
from medvrag_core.views.tables import Code, HtmlTable
from medvrag_core.views.trace_text import plain


def claims_table(claims: Claims, *, caption: str = "") -> HtmlTable:
    """Every claim of the paper with what is expected, where it is met, and its status."""
    rows = [
        [c.where, c.what, paper_text(c), expected_text(c), c.chapter, Code(c.command), c.status, c.note]
        for c in claims.rows
    ]
    columns = ["where", "what", "paper", "expected", "chapter", "command", "status", "note"]
    return HtmlTable(columns, rows, caption=caption)


def paper_text(claim: Claim) -> str:
    """The paper's numbers.

    >>> row = {"id": "a", "where": "Table 2", "what": "w", "chapter": "c", "command": "x", "status": "not run"}
    >>> paper_text(Claim(**row, needs="gpu", paper={"mean": 1.9}, unit="ms", approximate=True))
    '~1.9 ms'
    >>> paper_text(Claim(**row, needs="gpu", paper={"MedQA": 71.4, "average": 350000}))
    'MedQA 71.4, average 350,000'
    """
    return _numbers(claim.paper, claim.unit, "~" if claim.approximate else "", named=len(claim.paper) > 1)


def expected_text(claim: Claim) -> str:
    """What a run at the paper's scale is expected to give, and which outcomes of the audit are stated."""
    parts = []
    if claim.tolerance is not None:
        within = f"the paper's, within {_number(claim.tolerance)} {claim.unit}".rstrip()
        parts.append(within if claim.tolerance else "the paper's, exactly")
    parts += [f"audit {name}: {verdict}" for name, verdict in claim.audit.items()]
    return "; ".join(parts) or "–"


def measured_text(check: ClaimCheck) -> str:
    """What the run has; a dash where it has nothing. Names stand wherever the paper has several numbers."""
    return _numbers(check.values, check.claim.unit, "", named=len(check.claim.paper) > 1, digits=3) or "–"


def claims_text(report: ClaimsReport) -> str:
    """One line a claim, then everything that is not true of the run."""
    where = f"run {report.run}" if report.run else "no run named, so nothing measured"
    lines = [f"{len(report.checks)} claims of {report.source}, {where}"]
    if report.run and report.below_scale:
        lines.append(f"below the paper's scale, so nothing is compared: {'; '.join(report.below_scale)}")
    for check in report.checks:
        status = check.status or f"{check.stated} (stated)"
        paper, measured = paper_text(check.claim), measured_text(check)
        lines.append(f"  {check.claim.where:12} {check.claim.id:20} {status:24} paper {paper}; measured {measured}")
    lines += [f"not true: {check.claim.id}: {problem}" for check in report.checks for problem in check.problems]
    if report.true:
        lines.append("every row is true of the audit" + (" and of this run" if report.run else ""))
    return "\n".join(plain(line) for line in lines)


def _numbers(values: Mapping[str, float], unit: str, mark: str, *, named: bool, digits: int = 4) -> str:
    shown = [f"{f'{name} ' if named else ''}{mark}{_number(value, digits)}" for name, value in values.items()]
    return f"{', '.join(shown)} {unit}".rstrip() if shown else ""


def _number(value: float, digits: int = 4) -> str:
    return f"{value:.{digits}g}" if abs(value) < 1000 else f"{value:,.0f}"
