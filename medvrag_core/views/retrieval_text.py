"""Retrieval of a system as plain text for the terminal."""

from __future__ import annotations

from medvrag_core.evaluation.exact_overlap import ExactOverlap
from medvrag_core.evaluation.means import Estimate
from medvrag_core.evaluation.stage_report import StageReport
from medvrag_core.views.retrieval_view import STAGE_LABELS
from medvrag_core.views.tables import seconds
from medvrag_core.views.trace_text import plain


def stage_report_text(report: StageReport) -> str:
    """Recall of every stage, then what the filter lost, then the index beside exact search."""
    found, lost = report.recall, report.filter_loss
    lines = [
        f"{plain(found.system)}, profile {plain(found.profile)}, {found.rounds} round: {found.questions} questions "
        f"with {found.gold_pages} relevant pages ({found.without_gold} without, {found.unranked} without a ranking)",
        f"  {'':24}{'first k':>8}  {'recall':23}{'any gold':23}{'all gold':23}",
    ]
    for row in found.rows:
        cells = "".join(f"{_estimate(e):23}" for e in (row.recall, row.any_gold, row.all_gold))
        judged = "" if row.judged is None else f"{row.judged:.0%} of these pages labeled"
        lines.append(f"  {STAGE_LABELS[row.stage]:24}{row.k:>8,}  {cells}{judged}".rstrip())
    lines += [
        f"  {STAGE_LABELS[r.stage]:24}nDCG@10 {_estimate(r.ndcg_at_10)}, MRR {_estimate(r.mrr)}" for r in found.ranks
    ]
    fates = ", ".join(f"{row.fate.replace('_', ' ')} {row.count}" for row in lost.rows)
    lines.append(f"filter: {lost.candidates} of {lost.gold} gold pages came in; {fates}")
    return "\n".join(lines + (_overlap_lines(report.exact) if report.exact is not None else []))


def _overlap_lines(found: ExactOverlap) -> list[str]:
    lines = [f"index beside exact search: {found.queries} queries, {found.pages} pages"]
    for row in found.rows:
        whole = ", the shortlist holds every page" if row.shortlist in found.exhaustive else ""
        lines.append(
            f"  first {row.k:,} of shortlist {row.shortlist:,}: {_estimate(row.overlap)} found, "
            f"{row.identical} queries in the same order{whole}"
        )
    spent = ", ".join(f"{seconds(s)} with shortlist {size:,}" for size, s in found.seconds.items())
    return [*lines, f"  exact {seconds(found.exact_seconds)} a query, index {spent}"]


def _estimate(found: Estimate) -> str:
    return f"{found.value:.3f} [{found.low:.3f}, {found.high:.3f}]"
