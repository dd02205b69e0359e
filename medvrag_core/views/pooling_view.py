"""Pages with fewer and fewer vectors: the map of one query at each size, and what retrieval loses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from medvrag_core.corpus.showing import PagePicture
from medvrag_core.evaluation.retrieval.paired import PairedRetrieval
from medvrag_core.evaluation.retrieval.pooling_curve import PooledMap, PoolingCurve, Way
from medvrag_core.views.markup import HtmlBlock, escape
from medvrag_core.views.page_maps import PageMap, half_clear, page_maps
from medvrag_core.views.retrieval_view import estimate_cell
from medvrag_core.views.tables import HtmlTable, Number, counted
from medvrag_core.views.theme import BLUE, GRAY, GREEN, ORANGE, interval_bars, titled

if TYPE_CHECKING:
    import plotly.graph_objects as go

_WAYS: dict[Way, tuple[str, str, str, float]] = {
    "similarity": ("merged by similarity", BLUE, "circle", 0.97),
    "position": ("merged by position", ORANGE, "square", 1.03),
    "stored": ("as stored in this run", GREEN, "diamond", 1.0),
    "unpooled": ("a vector for every patch", GRAY, "x", 1.0),
}


def pooled_maps_view(
    image: Path | PagePicture, boxes: NDArray[np.float32], maps: Sequence[PooledMap], *, query: str
) -> HtmlBlock:
    """One page and one query at every number of vectors; each map is shaded on its own scale."""
    shown = [
        PageMap(
            name=made.name,
            cells=(f"{made.vectors:,}", f"{made.score:.3f}", f"{made.agreement:.2f}"),
            note=f"Best similarity of each patch with any word, {made.vectors:,} vectors for {len(boxes):,} patches.",
            values=made.values,
            scale=half_clear(made.values),
        )
        for made in maps
    ]
    return page_maps(
        image,
        boxes,
        shown,
        columns=("pooling", "vectors", "score S", "agreement"),
        title=query,
        legend="Vectors of the page",
    )


def pooling_table(curve: PoolingCurve, *, caption: str = "") -> HtmlTable:
    """Vectors, size, quality and maps at each size; which differences are real stands in the table of its tests."""
    rows = [
        [
            row.name,
            Number(f"{row.vectors_per_page:.0f}"),
            Number(f"{row.bytes_per_page / 1000:.1f}"),
            estimate_cell(row.ndcg_at_10),
            estimate_cell(row.agreement),
            Number("–" if row.patches_behind_best is None else f"{row.patches_behind_best:.1f}"),
        ]
        for row in curve.rows
    ]
    parts = [
        caption,
        f"{counted(curve.questions, 'question')} on {_pages(curve)}, exact search",
        "agreement: rank correlation with the map of the same page without pooling",
    ]
    columns = ["pages", "vectors", "KB a page", "nDCG@10", "agreement of maps", "patches behind a best vector"]
    return HtmlTable(columns, rows, caption="; ".join(filter(None, parts)))


def pooling_figure(curve: PoolingCurve, *, caption: str = "") -> go.Figure:
    """nDCG@10 against vectors a page, one line for each way of pooling."""
    import plotly.graph_objects as go

    figure = go.Figure()
    # The two ways have the same sizes and stand a little apart, so that both intervals can be seen.
    for way, (name, color, symbol, shift) in _WAYS.items():
        rows = [row for row in curve.rows if row.way == way]
        figure.add_scatter(
            x=[shift * row.vectors_per_page for row in rows],
            y=[row.ndcg_at_10.value for row in rows],
            error_y=interval_bars([(r.ndcg_at_10.low, r.ndcg_at_10.value, r.ndcg_at_10.high) for r in rows], color),
            mode="lines+markers" if len(rows) > 1 else "markers",
            name=name,
            line={"color": color},
            marker={"size": 10, "color": color, "symbol": symbol},
            text=[escape(f"{row.name}: {row.bytes_per_page / 1000:.1f} KB a page") for row in rows],
            customdata=[row.vectors_per_page for row in rows],
            hovertemplate="%{text}<br>%{customdata:.0f} vectors a page, nDCG@10 %{y:.3f}<extra></extra>",
        )
    figure.update_xaxes(title="vectors a page (log scale)", type="log", tickvals=[5, 10, 20, 50, 100, 200, 500, 1000])
    figure.update_yaxes(title=f"nDCG@10, mean of {counted(curve.questions, 'question')}")
    return titled(figure, f"Retrieval with fewer vectors, {_pages(curve)}", caption, height=440)


def pooling_sentence(curve: PoolingCurve) -> str:
    """What the tests show about fewer vectors and about the two ways, in words."""
    against = [test for test in curve.paired if test.a == "unpooled"]
    between = [test for test in curve.paired if test.a != "unpooled"]
    return (
        f"Against a vector for every patch, {_clear(against)} "
        f"Between the two ways of merging at the same size, {_clear(between)} "
        f"Between the maps of the two ways, by how well they agree with those before, {_clear(curve.paired_maps)} "
        "Where nothing is clear, equality is not shown either: the intervals say what may be hidden."
    )


def _clear(tests: Sequence[PairedRetrieval]) -> str:
    found = [test for test in tests if test.p_adjusted < 1 - test.confidence]
    if not found:
        return f"none of {len(tests)} differences is clear."
    named = "; ".join(f"{test.b} over {test.a} {test.difference:+.3f}" for test in found)
    return f"{len(found)} of {len(tests)} differences {'is' if len(found) == 1 else 'are'} clear ({named})."


def _pages(curve: PoolingCurve) -> str:
    return f"{curve.pages} pages" if curve.pages == curve.of_pages else f"{curve.pages} of {curve.of_pages:,} pages"
