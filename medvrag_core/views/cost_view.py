"""What answering costs, as tables and a figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from medvrag_core.evaluation.cost.bill import STAGES, CostReport, CostRow
from medvrag_core.evaluation.cost.extra_right import ExtraCost, ExtraRight
from medvrag_core.evaluation.stopping.rounds import PAPER_ROUNDS, RoundsRow
from medvrag_core.views.markup import escape
from medvrag_core.views.tables import HtmlTable, Number, p_text, seconds, three_digits
from medvrag_core.views.theme import BLUE, ROW_HEIGHT, VERMILION, titled

if TYPE_CHECKING:
    import plotly.graph_objects as go

QUANTITY_LABELS = {
    "rounds": "rounds",
    "seconds": "seconds",
    "calls": "model calls",
    "prompt_tokens": "prompt tokens",
    "completion_tokens": "tokens written",
    "visual_tokens": "visual tokens (part of the prompt)",
    "images": "images",
    "filter_prompt_tokens": "prompt tokens of the filter",
    "money": "money",
}
SHOWN = {"more right": "yes", "fewer right": "right less often", "not shown": "not shown"}


def amount(quantity: str, value: float | None, currency: str = "") -> str:
    """A value in the unit of its quantity; a dash for None.

    >>> amount("seconds", 0.0019), amount("prompt_tokens", 30720.4), amount("calls", 1.524), amount("money", 0.5, "EUR")
    ('1.9 ms', '30,720', '1.52', '0.5 EUR')
    >>> amount("seconds", -0.25), amount("images", None)
    ('-250 ms', '–')
    """
    if value is None:
        return "–"
    if value < 0:
        return f"-{amount(quantity, -value, currency)}"
    if quantity == "seconds":
        return seconds(value)
    if quantity == "money":
        return f"{value:.4g} {currency}".rstrip()
    return three_digits(value)


def cost_table(report: CostReport, *, caption: str = "", timed: bool = True) -> HtmlTable:
    """Each quantity by stage: mean, median and tail of a question, and the sum; without seconds if not ``timed``."""
    rows = [
        [row.label, QUANTITY_LABELS[row.quantity], *(Number(cell) for cell in spread_cells(row, currency(report)))]
        for row in report.rows
        if timed or row.quantity != "seconds"
    ]
    columns = ["stage", "a question", "mean", "median", "p90", "p95", "max", f"all {report.n}"]
    return HtmlTable(columns, rows, caption=caption)


def spread_cells(row: CostRow, unit: str) -> list[str]:
    """Mean, median, p90, p95, max and total of a row."""
    values = (row.mean, row.median, row.p90, row.p95, row.max, row.total)
    return [amount(row.quantity, value, unit) for value in values]


def cost_notes_table(report: CostReport) -> HtmlTable:
    """What is counted, and what is not."""
    return HtmlTable(["what is counted"], [[note] for note in report.notes])


def rounds_cost_table(report: CostReport, accuracy: Sequence[RoundsRow], *, caption: str = "") -> HtmlTable:
    """Share, accuracy and mean cost of the questions by rounds, beside the paper; ``accuracy`` of the same traces."""
    right = {row.rounds: row for row in accuracy}
    rows = [
        [
            Number(str(r.rounds)),
            Number(str(r.n)),
            Number(f"{100 * r.share:.1f}%"),
            Number("–" if r.paper_share is None else f"{100 * r.paper_share:.1f}%"),
            Number(_accuracy(right.get(r.rounds))),
            Number(f"{100 * PAPER_ROUNDS[r.rounds][1]:.1f}%" if r.rounds in PAPER_ROUNDS else "–"),
            Number(amount("seconds", r.mean["seconds"])),
            Number(amount("seconds", r.paper_seconds)),
            Number(amount("calls", r.mean["calls"])),
            Number(amount("prompt_tokens", r.mean["prompt_tokens"])),
        ]
        for r in report.rounds
    ]
    columns = ["rounds", "n", "share", "paper", "right [95% interval]", "paper", "mean time", "paper: Table 2"]
    return HtmlTable([*columns, "model calls", "prompt tokens"], rows, caption=caption)


def expected_table(report: CostReport, *, caption: str = "") -> HtmlTable:
    """Expected cost of a question: by this run's rounds, by the paper's shares of rounds, and the paper's own."""
    rows = [
        [
            QUANTITY_LABELS[r.quantity],
            *(Number(amount(r.quantity, v, currency(report))) for v in (r.measured, r.at_paper_shares, r.paper)),
        ]
        for r in report.expected
    ]
    return HtmlTable(
        ["mean a question", "this run", "this run at the paper's shares of rounds", "paper, derived"],
        rows,
        caption=caption,
    )


