"""Tables and figures of grounding: what answers cite, and what happens when the cited pages are left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from medvrag_core.evaluation.audit.paper import load_paper
from medvrag_core.evaluation.errors.grounding import GroundingReport, Group
from medvrag_core.evaluation.errors.removal import FLIPS, TO_WRONG, RemovalReport, RemovalRow
from medvrag_core.evaluation.statistics.shares import Ratio, Share
from medvrag_core.views.error_view import DASH, share_text
from medvrag_core.views.markup import escape
from medvrag_core.views.tables import HtmlTable, Number, p_text
from medvrag_core.views.theme import BLUE, GRAY, ORANGE, interval_bars, titled

if TYPE_CHECKING:
    import plotly.graph_objects as go

_GROUPS: dict[Group, tuple[str, str]] = {
    "all": ("all answers", GRAY),
    "right": ("right answers", BLUE),
    "wrong": ("wrong answers", ORANGE),
}
CITATION_LABELS = {
    "citing": "name a page",
    "only_sent": "name only pages sent",
    "foreign": "name a page never sent",
    "supported": "cite a gold page",
}
"""Shares of a :class:`~medvrag_core.evaluation.errors.grounding.GroundingRow` in words."""


def grounding_table(report: GroundingReport, *, caption: str = "") -> HtmlTable:
    """One column a group of answers; shares with count and interval, precision and recall over pages."""
    rows: list[list[object]] = [["answers", *(Number(str(row.answers)) for row in report.rows)]]
    rows += [
        [text, *(Number(_counted(getattr(r, name))) for r in report.rows)] for name, text in CITATION_LABELS.items()
    ]
    rows += [
        [text, *(Number(_ratio(getattr(r, name))) for r in report.rows)]
        for name, text in (
            ("precision", "gold pages among the pages named"),
            ("recall", "cited pages among the gold pages"),
        )
    ]
    printed = load_paper().shown("supported")
    rows.append(["printed: supported by the cited page's summary, by a judge", DASH, Number(f"{printed}%"), DASH])
    told = f"{report.unanswered} of {report.n} questions without an answer; system {report.system}"
    columns = ["", *(_GROUPS[row.group][0] for row in report.rows)]
    return HtmlTable(columns, rows, caption="; ".join(filter(None, (caption, told))))


def grounding_figure(report: GroundingReport, *, caption: str = "") -> go.Figure:
    """Shares of answers by what they cite, right and wrong ones apart, with intervals."""
    import plotly.graph_objects as go

    figure = go.Figure()
    names = list(CITATION_LABELS)
    groups = [row for row in report.rows if row.group != "all"]
    for place, row in enumerate(groups):
        title, color = _GROUPS[row.group]
        shares: list[Share] = [getattr(row, name) for name in names]
        figure.add_scatter(
            x=[100 * share.share for share in shares],
            y=[line + 0.3 * (place - (len(groups) - 1) / 2) for line in range(len(names))],
            mode="markers",
            name=f"{title} ({row.answers})",
            marker={"size": 10, "color": color, "symbol": ("circle", "diamond")[place % 2]},
            error_x=interval_bars([(share.low, share.share, share.high) for share in shares], color, scale=100),
            customdata=[[share.count, share.n] for share in shares],
            hovertemplate="%{customdata[0]} of %{customdata[1]}: %{x:.1f}%<extra>%{fullData.name}</extra>",
        )
    figure.update_xaxes(title="share of answers (%), 95% Wilson interval", range=[-2, 102])
    figure.update_yaxes(
        range=[len(names) - 0.5, -0.5],
        tickvals=list(range(len(names))),
        ticktext=list(CITATION_LABELS.values()),
        showgrid=False,
        zeroline=False,
        title="",
    )
    return titled(figure, "What answers cite", caption, height=380)


def removal_table(report: RemovalReport, *, caption: str = "") -> HtmlTable:
    """Cited against uncited pages left out, question by question: counts, difference, interval and adjusted p."""
    counts = [_by_outcome(row) for row in report.rows]
    rows: list[list[object]] = []
    for e in report.effects:
        numbers = (
            str(e.n),
            *(_counted(shares[e.name]) for shares in counts),
            f"{e.won} / {e.lost}",
            f"{e.difference:+.1f}",
            f"[{e.low:+.1f}, {e.high:+.1f}]",
            p_text(e.p_value),
            p_text(e.p_adjusted),
        )
        rows.append([e.name, *map(Number, numbers)])
    columns = ["answers", "n", "cited pages left out", "as many uncited ones left out", "only cited / only uncited"]
    columns += ["points", "interval", "exact p", "adjusted p"]
    told = (
        f"answers of {report.reference}",
        *(f"not compared, {reason}: {count}" for reason, count in report.left_out.items()),
        *(f"{row.arm}: {row.to_right.count} wrong to right, {row.unanswered} without an answer" for row in report.rows),
    )
    return HtmlTable(columns, rows, caption="; ".join(filter(None, (caption, *told))))


def removal_figure(report: RemovalReport, *, caption: str = "") -> go.Figure:
    """Shares of changed answers when cited and when uncited pages are left out, with the paired test of each."""
    import plotly.graph_objects as go

    counts = [_by_outcome(row) for row in report.rows]
    figure = go.Figure()
    for row, by_outcome, color in zip(report.rows, counts, (ORANGE, GRAY), strict=False):
        shares = [by_outcome[e.name] for e in report.effects]
        figure.add_bar(
            x=list(range(len(shares))),
            y=[100 * share.share for share in shares],
            name=escape(row.arm),
            marker_color=color,
            customdata=[[share.count, share.n] for share in shares],
            error_y=interval_bars([(share.low, share.share, share.high) for share in shares], BLUE, scale=100),
            hovertemplate="%{customdata[0]} of %{customdata[1]}: %{y:.1f}%<extra>%{fullData.name}</extra>",
        )
    figure.update_xaxes(
        title="what became of the answer; paired difference with its interval, exact McNemar test",
        tickvals=list(range(len(report.effects))),
        ticktext=[
            # Short lines: plotly drops a label that runs into its neighbor.
            f"{e.name}:<br>{' against '.join(str(shares[e.name].count) for shares in counts)} of {e.n}"
            f"<br>{e.won} only without cited,<br>{e.lost} only without uncited"
            f"<br>{e.difference:+.1f} [{e.low:+.1f}, {e.high:+.1f}] points<br>adjusted p {escape(p_text(e.p_adjusted))}"
            for e in report.effects
        ],
    )
    figure.update_yaxes(title="share of questions (%), 95% interval", range=[0, 100])
    figure.update_layout(barmode="group", legend={"y": -0.6})
    title = "Answers without the pages they cite" if report.n else "No answer cites pages that could be left out"
    return titled(figure, title, caption, height=520)


def _by_outcome(row: RemovalRow) -> dict[str, Share]:
    return {FLIPS: row.flipped, TO_WRONG: row.to_wrong}


def _counted(share: Share) -> str:
    return f"{share.count} of {share.n}: {share_text(share)}"


def _ratio(ratio: Ratio) -> str:
    if not ratio.n:
        return DASH
    interval = f"[{100 * ratio.low:.1f}, {100 * ratio.high:.1f}]"
    return f"{ratio.hits} of {ratio.total}: {100 * ratio.ratio:.1f}% {interval}"
