"""Contrasts of arms as a table and as a figure: both means, every set, and all that a reader needs to judge them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from medvrag_core.evaluation.scoring import AccuracyReport
from medvrag_core.evaluation.statistics.contrasts import Contrast, Effect
from medvrag_core.evaluation.statistics.power import FlipRate
from medvrag_core.views.contrast_text import (
    MEAN_OVER,
    ONE_SET,
    VERDICTS,
    disagreement_text,
    means,
    readings,
    stems_text,
    tests_text,
)
from medvrag_core.views.markup import escape
from medvrag_core.views.tables import HtmlTable, Number, Unbroken, p_text
from medvrag_core.views.theme import BLUE, GRAY, ORANGE, ROW_HEIGHT, interval_bars, labeled_range, titled

if TYPE_CHECKING:
    import plotly.graph_objects as go


def contrasts_table(
    contrasts: Sequence[Contrast],
    *,
    sets: bool = True,
    beside: tuple[str, Sequence[object]] | None = None,
    caption: str = "",
) -> HtmlTable:
    """Both means of every contrast, and every set below; where there is one set they coincide and stand once.

    Parameters
    ----------
    contrasts : of one family, under the same rules
    sets : show the rows of single sets
    beside : head and values, one a contrast, of one more column
    """
    several = _several(contrasts)
    head, values = beside or ("", [])
    rows: list[list[object]] = []
    for place, found in enumerate(contrasts):
        shown = [*means(found), *(found.sets if sets and len(found.sets) > 1 else ())]
        rows += [[f"{found.b} over {found.a}", *_cells(e, several, values[place : place + 1])] for e in shown]
    columns = ["comparison", *_columns(contrasts, [head] if head else [])]
    return HtmlTable(columns, rows, caption="; ".join(filter(None, (caption, *_notes(contrasts)))))


def sensitivity_table(contrasts: Sequence[Contrast], *, caption: str = "") -> HtmlTable:
    """The means of every contrast under other readings of the same runs, those that agree to the last digit in one row.

    p-values are adjusted within one reading. Contrasts without variants have no row, see
    :mod:`medvrag_core.evaluation.statistics.sensitivity`.
    """
    several = _several(contrasts)
    rows: list[list[object]] = [
        [f"{found.b} over {found.a}", name, *_cells(effect, several)]
        for found in contrasts
        for name, effects in readings(found)
        for effect in effects
    ]
    stems = dict.fromkeys(stems_text(found.stems) for found in contrasts if found.stems)
    shown = [effect for found in contrasts for _, effects in readings(found) for effect in effects]
    columns = ["comparison", "read as", *_columns(contrasts)]
    return HtmlTable(columns, rows, caption="; ".join(filter(None, (caption, *stems, disagreement_text(shown)))))


def contrast_figure(contrasts: Sequence[Contrast], *, caption: str = "") -> go.Figure:
    """Differences with their intervals, zero and the margin marked; two points a contrast where the means differ."""
    import plotly.graph_objects as go

    drawn = [(place, effect) for place, found in enumerate(contrasts) for effect in means(found)]
    several = _several(contrasts)
    figure = go.Figure()
    for name, color, shift in (("macro", BLUE, -0.18), ("question_weighted", ORANGE if several else BLUE, 0.18)):
        mine = [(place, effect) for place, effect in drawn if effect.name == name]
        if mine:
            figure.add_scatter(
                x=[e.difference for _, e in mine],
                y=[place + (shift if len(contrasts[place].sets) > 1 else 0) for place, _ in mine],
                mode="markers+text",
                name={"macro": "mean of sets", "question_weighted": "mean of questions"}[name],
                marker={"size": 9, "symbol": "square", "color": color},
                text=[
                    f"{e.difference:+.1f} (won {e.won}, lost {e.lost})<br>adjusted p {escape(p_text(e.p_adjusted))}"
                    for _, e in mine
                ],
                textposition="top center",
                textfont={"size": 11},
                error_x=interval_bars([(e.low, e.difference, e.high) for _, e in mine], color),
                customdata=[[e.low, e.high, e.n, VERDICTS[e.verdict]] for _, e in mine],
                hovertemplate="%{x:+.2f} points [%{customdata[0]:+.2f}, %{customdata[1]:+.2f}]"
                "<br>n = %{customdata[2]}, %{customdata[3]}<extra>%{fullData.name}</extra>",
                showlegend=several,
            )
    figure.add_vline(x=0, line={"color": GRAY, "width": 1.5})
    if contrasts:
        margin = contrasts[0].rules.margin
        figure.add_vrect(x0=-margin, x1=margin, fillcolor=GRAY, opacity=0.15, line_width=0, layer="below")
        title = f"difference in accuracy (points), {_confidence(contrasts)} interval; band: ±{margin:g}"
        figure.update_xaxes(title=title, range=labeled_range([(e.low, e.difference, e.high) for _, e in drawn]))
    figure.update_yaxes(
        range=[len(contrasts) - 0.4, -0.6],
        tickvals=list(range(len(contrasts))),
        ticktext=[f"{escape(c.b)}<br>over {escape(c.a)}<br>n = {c.n:,}" for c in contrasts],
        showgrid=False,
        zeroline=False,
        title="",
    )
    height = 190 + (2 * ROW_HEIGHT if several else ROW_HEIGHT + 22) * len(contrasts)
    return titled(figure, "Paired differences", caption, height=height)


def accuracy_by_arm(
    reports: Sequence[AccuracyReport],
    contrasts: Sequence[Contrast],
    *,
    chance: float | None = None,
    caption: str = "",
) -> go.Figure:
    """Accuracy of each arm with its interval; below its name, what the first contrast that has the arm as ``b`` says.

    Intervals of two arms say little about their difference, so no two arms stand here without their contrast.
    ``chance`` draws the guessing level (0 to 1).
    """
    import plotly.graph_objects as go

    first = {found.b: found for found in reversed(contrasts)}
    names = [escape(r.system) + (f"<br>{_against(first[r.system])}" if r.system in first else "") for r in reports]
    figure = go.Figure(
        go.Scatter(
            x=[100 * r.accuracy for r in reports],
            y=names,
            mode="markers+text",
            marker={"size": 11, "color": BLUE},
            text=[
                f"{100 * r.accuracy:.1f}%  ({r.correct} of {r.n}{'' if r.complete else ', incomplete'})"
                for r in reports
            ],
            textposition="top center",
            error_x=interval_bars([(r.low, r.accuracy, r.high) for r in reports], BLUE, scale=100),
            customdata=[[100 * r.low, 100 * r.high, r.unparsed, r.errors] for r in reports],
            hovertemplate="%{y}<br>%{x:.1f}% [%{customdata[0]:.1f}, %{customdata[1]:.1f}]"
            "<br>unparsed %{customdata[2]}, errors %{customdata[3]}<extra></extra>",
            showlegend=False,
        )
    )
    if chance is not None:
        figure.add_vline(
            x=100 * chance,
            line={"dash": "dot", "color": GRAY},
            annotation_text="chance",
            annotation_position="bottom right",
        )
    figure.update_xaxes(title="accuracy (% of questions), with 95% Wilson interval", range=[0, 100])
    figure.update_yaxes(range=[len(reports) - 0.4, -0.7], type="category")
    row = ROW_HEIGHT + (40 if _several(contrasts) else 20)
    return titled(figure, "Accuracy by arm", caption, height=180 + row * len(reports))


def _against(found: Contrast) -> str:
    """A contrast in short lines: the mean of questions, as the accuracy beside it, then that of sets if it differs."""
    *over_sets, e = means(found)
    lines = [
        f"over {escape(found.a)}: {e.difference:+.1f} [{e.low:+.1f}, {e.high:+.1f}]",
        f"won {e.won}, lost {e.lost}, adjusted p {escape(p_text(e.p_adjusted))}",
        *(
            f"mean of sets: {m.difference:+.1f} [{m.low:+.1f}, {m.high:+.1f}], {escape(p_text(m.p_adjusted))}"
            for m in over_sets
        ),
    ]
    return "<br>".join(lines)


def flips_table(rates: Sequence[FlipRate], *, caption: str = "") -> HtmlTable:
    """How often answers change between runs of one arm (A/A); says how to make a second run where there is none."""
    rows = [
        [
            f.system,
            *map(Number, (str(f.runs), f"{f.n:,}", f"{f.right_or_wrong:.1%}", f"[{f.low:.1%}, {f.high:.1%}]")),
            Number(f"{f.label:.1%}"),
        ]
        for f in rates
    ]
    columns = ["arm", "runs", "n", "right in one, wrong in the other", "95% interval", "other option or outcome"]
    how = "no second run: answer the same questions again into another run folder, and name it as again_run_id"
    return HtmlTable(columns, rows, caption="; ".join(filter(None, (caption, "" if rates else how))))


def _several(contrasts: Sequence[Contrast]) -> bool:
    return any(len(found.sets) > 1 for found in contrasts)


def _columns(contrasts: Sequence[Contrast], beside: Sequence[str] = ()) -> list[str]:
    """What decides stands first, since wide tables are scrolled on narrow screens."""
    which = ["mean over"] if _several(contrasts) else []
    decides = ["n", "won / lost", "points", f"{_confidence(contrasts)} interval", "adjusted p", "verdict"]
    return [*which, *decides, *beside, "accuracy (%)", "p", "detectable", "equivalence p"]


def _cells(e: Effect, several: bool, beside: Sequence[object] = ()) -> list[object]:
    decides = (
        f"{e.n:,}",
        f"{e.won} / {e.lost}",
        f"{e.difference:+.1f}",
        f"[{e.low:+.1f}, {e.high:+.1f}]{'' if e.agree else '*'}",
        p_text(e.p_adjusted),
    )
    more = (
        f"{100 * e.accuracy_a:.1f} → {100 * e.accuracy_b:.1f}",
        p_text(e.p_value),
        "–" if e.detectable is None else f"{e.detectable:.1f}",
        p_text(e.equivalence_p),
    )
    which = [MEAN_OVER.get(e.name, e.name)] if several else []
    return [*which, *map(Number, decides), Unbroken(VERDICTS[e.verdict]), *beside, *map(Number, more)]


def _notes(contrasts: Sequence[Contrast]) -> Iterator[str]:
    if not contrasts:
        yield "no comparison"
        return
    if all(len(found.sets) == 1 for found in contrasts):
        yield ONE_SET
    yield from dict.fromkeys(map(tests_text, contrasts))
    yield from dict.fromkeys(f"equivalence within {found.rules.margin:g} point(s) (TOST)" for found in contrasts)
    yield "detectable: smallest true difference in points found with 80% power"
    yield disagreement_text([effect for found in contrasts for effect in (*found.estimates, *found.sets)])
    if any(found.preregistration for found in contrasts):
        yield from dict.fromkeys(f"pre-registration sha256 {found.preregistration}" for found in contrasts)
    else:
        yield "no pre-registration: exploratory"


def _confidence(contrasts: Sequence[Contrast]) -> str:
    return f"{1 - contrasts[0].rules.alpha:.0%}" if contrasts else ""
