"""One look for all figures: a color-blind-safe palette, fonts and sizes, for light and dark pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from medvrag_core.views.markup import escape

if TYPE_CHECKING:
    import plotly.graph_objects as go

BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY, GRAY = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#d55e00",
    "#a8518a",
    "#56b4e9",
    "#7a7f87",
)
PALETTE = (BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY, GRAY)
"""Okabe and Ito's colors (purple darkened for contrast); gray is for what is quoted, not measured."""

FONT = "system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif"
HEIGHT = 380
ROW_HEIGHT = 44
"""Pixels that one bar or row of a horizontal figure takes."""


def template(*, dark: bool = False) -> go.layout.Template:
    """The plotly template of the book; ``dark`` for a dark page. Backgrounds are plain and opaque."""
    import plotly.graph_objects as go

    ink, soft, grid, paper = (
        ("#e6e8eb", "#a9b0b8", "#3a4048", "#181b1f") if dark else ("#1f2328", "#59636e", "#e3e6ea", "#ffffff")
    )
    axis = {
        "gridcolor": grid,
        "linecolor": soft,
        "zerolinecolor": soft,
        "ticks": "outside",
        "tickcolor": grid,
        "automargin": True,
        "title": {"font": {"size": 13, "color": soft}, "standoff": 10},
    }
    return go.layout.Template(
        layout={
            "font": {"family": FONT, "size": 13, "color": ink},
            "title": {
                "font": {"size": 16},
                "x": 0,
                "xref": "paper",
                "xanchor": "left",
                "yref": "container",
                # As far from the edge in a tall figure as in a low one.
                "y": 1,
                "yanchor": "top",
                "pad": {"t": 16},
            },
            "colorway": list(PALETTE),
            "paper_bgcolor": paper,
            "plot_bgcolor": paper,
            "xaxis": axis,
            "yaxis": axis,
            "legend": {"orientation": "h", "x": 0, "y": -0.22, "yanchor": "top", "font": {"size": 12}},
            "margin": {"l": 64, "r": 24, "t": 84, "b": 56},
            "height": HEIGHT,
            "hoverlabel": {"font": {"family": FONT, "size": 12}},
        }
    )


def profile_caption(profile: str) -> str:
    """What a reader must know about numbers of this profile, as the subtitle of a figure.

    >>> profile_caption("cpu")
    "profile cpu – tests the machinery, not the paper's claims"
    """
    scopes = {"a100": "the paper's models", "gpu1": "smaller models than the paper's", "hosted": "other models"}
    scope = scopes.get(profile, "tests the machinery, not the paper's claims")
    return f"profile {profile} – {scope}"


def titled(figure: go.Figure, title: str, caption: str = "", *, height: int = HEIGHT, dark: bool = False) -> go.Figure:
    """Give a figure the book's template, a title and a subtitle; returns the same figure."""
    subtitle = {"text": escape(caption), "font": {"size": 12}} if caption else {}
    figure.update_layout(
        template=template(dark=dark), title={"text": escape(title), "subtitle": subtitle}, height=height
    )
    return figure


def faint(color: str) -> str:
    """A color of the palette as a band of a flow has it, so that bands that cross stay apart.

    >>> faint(BLUE)
    'rgba(0,114,178,0.35)'
    """
    red, green, blue = (int(color[place : place + 2], 16) for place in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.35)"


def sankey(
    nodes: Sequence[tuple[str, str]],
    links: Sequence[tuple[int, int, int, str]],
    hover: str,
    *,
    pad: int = 24,
    labels: Sequence[str] = (),
) -> go.Sankey:
    """A Sankey diagram in the look of the book.

    Parameters
    ----------
    nodes : label and color of each
    links : numbers of two nodes, what flows between them, and a color, of which the band gets a faint one
    hover : template of plotly for a band
    labels : of the links, for ``hover``
    """
    import plotly.graph_objects as go

    return go.Sankey(
        arrangement="snap",
        node={
            "label": [label for label, _ in nodes],
            "color": [color for _, color in nodes],
            "pad": pad,
            "thickness": 16,
            "line": {"width": 0},
        },
        link={
            "source": [link[0] for link in links],
            "target": [link[1] for link in links],
            "value": [link[2] for link in links],
            "color": [faint(link[3]) for link in links],
            "hovertemplate": hover,
            **({"label": list(labels)} if labels else {}),
        },
        valueformat=".0f",
    )


def interval_bars(points: Sequence[tuple[float, float, float]], color: str, *, scale: float = 1) -> dict[str, Any]:
    """Error bars as plotly wants them; a point is low end, the value that is drawn, and high end.

    >>> bars = interval_bars([(0.5, 0.75, 1.0)], BLUE, scale=100)
    >>> bars["arrayminus"], bars["array"]
    ([25.0], [25.0])
    """
    return {
        "type": "data",
        "symmetric": False,
        "array": [scale * (high - value) for _, value, high in points],
        "arrayminus": [scale * (value - low) for low, value, _ in points],
        "color": color,
    }


def labeled_range(points: Sequence[tuple[float, float, float]], *, least: float = 1.0) -> tuple[float, float]:
    """The range of an axis of differences that holds zero, every interval, and the label centered on every mark.

    Parameters
    ----------
    points : low end, the value that is drawn, and high end; a label takes up to 0.6 of the width
    least : width that the range has at least, so that a small difference looks small

    >>> labeled_range([(0.0, 0.5, 1.0)], least=10)
    (-4.5, 5.5)
    """
    marks, half = [value for _, value, _ in points] or [0.0], 0.3
    low, high = min([0.0, *(p[0] for p in points)]), max([0.0, *(p[2] for p in points)])
    first, last = min(marks), max(marks)
    # Each bound is set by an end of an interval, or by a label whose share of the width is fixed.
    one_label = max(high - first, last - low) / (1 - half)
    width = max(1.04 * (high - low), one_label, (last - first) / (1 - 2 * half), least)
    left, right = min(low, first - half * width), max(high, last + half * width)
    slack = max(0.0, width - (right - left)) / 2
    return left - slack, right + slack
