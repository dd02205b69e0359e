"""Plotly figures of the book; each takes finished reports and draws them.

All functions return a ``plotly.graph_objects.Figure``. ``caption`` is the subtitle, normally
:func:`~medvrag_core.views.theme.profile_caption`. Names are escaped, since plotly reads markup.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from medvrag_core.evaluation.cost.latency import LatencyRow
from medvrag_core.evaluation.retrieval.metrics import RetrievalReport
from medvrag_core.evaluation.stopping.rounds import PAPER_ROUNDS, RoundsRow
from medvrag_core.records import Page
from medvrag_core.views.markup import escape
from medvrag_core.views.theme import BLUE, GRAY, ORANGE, PALETTE, interval_bars, titled

if TYPE_CHECKING:
    import plotly.graph_objects as go


def rounds_distribution(rows: Sequence[RoundsRow], *, paper: bool = True, caption: str = "") -> go.Figure:
    """Share of questions by number of rounds, and the accuracy of each group (paper Figures 2 and 3)."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    figure = make_subplots(rows=1, cols=2, horizontal_spacing=0.13)
    x = [str(r.rounds) for r in rows]
    figure.add_trace(
        go.Bar(x=x, y=[100 * r.share for r in rows], name="this run", marker_color=BLUE, customdata=[r.n for r in rows],
               text=[f"n = {r.n}" for r in rows], textposition="outside", cliponaxis=False,
               hovertemplate="%{x} round(s): %{y:.1f}% (%{customdata} questions)<extra></extra>"),
        row=1, col=1,
    )  # fmt: skip
    figure.add_trace(
        go.Scatter(x=x, y=[100 * r.accuracy for r in rows], mode="markers", showlegend=False,
                   marker={"size": 11, "color": BLUE},
                   error_y=interval_bars([(r.low, r.accuracy, r.high) for r in rows], BLUE, scale=100),
                   hovertemplate="%{x} round(s): %{y:.1f}% right<extra></extra>"),
        row=1, col=2,
    )  # fmt: skip
    if paper:
        known = [str(count) for count in PAPER_ROUNDS]
        shares, accuracies = zip(*PAPER_ROUNDS.values(), strict=True)
        figure.add_trace(go.Bar(x=known, y=[100 * s for s in shares], name="paper", marker_color=GRAY), row=1, col=1)
        figure.add_trace(
            go.Scatter(x=known, y=[100 * a for a in accuracies], mode="markers", showlegend=False,
                       marker={"size": 11, "symbol": "diamond-open", "color": GRAY, "line": {"width": 2}}),
            row=1, col=2,
        )  # fmt: skip
    figure.update_xaxes(title="rounds used", type="category", categoryorder="category ascending")
    figure.update_yaxes(title="questions (%)", range=[0, 108], row=1, col=1)
    figure.update_yaxes(title="right (%), 95% interval", range=[0, 105], row=1, col=2)
    return titled(figure, "Rounds", caption)


def latency_bars(rows: Sequence[LatencyRow], *, caption: str = "") -> go.Figure:
    """Median seconds by step on a log axis with the p10 to p90 range, the paper's mean beside it."""
    import plotly.graph_objects as go

    timed = [r for r in rows if r.median is not None]
    quoted = [r for r in timed if r.paper is not None]
    figure = go.Figure(
        go.Scatter(
            x=[r.median for r in timed],
            y=[escape(r.label) for r in timed],
            mode="markers",
            name="this run: median, p10 to p90",
            marker={"size": 10, "color": BLUE},
            error_x=interval_bars([(r.p10 or 0, r.median or 0, r.p90 or 0) for r in timed], BLUE),
            customdata=[r.n for r in timed],
            hovertemplate="%{y}<br>%{x:.4g} s (n = %{customdata})<extra></extra>",
        )
    )
    figure.add_scatter(
        x=[r.paper for r in quoted],
        y=[escape(r.label) for r in quoted],
        mode="markers",
        name="paper: mean on 4 x A100",
        marker={"size": 10, "symbol": "diamond-open", "color": GRAY, "line": {"width": 2}},
        hovertemplate="%{y}<br>paper %{x:.4g} s<extra></extra>",
    )
    figure.update_xaxes(title="seconds (log scale)", type="log", dtick=1, exponentformat="power")
    figure.update_yaxes(autorange="reversed", type="category")
    return titled(figure, "Time by step", caption, height=200 + 30 * len(timed))


