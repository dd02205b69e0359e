"""Timelines and panels."""

from __future__ import annotations

from typing import Any

from reportlab.lib.colors import white

from typeset.draw import INK, LEADING, LINE, PALE, longest_word, put_lines, text_width, wrap
from typeset.figure_kinds import Panels, Timeline


class TimelineArt:
    """Events on a vertical line, dates on its left and what happens on its right."""

    def __init__(self, figure: Timeline, width: float) -> None:
        self.width = width
        dates = [date for date, _ in figure.events]
        widest = max(text_width(date, bold=True) for date in dates)
        self.axis = min(widest, max(width * 0.3, *(longest_word(date, bold=True) for date in dates))) + 9
        self.rows = [
            (wrap(date, self.axis - 8.5, bold=True), wrap(text, width - self.axis - 9)) for date, text in figure.events
        ]
        self.heights = [max(len(date), len(text)) * LEADING + 7 for date, text in self.rows]
        self.height = sum(self.heights) + 2

    def paint(self, canvas: Any) -> None:
        """Draw the line, a dot for each event and both texts."""
        canvas.setStrokeColor(LINE)
        canvas.setLineWidth(1)
        canvas.line(self.axis, self.height - 4, self.axis, self.heights[-1] - 6)
        y = self.height
        for (date, text), height in zip(self.rows, self.heights, strict=True):
            put_lines(canvas, date, self.axis - 7, y, align="right", bold=True)
            put_lines(canvas, text, self.axis + 8, y, align="left")
            canvas.setFillColor(white)
            canvas.setStrokeColor(LINE)
            canvas.circle(self.axis, y - 4, 2.6, stroke=1, fill=1)
            y -= height


class PanelsArt:
    """Titled boxes side by side; they continue in a second row when the width holds no more."""

    def __init__(self, figure: Panels, width: float) -> None:
        self.width = width
        need = max(
            max(longest_word(panel.title, bold=True), *(longest_word(line) for line in panel.lines), 60.0)
            for panel in figure.panels
        )
        per_row = max(1, min(len(figure.panels), int((width + 6) // (need + 14))))
        # Even rows look better than a full row with one box left over.
        rows = -(-len(figure.panels) // per_row)
        per_row = -(-len(figure.panels) // rows)
        self.box = (width - 6 * (per_row - 1)) / per_row
        boxes = [
            (wrap(panel.title, self.box - 8, bold=True), [wrap(line, self.box - 10) for line in panel.lines])
            for panel in figure.panels
        ]
        self.rows = [boxes[start : start + per_row] for start in range(0, len(boxes), per_row)]
        self.heads = [max(len(title) for title, _ in row) * LEADING + 6 for row in self.rows]
        self.bodies = [max(sum(len(lines) * LEADING + 3 for lines in body) for _, body in row) + 6 for row in self.rows]
        self.height = sum(self.heads) + sum(self.bodies) + 6 * (len(self.rows) - 1) + 2

    def paint(self, canvas: Any) -> None:
        """Draw the boxes row by row."""
        y = self.height - 1
        for row, head, body_height in zip(self.rows, self.heads, self.bodies, strict=True):
            for number, (title, body) in enumerate(row):
                x = number * (self.box + 6)
                canvas.setStrokeColor(LINE)
                canvas.setLineWidth(0.7)
                canvas.setFillColor(PALE)
                canvas.rect(x, y - head - body_height, self.box, head + body_height, stroke=1, fill=1)
                canvas.setFillColor(LINE)
                canvas.rect(x, y - head, self.box, head, stroke=1, fill=1)
                put_lines(canvas, title, x + self.box / 2, y - 3, bold=True, color=white)
                top = y - head - 4
                for lines in body:
                    put_lines(canvas, lines, x + 5, top, align="left", color=INK)
                    top -= len(lines) * LEADING + 3
            y -= head + body_height + 6
