"""Plotly figures in the static book: JSON in the page, drawn by the one vendored plotly.js."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from typing import Any, ClassVar

PLOTLY_MIME = "application/vnd.plotly.v1+json"


class PlotlyRenderer:
    """MyST-NB renderer of the plotly mime type (entry point ``myst_nb.mime_renderers``)."""

    # Priorities are kept for each builder by its name; a builder left out would lose the figures.
    mime_priority_overrides: ClassVar[Sequence[tuple[str, str, int | None]]] = (
        ("html", PLOTLY_MIME, 1),
        ("singlehtml", PLOTLY_MIME, 1),
    )

    @staticmethod
    def handle_mime(renderer: Any, data: Any, inline: bool) -> list[Any] | None:
        """Turn one figure into raw HTML nodes; ``None`` leaves other outputs to MyST-NB."""
        if inline or data.mime_type != PLOTLY_MIME:
            return None
        from docutils import nodes

        figure = json.loads(data.content) if isinstance(data.content, str) else data.content
        return [nodes.raw(text=figure_html(figure), format="html", classes=["output", "plotly"])]


def figure_html(figure: dict[str, Any]) -> str:
    """A figure as a div with its JSON; ``book/_assets/figures.js`` draws it.

    Text inside the figure cannot leave the script element: ``<``, ``>`` and ``&`` are escaped.

    >>> "</script><b>" in figure_html({"data": [{"name": "</script><b>"}], "layout": {}})
    False
    """
    layout = figure.get("layout", {})
    kept = {"data": figure.get("data", []), "layout": layout}
    text = json.dumps(kept, allow_nan=False).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    title = escape(_title(layout), quote=True)
    return (
        f'<figure class="medvrag-figure" aria-label="{title}">'
        f'<div class="medvrag-plot"></div><script type="application/json">{text}</script>'
        f"<noscript><p>Interactive figure: {title}. It is drawn by JavaScript that ships with this page; "
        "the numbers behind it stand in the tables of this chapter and in the run folder.</p></noscript></figure>"
    )


def _title(layout: dict[str, Any]) -> str:
    title = layout.get("title")
    text = title.get("text") if isinstance(title, dict) else title
    return str(text or "figure")
