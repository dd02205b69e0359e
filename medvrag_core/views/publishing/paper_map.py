"""The page that maps every table, figure and number of the paper to a chapter, a command and a status."""

from __future__ import annotations

from collections import Counter

from medvrag_core.evaluation.claims.checks import ClaimCheck, ClaimsReport
from medvrag_core.evaluation.claims.table import STATUSES
from medvrag_core.views.claims_view import expected_text, measured_text, paper_text
from medvrag_core.views.markup import escape

_UNKNOWN = "not in this run"


def paper_map(report: ClaimsReport) -> str:
    """The whole page in MyST Markdown; statuses are those that were derived, whatever a row states."""
    counts = Counter(check.status or _UNKNOWN for check in report.checks)
    meanings = [*STATUSES.items(), (_UNKNOWN, "this run holds no such measurement")]
    legend = "\n".join(
        f"| {escape(status)} | {meaning} | {counts[status]} |" for status, meaning in meanings if counts[status]
    )
    places: dict[str, list[ClaimCheck]] = {}
    for check in report.checks:
        places.setdefault(check.claim.where, []).append(check)
    sections = "\n".join(_place(where, rows) for where, rows in sorted(places.items()))
    scale = "; ".join(map(escape, report.below_scale)) or "nothing, it is one of the paper's scale"
    return f"""# Paper map

Each table, figure and number of the paper: what it says, what a run at its scale should give, what run
`{escape(report.run)}` gave, the chapter that shows it, and the status that follows. The rows lie in
`book/{escape(report.source)}`; the build derives each status anew from the records of the run and from the audit, as
`medvrag claims --run RUN` does.

| status | meaning | rows |
| --- | --- | ---: |
{legend}

What keeps this run from the paper's scale: {scale}. Its values stand beside the paper's to show that the quantity is
measured, and are not compared with them.

{sections}
"""


def _place(where: str, checks: list[ClaimCheck]) -> str:
    rows = "".join(_row(check) for check in checks)
    names = ("what", "paper", "expected", "measured", "chapter", "status")
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    return (
        f"## {escape(where)}\n\n"
        f'<div class="medvrag-scroll"><table class="medvrag-table medvrag-map"><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>\n"
    )


def _row(check: ClaimCheck) -> str:
    claim, status = check.claim, escape(check.status or _UNKNOWN)
    asides = [claim.note, f"also {', '.join(claim.also)}" if claim.also else "", *check.problems]
    notes = "".join(f'<div class="medvrag-aside">{escape(text)}</div>' for text in asides if text)
    needs = f'<div class="medvrag-aside">needs {escape(claim.needs)}</div>' if claim.needs else ""
    return (
        f"<tr><td>{escape(claim.what)}{notes}</td><td>{escape(paper_text(claim))}</td>"
        f"<td>{escape(expected_text(claim))}</td><td>{escape(measured_text(check))}</td>"
        f'<td><a href="../chapters/{escape(claim.chapter)}.html">{escape(claim.chapter)}</a>'
        f'<div class="medvrag-aside"><code>{escape(claim.command)}</code></div></td>'
        f'<td><span class="medvrag-status" data-status="{status}">{status}</span>{needs}</td></tr>'
    )
