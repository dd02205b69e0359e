"""The page that maps every table, figure and number of the paper to a chapter, a command and a status."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from medvrag_core.evaluation.claims import Claim, load_claims
from medvrag_core.views.markup import escape

_MEANING = {
    "reproduced": "the same quantity, at the paper's scale",
    "scaled down": "the same quantity, with the embedded models and a small corpus",
    "needs A100, not run": "the code is here, the hardware was not",
    "not run": "needs people or data that were not at hand",
    "audit": "copied by the paper from elsewhere, or derived from its own numbers; checked on paper",
}


def paper_map(claims: Sequence[Claim] | None = None) -> str:
    """The whole page in MyST Markdown; by default of the claims that ship with the package."""
    claims = load_claims() if claims is None else claims
    counts: Counter[str] = Counter(claim.status for claim in claims)
    legend = "\n".join(
        f"| {escape(status)} | {meaning} | {counts.get(status, 0)} |" for status, meaning in _MEANING.items()
    )
    places: dict[str, list[Claim]] = {}
    for claim in claims:
        places.setdefault(claim.where, []).append(claim)
    sections = "\n".join(_place(where, rows) for where, rows in places.items())
    return f"""# Paper map

Each table, figure and quoted number of the paper, the chapter that meets it, the command that makes ours, and how
far we got. The page is written by the build from `medvrag_core/evaluation/claims.yaml`.

| status | meaning | rows |
| --- | --- | ---: |
{legend}

{sections}
"""


def _place(where: str, claims: list[Claim]) -> str:
    rows = "".join(_row(claim) for claim in claims)
    head = "".join(f'<th scope="col">{name}</th>' for name in ("what", "paper", "chapter", "status"))
    return (
        f"## {escape(where)}\n\n"
        f'<div class="medvrag-scroll"><table class="medvrag-table medvrag-map"><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>\n"
    )


def _row(claim: Claim) -> str:
    status = escape(claim.status)
    note = f'<div class="medvrag-aside">{escape(claim.note)}</div>' if claim.note else ""
    return (
        f"<tr><td>{escape(claim.what)}{note}</td><td>{escape(claim.paper)}</td>"
        f'<td><a href="../chapters/{claim.chapter}.html">{claim.chapter}</a>'
        f'<div class="medvrag-aside"><code>{escape(claim.command)}</code></div></td>'
        f'<td><span class="medvrag-status" data-status="{status}">{status}</span></td></tr>'
    )
