"""What became of every file and page of a corpus: funnel, rules, licences, what was left out, samples of the rest."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from medvrag_core.corpus.ledger_report import LedgerReport
from medvrag_core.corpus.ledger_table import LedgerRow
from medvrag_core.corpus.showing import PagePicture, as_picture
from medvrag_core.views.markup import HtmlBlock, escape
from medvrag_core.views.pages import alt_text, credit_html, page_thumbnail
from medvrag_core.views.tables import Code, HtmlTable, Number
from medvrag_core.views.theme import BLUE, GRAY, ORANGE, VERMILION, titled

if TYPE_CHECKING:
    import plotly.graph_objects as go

_COLORS = {"dropped": GRAY, "quarantined": VERMILION}


def funnel_figure(report: LedgerReport, *, caption: str = "") -> go.Figure:
    """Files and pages on their way into the corpus; the two have different units, so each has an axis of its own."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    figure = make_subplots(rows=1, cols=2, horizontal_spacing=0.22)
    for column, (unit, color) in enumerate((("files", ORANGE), ("pages", BLUE)), start=1):
        steps = [step for step in report.funnel if step.unit == unit]
        figure.add_trace(
            go.Funnel(
                y=[escape(step.name) for step in steps], x=[step.count for step in steps], marker_color=color,
                text=[f"{step.count:,}" for step in steps], textinfo="text", showlegend=False,
                hovertemplate=f"%{{y}}: %{{x:,}} {unit}<extra></extra>",
            ),
            row=1, col=column,
        )  # fmt: skip
    title = f"{report.pages_kept:,} of {report.pages_seen:,} pages, {report.articles:,} of {report.files:,} files"
    return titled(figure, title, caption)


def rules_table(report: LedgerReport) -> HtmlTable:
    """How often each rule was applied, to files and to pages."""
    rows = [[rule.level, rule.status, Code(rule.reason), Number(f"{rule.count:,}")] for rule in report.rules]
    rows += [["either", "kept, with this to know", Code(name), Number(f"{n:,}")] for name, n in report.changes.items()]
    return HtmlTable(["of a", "status", "rule", "count"], rows, caption="every rule that was applied")


def licences_table(report: LedgerReport) -> HtmlTable:
    """Articles by licence, and whether a published book may show their pages."""
    rows = [
        [of.licence, Number(f"{of.articles:,}"), of.use, f"no: {of.hidden}" if of.hidden else "yes, with attribution"]
        for of in report.licences
    ]
    head = ["licence", "articles", "use it allows", "pages in a published book"]
    return HtmlTable(head, rows, caption=f"licences of {report.articles:,} articles")


def rejected_gallery(rows: Sequence[LedgerRow], *, limit: int = 24) -> HtmlBlock:
    """A card for each file and page that was left out: which, by which rule, and the rule in words.

    Parameters
    ----------
    rows : see :func:`~medvrag_core.corpus.ledger_report.left_out`
    """
    cards = "".join(map(_card, rows[:limit]))
    more = f" (first {limit} of {len(rows)} shown)" if len(rows) > limit else ""
    told = f"{len(rows)} files and pages left out{more}" if rows else "nothing was left out"
    return HtmlBlock(
        f'<figure class="mv-rejected" style="margin:1em 0"><div style="display:grid;gap:10px;'
        f'grid-template-columns:repeat(auto-fill,minmax(210px,1fr))">{cards}</div>'
        f'<figcaption style="font-size:.85em;opacity:.95">{escape(told)}</figcaption></figure>'
    )


def page_gallery(pictures: Sequence[Path | PagePicture], *, width: int = 220) -> HtmlBlock:
    """Sample pages side by side, each with its id and its credit."""
    cards = []
    for picture in map(as_picture, pictures):
        cards.append(
            f'<figure style="margin:0"><img src="{page_thumbnail(picture, width=width)}" '
            f'alt="{alt_text(picture, f"Page {picture.page_id}")}" style="width:100%;border:1px solid #8884">'
            f'<figcaption style="font-size:.75em;overflow-wrap:anywhere"><b>{escape(picture.page_id)}</b>'
            f"{credit_html(picture)}</figcaption></figure>"
        )
    return HtmlBlock(
        '<div class="mv-gallery" style="display:grid;gap:14px;margin:1em 0;'
        f'grid-template-columns:repeat(auto-fill,minmax({width * 3 // 4}px,1fr))">{"".join(cards)}</div>'
    )


def _card(row: LedgerRow) -> str:
    where = row.file if row.page is None else f"{row.file}, page {row.page}"
    color = _COLORS[row.status]
    return (
        f'<div style="border:1px solid {color};border-left-width:5px;border-radius:6px;padding:8px 10px;'
        f'font-size:.85em;overflow-wrap:anywhere"><b>{escape(where)}</b><br>'
        f'<span style="font-weight:600">{escape(row.status)}</span> '
        f"<code>{escape(row.reason)}</code><br>{escape(row.detail)}</div>"
    )
