"""Sizes of paper, and what stands at the head and foot of every page."""

from __future__ import annotations

from dataclasses import dataclass

from reportlab.lib.colors import HexColor
from reportlab.lib.units import mm
from reportlab.pdfgen.canvas import Canvas

from typeset.fonts import SANS
from typeset.parse import Head

JOURNAL = "MedVRAG Teaching Reviews"
NOTICE = "Teaching material for software research, not medical advice."
_MM = float(mm)
_SIZES = {"journal": (170 * _MM, 240 * _MM), "a4": (210 * _MM, 297 * _MM), "letter": (215.9 * _MM, 279.4 * _MM)}
_GUTTER = 6 * _MM


@dataclass(frozen=True)
class Paper:
    """A page with its text area and columns; all in points from the lower left corner."""

    width: float
    height: float
    margin: float
    columns: int

    @classmethod
    def of(cls, head: Head) -> Paper:
        """The paper that an article asks for; one column has wider margins, so that its lines stay readable."""
        margin = 14 * _MM if head.paper == "journal" else 18 * _MM
        return cls(*_SIZES[head.paper], margin + (8 * _MM if head.columns == 1 else 0.0), head.columns)

    @property
    def top(self) -> float:
        """Upper edge of the text."""
        return self.height - 19 * _MM

    @property
    def bottom(self) -> float:
        """Lower edge of the text."""
        return 17 * _MM

    @property
    def text_width(self) -> float:
        """Width of all columns together."""
        return self.width - 2 * self.margin

    @property
    def column(self) -> float:
        """Width of one column."""
        return (self.text_width - _GUTTER * (self.columns - 1)) / self.columns

    def column_left(self, number: int) -> float:
        """Left edge of a column, counted from 0."""
        return self.margin + number * (self.column + _GUTTER)


def running_lines(canvas: Canvas, paper: Paper, head: Head, page: int, pages: int) -> None:
    """Print journal and year, running head, notice and page number."""
    canvas.setFillColor(HexColor("#4a5661"))
    canvas.setStrokeColor(HexColor("#9aa5b1"))
    canvas.setLineWidth(0.4)
    canvas.setFont(SANS, 7.4)
    left, right = paper.margin, paper.width - paper.margin
    canvas.drawString(left, paper.height - 12.5 * _MM, f"{JOURNAL} {head.year}" if head.year else JOURNAL)
    canvas.drawRightString(right, paper.height - 12.5 * _MM, head.running)
    canvas.line(left, paper.height - 14 * _MM, right, paper.height - 14 * _MM)
    canvas.line(left, 13.5 * _MM, right, 13.5 * _MM)
    canvas.drawString(left, 10 * _MM, NOTICE)
    canvas.drawRightString(right, 10 * _MM, f"{page} of {pages}")
