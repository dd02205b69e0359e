"""What answering costs, as plain text for the terminal."""

from __future__ import annotations

from medvrag_core.evaluation.cost.bill import CostReport
from medvrag_core.evaluation.cost.extra_right import ExtraRight
from medvrag_core.views.contrast_text import TESTS
from medvrag_core.views.cost_view import (
    QUANTITY_LABELS,
    SHOWN,
    amount,
    currency,
    difference,
    over_sets_text,
    per_extra,
    spread_cells,
)
from medvrag_core.views.trace_text import plain


def cost_text(report: CostReport) -> str:
    """Costs by stage, by rounds and beside the paper, then what is counted."""
    unit = currency(report)
    lines = [
        f"{report.system}, profile {report.profile}: {report.n:,} questions",
        f"  {'':32}{'a question':>20}{'mean':>11}{'median':>11}{'p90':>11}{'p95':>11}{'max':>11}{'all':>13}",
    ]
    for row in report.rows:
        *cells, total = spread_cells(row, unit)
        label = QUANTITY_LABELS[row.quantity].partition(" (")[0]
        lines.append(f"  {row.label:32}{label:>20}" + "".join(f"{cell:>11}" for cell in cells) + f"{total:>13}")
    lines.append("by rounds used, without errors")
    for r in report.rounds:
        paper = (
            f"; paper {100 * r.paper_share:.1f}%, {amount('seconds', r.paper_seconds)}"
            if r.paper_share is not None
            else ""
        )
        mean = amount("seconds", r.mean["seconds"])
        lines.append(f"  {r.rounds} round(s): {r.n:,} questions ({100 * r.share:.1f}%), mean {mean}{paper}")
    lines.append(f"  {'mean a question':32}{'this run':>16}{'at paper shares':>18}{'paper, derived':>16}")
    for e in report.expected:
        cells = [amount(e.quantity, value, unit) for value in (e.measured, e.at_paper_shares, e.paper)]
        lines.append(f"  {QUANTITY_LABELS[e.quantity]:32}{cells[0]:>16}{cells[1]:>18}{cells[2]:>16}")
    if report.prices:
        prices = report.prices
        lines.append(f"prices in {plain(prices.currency)} of {prices.date}, {plain(prices.source)}")
    return "\n".join([*lines, *(f"note: {note}" for note in report.notes)])


def extra_right_text(extra: ExtraRight, unit: str) -> str:
    """Cost of an extra right answer of b over a."""
    e = extra.right
    lines = [
        f"{plain(extra.b)} over {plain(extra.a)}: n {e.n:,}, won {e.won}, lost {e.lost}, {e.difference:+.2f} points "
        f"[{e.low:+.2f}, {e.high:+.2f}], {TESTS[e.test]} p = {e.p_value:.3g}, adjusted {e.p_adjusted:.3g}",
        *filter(None, [plain(over_sets_text(extra))]),
        f"more right: {SHOWN[extra.shown]}",
    ]
    for row in extra.rows:
        label = QUANTITY_LABELS[row.quantity]
        lines.append(
            f"  {label:36}{difference(row, unit)} more a question; one extra right answer: {per_extra(row, unit)}"
        )
    return "\n".join(lines)
