"""Whole systems side by side: whose they are, what they are made of, how they did, and what they cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import TYPE_CHECKING, Literal, get_args

from medvrag_core.evaluation.cost.bill import STAGES, CostReport, Stage
from medvrag_core.evaluation.main_results import REFERENCE, Compared
from medvrag_core.evaluation.retrieval.shown import Shown
from medvrag_core.evaluation.scoring import AccuracyReport
from medvrag_core.evaluation.statistics.contrasts import Contrast, Effect
from medvrag_core.views.contrast_text import MEAN_OVER, VERDICTS, disagreement_text, means, tests_text
from medvrag_core.views.cost_view import QUANTITY_LABELS, amount
from medvrag_core.views.markup import HtmlBlock, escape
from medvrag_core.views.retrieval_view import estimate_text
from medvrag_core.views.tables import HtmlTable, Number, Unbroken, p_text
from medvrag_core.views.theme import BLUE, GRAY, VERMILION, interval_bars, titled

if TYPE_CHECKING:
    import plotly.graph_objects as go

Quantity = Literal["seconds", "calls", "prompt_tokens", "completion_tokens"]
_COSTS: tuple[Quantity, ...] = get_args(Quantity)
_AVERAGE: dict[Quantity, str] = {name: "median" if name == "seconds" else "mean" for name in _COSTS}


def sources_table(compared: Sequence[Compared], *, caption: str = "") -> HtmlTable:
    """What every system is, whose it is, and where ours is another one."""
    rows = [[Unbroken(c.system), c.idea, c.source, c.here] for c in compared]
    return HtmlTable(["system", "idea", "from", "here"], rows, caption=caption)


def composition_chart(compositions: Mapping[str, str], *, caption: str = "") -> HtmlBlock:
    """The stages of every system one after another, in boxes; lines break between boxes on narrow screens.

    Parameters
    ----------
    compositions : by system, the line that ``System.composition`` gives: stages between `` > ``, then a comma and what
        else there is to say; where a system has several lines, ``; then`` stands between them
    """
    css = (resources.files("medvrag_core.views") / "assets" / "stages.css").read_text(encoding="utf-8")
    rows = "".join(
        f'<div class="system"><h5>{escape(name)}</h5>{"".join(map(_part, line.split("; then ")))}</div>'
        for name, line in compositions.items()
    )
    head = f'<p class="meta">{escape(caption)}</p>' if caption else ""
    return HtmlBlock(
        f'<article class="mv-stages" aria-label="Stages of every system"><style>{css}</style>{head}{rows}</article>'
    )


def _part(line: str) -> str:
    stages, _, rest = line.partition(", ")
    boxes = "".join(f"<li>{escape(stage)}</li>" for stage in stages.split(" > "))
    return f"<ol>{boxes}</ol>" + (f'<p class="meta">{escape(rest)}</p>' if rest else "")


def results_table(
    reports: Sequence[AccuracyReport],
    contrasts: Sequence[Contrast],
    costs: Mapping[str, CostReport],
    shown: Mapping[str, Shown],
    *,
    caption: str = "",
) -> HtmlTable:
    """The main table: right answers, paired difference from the reference, endings, what the reader saw, and cost.

    Where there are several sets of questions, each system has a row for either mean of the difference; whatever does
    not depend on the mean stands in the row of the mean over questions.

    Parameters
    ----------
    contrasts : every system but the reference, over the reference
    costs, shown : by system
    """
    against = {found.b: found for found in contrasts}
    several = any(len(found.sets) > 1 for found in contrasts)
    rows: list[list[object]] = []
    for r in reports:
        *over_sets, own = means(against[r.system]) if r.system in against else (None,)
        for e in over_sets:
            first = [Unbroken(r.system), MEAN_OVER["macro"], Number(str(e.n)), Number(f"{100 * e.accuracy_b:.1f}")]
            rows.append([*first, *_against(e)])
        rows.append(
            [
                Unbroken(r.system),
                *([MEAN_OVER["question_weighted"]] if several else []),
                Number(str(r.n)),
                Number(f"{100 * r.accuracy:.1f} [{100 * r.low:.1f}, {100 * r.high:.1f}]"),
                *_against(own),
                *(Number(str(count)) for count in (r.correct, r.wrong, r.unparsed, r.truncated + r.refused, r.errors)),
                *_shown(shown[r.system]),
                *(_spent(costs[r.system], "total", quantity) for quantity in _COSTS),
            ]
        )
    columns = [
        *("system", *(["mean over"] if several else []), "n", "accuracy (%) [95% interval]"),
        *(f"points over {REFERENCE} [interval]", "won / lost", "adjusted p", "verdict"),
        *("right", "wrong", "unparsed", "cut or refused", "errors"),
        *("gold pages shown [interval]", "pages shown", "documents written"),
        *(f"{QUANTITY_LABELS[quantity]} a question, {_AVERAGE[quantity]}" for quantity in _COSTS),
    ]
    filled = [[*row, *[Number("")] * (len(columns) - len(row))] for row in rows]
    notes = [caption, *dict.fromkeys(map(tests_text, contrasts)), "–: none"]
    notes.append(disagreement_text([effect for found in contrasts for effect in found.estimates]))
    return HtmlTable(columns, filled, caption="; ".join(filter(None, notes)))


def stage_costs_table(costs: Mapping[str, CostReport], *, caption: str = "") -> HtmlTable:
    """What a question takes, stage by stage, in every system; without quantities and stages of which there are none.

    Medians of stages do not add up to that of the whole.
    """
    stages = [stage for stage in STAGES if any(row.stage == stage for cost in costs.values() for row in cost.rows)]
    rows = [
        [
            Unbroken(name),
            Unbroken(f"{QUANTITY_LABELS[quantity]}, {_AVERAGE[quantity]}"),
            *(_spent(cost, stage, quantity) for stage in stages),
            _spent(cost, "total", quantity),
        ]
        for quantity in _COSTS
        for name, cost in costs.items()
        if cost.row("total", quantity)
    ]
    asked = any(cost.row("total", "calls") for cost in costs.values())
    notes = [caption, "" if asked else "no model was asked, so there are seconds alone"]
    columns = ["system", "a question", *(STAGES[stage] for stage in stages), "Total"]
    return HtmlTable(columns, rows, caption="; ".join(filter(None, notes)))


def cost_accuracy_figure(
    reports: Sequence[AccuracyReport],
    costs: Mapping[str, CostReport],
    *,
    quantity: Quantity = "seconds",
    caption: str = "",
) -> go.Figure:
    """Cost of a question on a log axis, beside the accuracy with its interval; one row a system, the cheapest on top.

    Two panels instead of one cloud of points: names stay readable however many systems there are, and however close.
    """
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    spent = {name: _typical(cost, "total", quantity) or 0.0 for name, cost in costs.items()}
    by_cost = sorted(reports, key=lambda r: (spent[r.system], r.system))
    names = [escape(r.system) for r in by_cost]
    colors = [VERMILION if r.system == REFERENCE else BLUE for r in by_cost]
    figure = make_subplots(rows=1, cols=2, shared_yaxes=True, horizontal_spacing=0.06)
    figure.add_trace(
        go.Scatter(
            x=[spent[r.system] or None for r in by_cost],
            y=names,
            mode="markers",
            marker={"size": 10, "symbol": "square", "color": colors},
            hovertemplate="%{y}<br>%{x:.4g} " + QUANTITY_LABELS[quantity] + "<extra></extra>",
            showlegend=False,
        ),
        row=1,
        col=1,
    )
    figure.add_trace(
        go.Scatter(
            x=[100 * r.accuracy for r in by_cost],
            y=names,
            mode="markers",
            marker={"size": 10, "color": colors},
            error_x=interval_bars([(r.low, r.accuracy, r.high) for r in by_cost], GRAY, scale=100),
            customdata=[[100 * r.low, 100 * r.high, r.correct, r.n] for r in by_cost],
            hovertemplate="%{y}<br>%{x:.1f}% [%{customdata[0]:.1f}, %{customdata[1]:.1f}]"
            "<br>%{customdata[2]} of %{customdata[3]}<extra></extra>",
            showlegend=False,
        ),
        row=1,
        col=2,
    )
    title = f"{QUANTITY_LABELS[quantity]} a question,<br>{_AVERAGE[quantity]} (log scale)"
    ticks = _decades([value for value in spent.values() if value])
    labels = [amount(quantity, tick) for tick in ticks]
    figure.update_xaxes(title=title, type="log", tickvals=ticks, ticktext=labels, tickangle=0, row=1, col=1)
    figure.update_xaxes(title="accuracy (%),<br>95% interval", range=[0, 100], tickvals=[0, 50, 100], row=1, col=2)
    figure.update_yaxes(categoryorder="array", categoryarray=names, autorange="reversed", type="category")
    return titled(figure, "Cost and accuracy", caption, height=190 + 26 * len(by_cost))


def _decades(values: Sequence[float]) -> list[float]:
    """Powers of ten around all values, four at most, so that their labels have room on a phone.

    >>> _decades([0.002, 0.3]), _decades([0.002, 3000.0]), _decades([])
    ([0.001, 0.01, 0.1, 1.0], [0.001, 1.0, 1000.0], [])
    """
    if not values:
        return []
    first, last = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return [10.0**power for power in range(first, last + 1, max(1, math.ceil((last - first) / 3)))]


def _against(e: Effect | None) -> list[object]:
    if e is None:
        return [*[Number("–")] * 3, Unbroken("the others are compared with it")]
    return [
        Number(f"{e.difference:+.1f} [{e.low:+.1f}, {e.high:+.1f}]{'' if e.agree else '*'}"),
        Number(f"{e.won} / {e.lost}"),
        Number(p_text(e.p_adjusted)),
        Unbroken(VERDICTS[e.verdict]),
    ]


def _shown(found: Shown) -> list[object]:
    if not found.pages:
        return [*[Number("–")] * 2, Number(f"{found.written:.1f}" if found.written else "–")]
    return [
        Number(estimate_text(found.gold)),
        Number(f"{found.pages:.1f}"),
        Number(f"{found.written:.1f}" if found.written else "–"),
    ]


def _typical(cost: CostReport, stage: Stage | Literal["total"], quantity: Quantity) -> float | None:
    """Median of seconds, since the first question opens what is made once; mean of what is counted."""
    row = cost.row(stage, quantity)
    return None if row is None else row.median if quantity == "seconds" else row.mean


def _spent(cost: CostReport, stage: Stage | Literal["total"], quantity: Quantity) -> Number:
    return Number(amount(quantity, _typical(cost, stage, quantity)))
