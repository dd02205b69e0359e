"""Tables and figures of retrieval measured as such; every comparison of two rankings comes with its test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from medvrag_core.evaluation.retrieval.exact_overlap import ExactOverlap, SearchedWay
from medvrag_core.evaluation.retrieval.paired import PairedRetrieval
from medvrag_core.evaluation.retrieval.stages import Stage, StageRecall
from medvrag_core.evaluation.statistics.means import Estimate
from medvrag_core.views.markup import escape
from medvrag_core.views.tables import HtmlTable, Number, counted, p_text, seconds
from medvrag_core.views.theme import BLUE, GRAY, ORANGE, ROW_HEIGHT, interval_bars, labeled_range, titled

if TYPE_CHECKING:
    import plotly.graph_objects as go

STAGE_LABELS: dict[Stage, str] = {
    "candidates": "candidates of Stage 1",
    "kept": "kept by the filter",
    "shown": "shown to the reader",
}


CHUNKS_COUNT = (
    "a chunk counts for the page with most of its words alone, so a page that leads in no chunk cannot be found"
)
"""Said beside numbers of arms that rank text chunks."""


def stage_recall_table(report: StageRecall, *, caption: str = "") -> HtmlTable:
    """Recall by stage and depth with intervals; how high a stage ranks gold pages stands in its last row."""
    ranks = {rank.stage: rank for rank in report.ranks}
    rows: list[list[object]] = []
    for row, after in zip(report.rows, [*report.rows[1:], None], strict=True):
        rank = ranks.get(row.stage) if after is None or after.stage != row.stage else None
        rows.append(
            [
                STAGE_LABELS[row.stage],
                Number(f"{row.k:,}"),
                *(estimate_cell(e) for e in (row.recall, row.any_gold, row.all_gold)),
                *(estimate_cell(e) for e in ((rank.ndcg_at_10, rank.mrr) if rank else (None, None))),
            ]
        )
        if report.gold == "labels":
            rows[-1].append(Number("–" if row.judged is None else f"{100 * row.judged:.0f}%"))
    columns = ["stage", "first k", "recall", "any gold page", "all gold pages", "nDCG@10", "MRR"]
    if report.gold == "labels":
        columns.append("pages labeled")
    parts = [
        caption,
        f"{report.system}, {'first round' if report.rounds == 'first' else 'any round'}",
        f"{counted(report.questions, 'question')} with {report.gold_pages} relevant pages",
        f"{report.unranked} without any ranking count as 0",
        f"{report.confidence:.0%} bootstrap intervals over questions",
        CHUNKS_COUNT if report.chunks else "",
    ]
    return HtmlTable(columns, rows, caption="; ".join(filter(None, parts)))


def stage_funnel(report: StageRecall, *, caption: str = "") -> go.Figure:
    """Recall of every stage and depth with intervals, the first stage on top."""
    import plotly.graph_objects as go

    names = [f"{STAGE_LABELS[row.stage]}, first {row.k:,}" for row in report.rows]
    figure = go.Figure()
    # The two series sit a little apart, so that equal values stay visible.
    for name, color, symbol, shift, found in (
        ("share of a question's gold pages", BLUE, "circle", -0.13, [row.recall for row in report.rows]),
        ("questions with all gold pages", ORANGE, "square", 0.13, [row.all_gold for row in report.rows]),
    ):
        figure.add_scatter(
            x=[100 * e.value for e in found],
            y=[place + shift for place in range(len(found))],
            name=name,
            mode="markers",
            marker={"size": 10, "color": color, "symbol": symbol},
            error_x=interval_bars([(e.low, e.value, e.high) for e in found], color, scale=100),
            customdata=[[names[place], 100 * e.low, 100 * e.high] for place, e in enumerate(found)],
            hovertemplate="%{customdata[0]}<br>%{x:.1f}% [%{customdata[1]:.1f}, %{customdata[2]:.1f}]<extra></extra>",
        )
    figure.update_yaxes(
        tickvals=list(range(len(names))), ticktext=names, range=[len(names) - 0.5, -0.5], showgrid=False, zeroline=False
    )
    figure.update_xaxes(
        title=f"mean of {counted(report.questions, 'question')} (%), with bootstrap interval", range=[0, 101]
    )
    return titled(
        figure, f"Gold pages stage by stage: {report.system}", caption, height=200 + ROW_HEIGHT * len(report.rows)
    )


def paired_retrieval_table(paired: Sequence[PairedRetrieval], *, caption: str = "") -> HtmlTable:
    """Each ranking against the baseline: counts, interval, Holm's p over this table, means and sign-flip p."""
    rows = [
        [
            f"{c.b} over {c.a}",
            c.metric,
            Number(str(c.n)),
            Number(f"{c.won} / {c.lost}"),
            Number(f"{c.difference:+.3f}"),
            Number(f"[{c.low:+.3f}, {c.high:+.3f}]"),
            Number(p_text(c.p_adjusted)),
            Number(f"{c.mean_a:.3f} → {c.mean_b:.3f}"),
            Number(p_text(c.p_value)),
        ]
        for c in paired
    ]
    confidence = f"{paired[0].confidence:.0%}" if paired else ""
    decides = ["comparison", "metric", "n", "won / lost", "difference", f"{confidence} interval", "Holm p"]
    return HtmlTable([*decides, "means", "sign-flip p"], rows, caption=caption)


