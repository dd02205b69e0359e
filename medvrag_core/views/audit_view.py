"""Tables and figures of the audit chapter; texts of papers and tables are escaped by the table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from medvrag_core.evaluation.audit.averages import StepRow
from medvrag_core.evaluation.audit.finding import SEVERITIES, Finding
from medvrag_core.evaluation.audit.grim import GrimCell
from medvrag_core.evaluation.audit.rounded import signed
from medvrag_core.evaluation.audit.significance import ALPHA, PLAUSIBLE, StepTest
from medvrag_core.views.markup import escape
from medvrag_core.views.tables import HtmlTable, Number, p_text
from medvrag_core.views.theme import BLUE, GRAY, ORANGE, PALETTE, ROW_HEIGHT, titled

if TYPE_CHECKING:
    import plotly.graph_objects as go

DASH = "–"


def counts_table(counts: dict[str, int], *, caption: str = "") -> HtmlTable:
    """How many findings there are of each verdict."""
    meanings = {
        "fails": "no rounding makes the number agree (severity A or B)",
        "open": "agrees under one reading and not under another (severity C)",
        "holds": "agrees with its parts, rounding allowed",
        "derived": "follows from printed numbers, but is not printed",
    }
    rows = [[verdict, Number(str(count)), meanings.get(verdict, "")] for verdict, count in counts.items()]
    return HtmlTable(["verdict", "findings", "meaning"], rows, caption=caption)


def severities_table() -> HtmlTable:
    """What the letters mean."""
    return HtmlTable(["severity", "meaning"], [[letter, meaning] for letter, meaning in SEVERITIES.items()])


def findings_table(findings: Sequence[Finding], *, caption: str = "") -> HtmlTable:
    """Findings that fail or stay open: arithmetic, fair wording, and what else could explain them."""
    rows = [
        [f.severity or "", f.where, f.claim, f"{f.arithmetic}. {_sentence(f.result)}", f.wording,
         "; or ".join(f.alternatives) or DASH]
        for f in findings
    ]  # fmt: skip
    columns = ["severity", "where", "what is printed", "arithmetic", "how to say it", "what would explain it"]
    return HtmlTable(columns, rows, caption=caption)


def holding_table(findings: Sequence[Finding], *, caption: str = "") -> HtmlTable:
    """Findings that hold, with the arithmetic alone."""
    return HtmlTable(
        ["topic", "where", "what is printed", "arithmetic"],
        [[f.topic, f.where, f.claim, f.arithmetic] for f in findings],
        caption=caption,
    )


def derived_table(findings: Sequence[Finding], *, caption: str = "") -> HtmlTable:
    """Numbers that follow from printed ones."""
    return HtmlTable(
        ["topic", "from", "arithmetic", "result", "note"],
        [[f.topic, f.where, f.arithmetic, f.result, f.wording] for f in findings],
        caption=caption,
    )


def grim_table(cells: Sequence[GrimCell], *, caption: str = "") -> HtmlTable:
    """Arms by sets: the printed value and the counts of right answers it can stand for."""
    arms, sets = (list(dict.fromkeys(names)) for names in ([c.arm for c in cells], [c.set_name for c in cells]))
    by_place = {(c.arm, c.set_name): c for c in cells}
    sizes = {c.set_name: c.n for c in cells}
    rows = [[arm, *(Number(_counts(by_place.get((arm, name)))) for name in sets)] for arm in arms]
    return HtmlTable(["arm", *(f"{name} ({sizes[name]} questions)" for name in sets)], rows, caption=caption)


def steps_table(made: Sequence[StepRow], *, caption: str = "") -> HtmlTable:
    """Each step in points and questions by set, and under both weightings."""
    sets = list(dict.fromkeys(name for row in made for name in row.by_set))
    rows = [
        [
            f"{row.second} over {row.first}",
            *(Number(_step(row, name)) for name in sets),
            Number(signed(row.plain)),
            Number(signed(row.weighted)),
        ]
        for row in made
    ]
    return HtmlTable(["step", *sets, "mean of sets", "mean of questions"], rows, caption=caption)


def p_values_table(tests: Sequence[StepTest], *, caption: str = "") -> HtmlTable:
    """p-values by assumed discordance: exact by set, Holm-adjusted for the two means."""
    sets = list(dict.fromkeys(name for test in tests for name in test.by_set))
    rows = [
        [
            f"{t.second} over {t.first}",
            Number(f"{t.discordance:.0%}"),
            *(Number(p_text(t.by_set.get(name))) for name in sets),
            Number(p_text(t.plain_holm)),
            Number(p_text(t.weighted_holm)),
        ]
        for t in tests
    ]
    columns = ["step", "discordance", *(f"{name}, exact p" for name in sets), "sets, Holm p", "questions, Holm p"]
    return HtmlTable(columns, rows, caption=caption)


def weighting_figure(made: Sequence[StepRow], *, caption: str = "") -> go.Figure:
    """Every step twice: all sets counting the same, and all questions counting the same."""
    import plotly.graph_objects as go

    names = [f"{escape(row.second)}<br>over {escape(row.first)}" for row in made]
    figure = go.Figure(
        [
            go.Bar(x=[row.plain for row in made], y=names, name="mean of sets", orientation="h", marker_color=BLUE,
                   text=[signed(row.plain) for row in made], textposition="outside", cliponaxis=False),
            go.Bar(x=[row.weighted for row in made], y=names, name="mean of questions", orientation="h",
                   marker_color=ORANGE, text=[signed(row.weighted) for row in made], textposition="outside",
                   cliponaxis=False),
        ]
    )  # fmt: skip
    figure.update_traces(hovertemplate="%{y}: %{x:+.2f} points<extra>%{fullData.name}</extra>")
    figure.update_xaxes(title="difference in accuracy (points), from printed cells")
    figure.update_yaxes(autorange="reversed", type="category")
    return titled(figure, "What each component adds", caption, height=200 + 2 * ROW_HEIGHT * len(made))


def significance_figure(tests: Sequence[StepTest], *, caption: str = "") -> go.Figure:
    """Holm-adjusted p-value of each step against the assumed discordance, for both means; a log axis.

    Adjusted values of two steps are often equal, so later steps are drawn thinner over earlier ones.
    """
    from plotly.subplots import make_subplots

    figure = make_subplots(
        rows=1, cols=2, shared_yaxes=True, horizontal_spacing=0.04, subplot_titles=("mean of sets", "mean of questions")
    )
    made = list(dict.fromkeys((t.first, t.second) for t in tests))
    for place, step in enumerate(made):
        color, width = PALETTE[place % len(PALETTE)], 2.5 + 2 * (len(made) - 1 - place)
        mine = [t for t in tests if (t.first, t.second) == step]
        for column, values in ((1, [t.plain_holm for t in mine]), (2, [t.weighted_holm for t in mine])):
            figure.add_scatter(
                x=[100 * t.discordance for t in mine], y=values, mode="lines+markers", name=escape(step[1]),
                legendgroup=escape(step[1]), showlegend=column == 1, line={"color": color, "width": width},
                row=1, col=column,
                hovertemplate="%{x:.0f}% discordance: p = %{y:.3g}<extra>%{fullData.name}</extra>",
            )  # fmt: skip
    low, high = PLAUSIBLE
    figure.add_vrect(x0=100 * low, x1=100 * high, fillcolor=GRAY, opacity=0.15, line_width=0)
    figure.add_hline(y=ALPHA, line={"dash": "dot", "color": GRAY})
    ticks = [0.0001, 0.001, 0.01, 0.05, 0.2, 1]
    figure.update_yaxes(type="log", range=[-4.3, 0.1], tickvals=ticks, ticktext=[f"{tick:g}" for tick in ticks])
    figure.update_yaxes(title="p-value, Holm-adjusted (log scale)", row=1, col=1)
    figure.update_xaxes(title="questions on which the arms differ, assumed (%)")
    titled(figure, "How sure could each step be?", caption, height=480)
    # The titles of the panels stand under the subtitle.
    return figure.update_layout(margin={"t": 116})


def _counts(cell: GrimCell | None) -> str:
    if cell is None:
        return DASH
    if cell.counts is None:
        return f"{cell.accuracy}: none"
    first, last = cell.counts
    return f"{cell.accuracy}: {first}" if first == last else f"{cell.accuracy}: {first} to {last}"


def _step(row: StepRow, name: str) -> str:
    if name not in row.by_set:
        return DASH
    net = f" ({row.net[name]:+d})" if name in row.net else ""
    return f"{signed(row.by_set[name], 1)}{net}"


def _sentence(text: str) -> str:
    # A single letter is a symbol, such as p, and stays as it is.
    return text if text[1:2] == " " else text[:1].upper() + text[1:]
