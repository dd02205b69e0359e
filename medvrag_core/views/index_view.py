"""The index in the book: how far a mode has to look."""

from __future__ import annotations

from typing import TYPE_CHECKING

from medvrag_core.index.tune import TunedPoint, Tuning
from medvrag_core.views.theme import BLUE, GRAY, ORANGE, titled

if TYPE_CHECKING:
    import plotly.graph_objects as go


def tuning_figure(found: Tuning, *, caption: str = "") -> go.Figure:
    """Recall of exact search against time at every setting that was tried; the chosen one stands out."""
    import plotly.graph_objects as go

    figure = go.Figure()
    for name, chosen, color, symbol in (("tried", False, BLUE, "circle"), ("chosen", True, ORANGE, "star")):
        points = [p for number, p in enumerate(found.points) if (number == found.chosen) == chosen]
        if not points:
            continue
        figure.add_scatter(
            x=[1000 * p.seconds for p in points],
            y=[p.recall for p in points],
            mode="markers+text",
            name=name,
            text=[_setting(p) for p in points],
            textposition="middle right",
            textfont={"size": 11},
            marker={"size": 14 if chosen else 9, "color": color, "symbol": symbol},
            error_y={
                "type": "data",
                "symmetric": False,
                "array": [0.0 for _ in points],
                "arrayminus": [p.recall - p.lowest for p in points],
                "color": color,
                "thickness": 1,
            },
            customdata=[p.lowest for p in points],
            hovertemplate="%{text}<br>recall %{y:.4f}, lowest %{customdata:.4f}<br>%{x:.3g} ms<extra></extra>",
        )
    dashed = {"color": GRAY, "dash": "dash", "width": 1.5}
    figure.add_vline(
        x=1000 * found.exact_seconds, line=dashed, annotation_text="exact search", annotation_position="bottom left"
    )
    figure.add_hline(
        y=found.wanted, line=dashed, annotation_text=f"wanted: {found.wanted:g}", annotation_position="bottom right"
    )
    figure.update_xaxes(title="ms a query, median", rangemode="tozero")
    lowest = min(point.lowest for point in found.points)
    figure.update_yaxes(title=f"best {found.at} of exact search that were found", range=[max(0.0, lowest - 0.15), 1.06])
    return titled(
        figure, f"Tuning mode {found.mode}: {found.queries} queries, {found.pages:,} pages", caption, height=420
    )


def tuning_sentence(found: Tuning) -> str:
    """What was chosen, and what the bars mean."""
    bars = "A bar reaches down to the query with the lowest recall."
    if found.chosen is None:
        return f"No setting that was tried reaches {found.wanted:g}; mode exact finds all. {bars}"
    point = found.points[found.chosen]
    wanted = f"{found.wanted:g} of the best {found.at} pages in the mean"
    return f"The fastest setting that finds {wanted} is {_setting(point)}. {bars}"


def _setting(point: TunedPoint) -> str:
    names = {"shortlist": "R", "ann_neighbors": "centroids"}
    return ", ".join(f"{names.get(name, name)} = {value:,}" for name, value in point.changed.items())