def paired_retrieval_figure(paired: Sequence[PairedRetrieval], *, caption: str = "") -> go.Figure:
    """Paired differences with bootstrap intervals, won and lost questions and adjusted p beside each; zero is equal."""
    import plotly.graph_objects as go

    points = [(c.low, c.difference, c.high) for c in paired]
    figure = go.Figure(
        go.Scatter(
            x=[c.difference for c in paired],
            y=[f"{escape(c.b)}<br>over {escape(c.a)}<br>{escape(c.metric)}" for c in paired],
            mode="markers+text",
            marker={"size": 10, "symbol": "square", "color": BLUE},
            text=[
                f"{c.difference:+.3f} (won {c.won}, lost {c.lost})<br>Holm p {escape(p_text(c.p_adjusted))}"
                for c in paired
            ],
            textposition="top center",
            textfont={"size": 11},
            error_x=interval_bars(points, BLUE),
            customdata=[[c.low, c.high, c.n] for c in paired],
            hovertemplate="%{y}<br>%{x:+.3f} [%{customdata[0]:+.3f}, %{customdata[1]:+.3f}]"
            "<br>n = %{customdata[2]}<extra></extra>",
            showlegend=False,
        )
    )
    figure.add_vline(x=0, line={"color": GRAY, "width": 1.5}, layer="below")
    n = max((c.n for c in paired), default=0)
    title = f"mean difference over {counted(n, 'question')}, with bootstrap interval"
    figure.update_xaxes(title=title, range=labeled_range(points, least=0.2))
    figure.update_yaxes(range=[len(paired) - 0.4, -0.7], type="category")
    return titled(figure, "Paired differences between rankings", caption, height=180 + (ROW_HEIGHT + 22) * len(paired))


def overlap_table(found: ExactOverlap, *, caption: str = "") -> HtmlTable:
    """What each way to search has in common with exact search, and what it takes."""
    rows = [
        [
            searched.mode,
            *(_count(n) for n in (searched.ann_neighbors, searched.shortlist)),
            Number(f"{searched.rescore:,}"),
            Number(f"{row.k:,}"),
            estimate_cell(row.overlap),
            Number(f"{row.identical} of {found.queries}"),
            Number(f"{row.proved} of {found.queries}"),
            Number(seconds(searched.seconds)),
            ", ".join(f"{step.step} {seconds(step.seconds)}" for step in searched.steps),
            overlap_note(found, searched),
        ]
        for searched in found.searched
        for row in searched.rows
    ]
    parts = [
        caption,
        f"{found.queries} queries, {found.pages:,} pages, second half of S weighted {found.backward_weight:g}",
        "the first row is mode exact as the profile has it",
        "time: median of one search, encoding left out; steps: their means",
        "no finding: every page is scored by its vectors, so agreement is certain",
        *(f"mode {mode} is left out: {reason}" for mode, reason in found.left_out.items()),
    ]
    columns = [
        *("mode", "centroids a query vector", "shortlist R", "scored anew", "first k", "found of exact search"),
        *("same order", "proved", "time", "steps", ""),
    ]
    return HtmlTable(columns, rows, caption="; ".join(filter(None, parts)))


def overlap_note(found: ExactOverlap, searched: SearchedWay) -> str:
    """What agreement with exact search can show, where it is less than it seems."""
    if found.shows_nothing(searched):
        return "no finding"
    if searched.whole and searched.mode != "exact":
        return "the shortlist holds every page"
    return ""


def _count(number: int | None) -> Number:
    return Number("–" if number is None else f"{number:,}")


def estimate_text(found: Estimate | None) -> str:
    """A number with its interval; a dash for None."""
    return "–" if found is None else f"{found.value:.3f} [{found.low:.3f}, {found.high:.3f}]"


def estimate_cell(found: Estimate | None) -> Number:
    """:func:`estimate_text` as a cell."""
    return Number(estimate_text(found))
