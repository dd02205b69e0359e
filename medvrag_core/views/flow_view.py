"""Flows: questions through the rounds, pages through the filter, and answers that two arms do not share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from medvrag_core.evaluation.statistics.contrasts import Contrast
from medvrag_core.evaluation.stopping.rounds import RoundsRow
from medvrag_core.records import FilterDecision, Hit
from medvrag_core.views.markup import escape
from medvrag_core.views.theme import BLUE, GRAY, ORANGE, PURPLE, ROW_HEIGHT, SKY, VERMILION, sankey, titled

if TYPE_CHECKING:
    import plotly.graph_objects as go


def rounds_flow_figure(rows: Sequence[RoundsRow], *, caption: str = "") -> go.Figure:
    """Questions from round to round: how many end in each, right or not, and how many ask again (paper Figures 2, 3).

    Parameters
    ----------
    rows : of one arm, fewest rounds first; a question that never got an answer counts as not right
    """
    import plotly.graph_objects as go

    rows = [row for row in rows if row.n]
    left, reach = sum(row.n for row in rows), []
    for row in rows:
        reach.append(left)
        left -= row.n
    right, wrong = len(rows), len(rows) + 1
    links = [(k, k + 1, reach[k + 1], GRAY, "ask again") for k in range(len(rows) - 1)]
    for k, row in enumerate(rows):
        links += [(k, right, row.correct, SKY, "right"), (k, wrong, row.n - row.correct, VERMILION, "not right")]
    links = [link for link in links if link[2]]
    hits = sum(row.correct for row in rows)
    nodes = [
        *((f"Round {row.rounds}: {n}", BLUE) for row, n in zip(rows, reach, strict=True)),
        (f"right: {hits}", SKY),
        (f"not right: {sum(row.n for row in rows) - hits}", VERMILION),
    ]
    hover = "%{source.label}<br>%{value:.0f} %{label}<extra></extra>"
    figure = go.Figure(sankey(nodes, [link[:4] for link in links], hover, labels=[link[4] for link in links]))
    return titled(figure, "Questions from round to round", caption)


def rank_flow_figure(
    hits: Sequence[Hit],
    decision: FilterDecision,
    *,
    gold: Sequence[str] = (),
    shown: Sequence[str] = (),
    first: int = 25,
    caption: str = "",
) -> go.Figure:
    """Rank of pages before and after the filter, one line a page; a line to the foot is a page that was dropped.

    Drawn are the ``first`` candidates, the pages that the reader got, and all gold pages among the candidates.
    Ranks are on a log axis, since what happens at the top matters most.
    """
    import plotly.graph_objects as go

    after = {page_id: rank for rank, page_id in enumerate(decision.kept, start=1)}
    foot = 1.6 * max([1, *(hit.rank for hit in hits), *after.values()])
    drawn = [hit for hit in hits if hit.rank <= first or hit.page_id in shown or hit.page_id in gold]
    kinds = (("dropped", GRAY, 1), ("kept", PURPLE, 1), ("shown to the reader", BLUE, 2), ("gold page", ORANGE, 4))
    figure = go.Figure()
    for name, color, width in kinds:
        mine = [hit for hit in drawn if _kind(hit.page_id, after, gold, shown) == name]
        if not mine:
            continue
        told = [
            f"{escape(h.page_id)}<br>rank {h.rank}, then {after.get(h.page_id) or 'dropped'}<extra>{name}</extra>"
            for h in mine
        ]
        figure.add_scatter(
            # None parts one page's line from the next.
            x=[x for _ in mine for x in ("Stage 1", "filter", None)],
            y=[y for h in mine for y in (h.rank, after.get(h.page_id, foot), None)],
            mode="lines+markers",
            name=name,
            line={"color": color, "width": width, "dash": "dot" if name == "dropped" else "solid"},
            marker={"color": color, "size": 9 if name == "gold page" else 5},
            hovertemplate=[text for text in told for _ in range(3)],
        )
    ticks = [rank for rank in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000) if rank < foot / 1.3]
    figure.update_xaxes(title=f"{len(hits)} candidates, {len(after)} kept", range=[-0.15, 1.15], showgrid=False)
    figure.update_yaxes(
        title="rank (log scale)", type="log", autorange="reversed",
        tickvals=[*ticks, foot], ticktext=[*map(str, ticks), "dropped"],
    )  # fmt: skip
    return titled(figure, "Ranks before and after the filter", caption, height=480)


def discordance_figure(contrasts: Sequence[Contrast], *, caption: str = "") -> go.Figure:
    """Questions on which two arms differ: to the left those that the second loses, to the right those that it wins.

    The exact McNemar test looks at these questions alone; on all others the arms agree.
    """
    import plotly.graph_objects as go

    effects = [found.estimates[1] for found in contrasts]  # of questions, whatever the sets
    names = [
        f"{escape(c.b)}<br>over {escape(c.a)}<br>{e.n - e.won - e.lost} of {e.n} alike"
        for c, e in zip(contrasts, effects, strict=True)
    ]
    figure = go.Figure()
    for name, color, counts, sign in (
        ("lost", VERMILION, [e.lost for e in effects], -1),
        ("won", BLUE, [e.won for e in effects], 1),
    ):
        figure.add_bar(
            x=[sign * count for count in counts], y=names, orientation="h", name=name, marker_color=color,
            text=counts, textposition="outside", cliponaxis=False, customdata=counts,
            hovertemplate="%{y}<br>%{customdata} " + name + "<extra></extra>",
        )  # fmt: skip
    most = max([1, *(max(e.won, e.lost) for e in effects)])
    figure.add_vline(x=0, line={"color": GRAY, "width": 1.5})
    figure.update_layout(barmode="relative", showlegend=False)
    step = max(1, round(most / 4))
    ticks = list(range(0, most + 1, step))
    figure.update_xaxes(
        title="questions lost (left) and won (right)", range=[-1.2 * most, 1.2 * most],
        tickvals=[-tick for tick in ticks[:0:-1]] + ticks, ticktext=[*map(str, ticks[:0:-1]), *map(str, ticks)],
    )  # fmt: skip
    figure.update_yaxes(autorange="reversed", type="category")
    return titled(figure, "Where two arms differ", caption, height=180 + (ROW_HEIGHT + 22) * len(contrasts))


def _kind(page_id: str, after: dict[str, int], gold: Sequence[str], shown: Sequence[str]) -> str:
    if page_id in gold:
        return "gold page"
    if page_id in shown:
        return "shown to the reader"
    return "kept" if page_id in after else "dropped"