def recall_curve(reports: Mapping[str, RetrievalReport], *, caption: str = "") -> go.Figure:
    """Recall against the number of pages read, one line a retriever; the cut-offs are those of the reports."""
    import plotly.graph_objects as go

    figure = go.Figure()
    for place, (name, report) in enumerate(reports.items()):
        ks = sorted(report.recall)
        figure.add_scatter(
            x=ks,
            y=[100 * report.recall[k] for k in ks],
            name=f"{escape(name)} (nDCG@10 {report.ndcg_at_10:.3f})",
            mode="lines+markers",
            line={"color": PALETTE[place % len(PALETTE)], "dash": ("solid", "dash", "dot", "dashdot")[place % 4]},
            hovertemplate="%{y:.1f}% at k = %{x}<extra>" + escape(name) + "</extra>",
        )
    n = max((r.n for r in reports.values()), default=0)
    figure.update_xaxes(
        title="pages read, k (log scale)", type="log", tickvals=[1, 2, 5, 10, 20, 50, 100, 200, 500, 2000]
    )
    figure.update_yaxes(title=f"gold pages found (%), mean of {n} questions", range=[0, 102])
    return titled(figure, "Recall by retriever", caption, height=420)


def corpus_overview(pages: Sequence[Page], *, caption: str = "") -> go.Figure:
    """Pages by where their text came from, and the distribution of words a page."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    figure = make_subplots(rows=1, cols=2, column_widths=[0.3, 0.7], horizontal_spacing=0.12)
    sources = Counter[str](page.text_source for page in pages)
    names = {"pdf": "text layer", "ocr": "OCR", "none": "no text"}
    figure.add_bar(
        x=[names[s] for s in names], y=[sources[s] for s in names], marker_color=[BLUE, ORANGE, GRAY],
        text=[sources[s] for s in names], textposition="outside", cliponaxis=False, showlegend=False, row=1, col=1,
        hovertemplate="%{x}: %{y} pages<extra></extra>",
    )  # fmt: skip
    figure.add_trace(
        go.Histogram(x=[len(p.text.split()) for p in pages], nbinsx=30, marker_color=BLUE, showlegend=False,
                     hovertemplate="%{x} words: %{y} pages<extra></extra>"),
        row=1, col=2,
    )  # fmt: skip
    figure.update_xaxes(title="source of the text", row=1, col=1)
    figure.update_xaxes(title="words on the page", row=1, col=2)
    figure.update_yaxes(title="pages")
    articles = len({p.article_id for p in pages})
    return titled(
        figure, f"{len(pages)} page{'s' * (len(pages) != 1)} of {articles} article{'s' * (articles != 1)}", caption
    )


def index_sizes(sizes: Mapping[str, int], *, caption: str = "") -> go.Figure:
    """Bytes that each part of the index takes (vectors, centroids, ...), in megabytes."""
    import plotly.graph_objects as go

    figure = go.Figure(
        go.Bar(
            x=[size / 1e6 for size in sizes.values()],
            y=[escape(name) for name in sizes],
            orientation="h",
            marker_color=BLUE,
            text=[f"{size / 1e6:.2f} MB" for size in sizes.values()],
            textposition="auto",
            hovertemplate="%{y}: %{x:.3f} MB<extra></extra>",
        )
    )
    figure.update_xaxes(title="size (MB)", rangemode="tozero")
    figure.update_yaxes(autorange="reversed", type="category")
    return titled(figure, "Size of the index", caption, height=180 + 36 * len(sizes))


def score_scatter(
    coarse: Sequence[float],
    exact: Sequence[float],
    page_ids: Sequence[str],
    *,
    gold: Sequence[str] = (),
    caption: str = "",
) -> go.Figure:
    """Coarse against exact score of each shortlisted page of one query; gold pages stand out."""
    import plotly.graph_objects as go

    figure = go.Figure()
    for name, is_gold, color, symbol in (("page", False, BLUE, "circle"), ("gold page", True, ORANGE, "star")):
        chosen = [i for i, page in enumerate(page_ids) if (page in gold) == is_gold]
        if chosen:
            figure.add_scatter(
                x=[coarse[i] for i in chosen],
                y=[exact[i] for i in chosen],
                mode="markers",
                name=name,
                text=[escape(page_ids[i]) for i in chosen],
                marker={
                    "color": color,
                    "symbol": symbol,
                    "size": 14 if is_gold else 7,
                    "opacity": 1 if is_gold else 0.65,
                },
                hovertemplate="%{text}<br>coarse %{x:.3f}, exact %{y:.3f}<extra></extra>",
            )
    figure.update_xaxes(title="coarse score (centroids only, no unit)")
    figure.update_yaxes(title="exact two-way score S(q, p) (no unit)")
    return titled(figure, "Coarse and exact scores of one query", caption, height=440)
