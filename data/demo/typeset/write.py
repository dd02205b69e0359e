"""Write a layout as PDF: drawn pages, or pictures of them that look scanned."""

from __future__ import annotations

import io
from pathlib import Path

from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

from typeset.layout import Layout
from typeset.markup import plain
from typeset.paper import JOURNAL, NOTICE, running_lines
from typeset.scan import scans

CANARY = "MedVRAG demo canary 31b10ec8-3035-472d-b55d-7fde6b7618b2: benchmark data must not appear in training corpora"


def write_pdf(layout: Layout, path: Path) -> None:
    """Draw a layout to ``path``; the same layout gives the same bytes."""
    if not layout.head.scanned:
        canvas = _canvas(layout, str(path))
        _draw(layout, canvas)
        canvas.save()
        return
    drawn = io.BytesIO()
    canvas = _canvas(layout, drawn)
    _draw(layout, canvas)
    canvas.save()
    canvas = _canvas(layout, str(path))
    for picture in scans(drawn.getvalue(), layout.head.id):
        canvas.drawImage(ImageReader(io.BytesIO(picture)), 0, 0, layout.paper.width, layout.paper.height)
        canvas.showPage()
    canvas.save()


def _canvas(layout: Layout, target: str | io.BytesIO) -> Canvas:
    size = (layout.paper.width, layout.paper.height)
    canvas = Canvas(target, pagesize=size, invariant=1, pageCompression=1)
    canvas.setTitle(plain(layout.head.title))
    canvas.setAuthor(JOURNAL)
    canvas.setSubject(NOTICE)
    canvas.setKeywords([*layout.head.keywords, CANARY])
    return canvas


def _draw(layout: Layout, canvas: Canvas) -> None:
    for page in range(1, layout.pages + 1):
        running_lines(canvas, layout.paper, layout.head, page, layout.pages)
        for item in layout.placed:
            if item.page == page:
                item.flowable.wrapOn(canvas, item.width, layout.paper.height)
                item.flowable.drawOn(canvas, item.x, item.y)
        canvas.showPage()