def extra_right_table(found: Sequence[ExtraRight], *, unit: str = "", caption: str = "") -> HtmlTable:
    """Cost of an extra right answer, beside how sure it is that there is any."""
    rows = [
        [
            f"{extra.b} over {extra.a}",
            Number(str(extra.right.n)),
            Number(f"{extra.right.won} / {extra.right.lost}"),
            Number(f"{extra.right.difference:+.1f} [{extra.right.low:+.1f}, {extra.right.high:+.1f}]"),
            Number(p_text(extra.right.p_adjusted)),
            SHOWN[extra.shown],
            QUANTITY_LABELS[row.quantity],
            Number(difference(row, unit)),
            Number(per_extra(row, unit)),
        ]
        for extra in found
        for row in extra.rows
    ]
    columns = ["arms", "n", "won / lost", "points [interval]", "Holm p", "more right?", "cost"]
    notes = [caption, *(over_sets_text(extra) for extra in found)]
    return HtmlTable(
        [*columns, "more a question [interval]", "for one extra right answer"],
        rows,
        caption="; ".join(filter(None, notes)),
    )


def over_sets_text(extra: ExtraRight) -> str:
    """The difference of the mean over sets, beside that over questions; empty where there is one set."""
    e = extra.over_sets
    if e is None:
        return ""
    return (
        f"mean over sets, {extra.b} over {extra.a}: {e.difference:+.1f} points [{e.low:+.1f}, {e.high:+.1f}], "
        f"adjusted p {p_text(e.p_adjusted)}"
    )


def difference(row: ExtraCost, unit: str) -> str:
    """Difference of means with its interval."""
    low, middle, high = (amount(row.quantity, v, unit) for v in (row.low, row.difference, row.high))
    return f"{middle} [{low}, {high}]"


def per_extra(row: ExtraCost, unit: str) -> str:
    """The ratio with its interval, or that it has none."""
    if row.per_extra is None:
        return "no bound"
    low, middle, high = (amount(row.quantity, v, unit) for v in (row.per_extra_low, row.per_extra, row.per_extra_high))
    return f"{middle} [{low}, {high}]"


def currency(report: CostReport) -> str:
    """Currency of the prices, or nothing."""
    return report.prices.currency if report.prices else ""


def stage_times(report: CostReport, *, caption: str = "") -> go.Figure:
    """Seconds of every question in every timed stage, on a log axis: the box holds the middle half, points the tail."""
    import plotly.graph_objects as go

    figure = go.Figure()
    timed = [stage for stage in STAGES if report.row(stage, "seconds")]
    for stage in timed:
        spent = [(q.id, q.stages[stage].seconds) for q in report.questions if stage in q.stages]
        positive = [(id_, value) for id_, value in spent if value > 0]
        figure.add_box(
            x=[value for _, value in positive],
            y=[STAGES[stage]] * len(positive),
            text=[escape(id_) for id_, _ in positive],
            orientation="h",
            boxpoints="all" if len(positive) <= 500 else "outliers",
            jitter=0.6,
            pointpos=0,
            marker={"size": 4, "color": BLUE, "opacity": 0.45},
            line={"width": 1.2, "color": BLUE},
            fillcolor="rgba(0,0,0,0)",
            hovertemplate="%{text}<br>%{x:.4g} s<extra></extra>",
            showlegend=False,
        )
    rows = [row for stage in timed if (row := report.row(stage, "seconds"))]
    figure.add_scatter(
        x=[row.p95 for row in rows if row.p95 > 0],
        y=[row.label for row in rows if row.p95 > 0],
        mode="markers",
        name="95% of questions take less",
        marker={"symbol": "line-ns-open", "size": 22, "color": VERMILION, "line": {"width": 2.5}},
        hovertemplate="%{y}<br>p95 %{x:.4g} s<extra></extra>",
    )
    figure.update_xaxes(title="seconds a question, all rounds (log scale)", type="log", dtick=1, exponentformat="power")
    figure.update_yaxes(autorange="reversed", type="category")
    return titled(figure, "Time of a question by stage", caption, height=200 + ROW_HEIGHT * len(timed))


def _accuracy(row: RoundsRow | None) -> str:
    return "–" if row is None else f"{100 * row.accuracy:.1f}% [{100 * row.low:.1f}%, {100 * row.high:.1f}%]"
