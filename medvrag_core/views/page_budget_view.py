"""What the readings of the paper's numbers cost, and what the resolution of a page changes."""

from __future__ import annotations

from collections.abc import Sequence

from medvrag_core.encoders.page_budget import PAPER_PAGES, Reading, RenderedPage
from medvrag_core.views.tables import Code, HtmlTable, Number


def readings_table(readings: Sequence[Reading], *, caption: str = "") -> HtmlTable:
    """Vectors, width and size of a page under each reading, and of a corpus as large as the paper's."""
    papers = [page.paper for page in readings[0].pages]
    rows = [
        [
            reading.name,
            Code(", ".join(f"{name}={value}" for name, value in reading.settings.items())),
            Number(" × ".join(map(str, reading.pages[0].budget.shown))),
            Number(f"{reading.pages[0].budget.dim:,}"),
            *(Number(f"{page.budget.vectors:,}") for page in reading.pages),
            *(Number(f"{page.budget.bytes / 1000:,.1f}") for page in reading.pages),
            Number(f"{reading.corpus_bytes / 1e9:,.0f}"),
        ]
        for reading in readings
    ]
    columns = [
        *("reading", "encoder settings", f"pixels seen, {papers[0]}", "width"),
        *(f"vectors, {paper}" for paper in papers),
        *(f"KB, {paper}" for paper in papers),
        f"GB, {PAPER_PAGES:,} pages",
    ]
    return HtmlTable(columns, rows, caption=caption)


def resolution_table(pages: Sequence[RenderedPage], *, caption: str = "") -> HtmlTable:
    """What the model's processor makes of a page by the resolution at which it was rendered."""
    rows = [
        [
            page.paper,
            Number(str(page.dpi)),
            Number(" × ".join(map(str, page.budget.pixels))),
            Number(" × ".join(map(str, page.budget.shown))),
            Number(f"{page.budget.patches:,}"),
            Number(f"{page.budget.vectors:,}"),
        ]
        for page in pages
    ]
    columns = ["paper", "DPI", "pixels rendered", "pixels seen", "patches", "vectors"]
    return HtmlTable(columns, rows, caption=caption)
