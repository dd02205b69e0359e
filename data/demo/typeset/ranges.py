"""Reference ranges: one track for each quantity, the range shaded, a patient's result as a marker above."""

from __future__ import annotations

from typing import Any

from reportlab.lib.colors import HexColor

from medvrag_core.errors import InputError
from typeset.axes import SMALL, number_text
from typeset.draw import GREY, INK, LEADING, LINE, longest_word, put_lines, text_width, wrap
from typeset.figure_kinds import Ranges

_TRACK = HexColor("#e3e8ed")
_NORMAL = HexColor("#a9d0b4")
_RESULT = HexColor("#b5483c")
_ROW = 30.0


class RangesArt:
    """The panel for a width in points; raises :class:`InputError` when the names leave no room for the tracks."""

    def __init__(self, figure: Ranges, width: float) -> None:
        self.figure = figure
        self.width = width
        names = [f"{row.name} ({row.unit})" if row.unit else row.name for row in figure.rows]
        self.left = max(max(longest_word(name) for name in names), min(max(map(text_width, names)), width * 0.36)) + 10
        self.right = width - max(text_width(number_text(row.max), SMALL) for row in figure.rows) / 2 - 2
        if self.right - self.left < 70:
            raise InputError(f"figure '{figure.anchor}' has no room for its tracks", way_out="write span: page")
        self.names = [wrap(name, self.left - 9) for name in names]
        self.heights = [max(_ROW, len(lines) * LEADING + 4) for lines in self.names]
        self.height = sum(self.heights) + 2

    def paint(self, canvas: Any) -> None:
        """Draw the tracks from the top down."""
        y = self.height
        for row, lines, height in zip(self.figure.rows, self.names, self.heights, strict=True):
            middle = y - height / 2

            def at(value: float, low: float = row.min, high: float = row.max) -> float:
                return self.left + (value - low) / (high - low) * (self.right - self.left)

            put_lines(canvas, lines, 0, middle + len(lines) * LEADING / 2, align="left")
            canvas.setFillColor(_TRACK)
            canvas.rect(self.left, middle - 3, self.right - self.left, 6, stroke=0, fill=1)
            canvas.setFillColor(_NORMAL)
            canvas.rect(at(row.low), middle - 3, at(row.high) - at(row.low), 6, stroke=0, fill=1)
            canvas.setStrokeColor(LINE)
            canvas.setLineWidth(0.6)
            for limit in (row.low, row.high):
                canvas.line(at(limit), middle - 5, at(limit), middle + 3)
            self._paint_limits(canvas, at(row.low), at(row.high), middle, row.low, row.high, (row.min, row.max))
            if row.value is not None:
                x, text = at(row.value), number_text(row.value)
                canvas.setFillColor(_RESULT)
                marker = canvas.beginPath()
                marker.moveTo(x, middle + 3)
                marker.lineTo(x - 3, middle + 8)
                marker.lineTo(x + 3, middle + 8)
                marker.close()
                canvas.drawPath(marker, stroke=0, fill=1)
                half = text_width(text, SMALL, bold=True) / 2
                x = min(max(x, self.left + half), self.width - half)
                put_lines(canvas, [text], x, middle + 15, size=SMALL, bold=True, color=_RESULT)
            y -= height

    def _paint_limits(
        self,
        canvas: Any,
        low: float,
        high: float,
        middle: float,
        low_value: float,
        high_value: float,
        ends: tuple[float, float],
    ) -> None:
        """Print both limits, apart from each other, and the ends of the track where they leave room."""
        texts = number_text(low_value), number_text(high_value)
        wide = text_width(texts[0], SMALL), text_width(texts[1], SMALL)
        # Limits that stand close are pushed apart; no label leaves the figure.
        first, second = low, high
        if second - first < (wide[0] + wide[1]) / 2 + 4:
            center = (first + second) / 2
            first, second = center - wide[0] / 2 - 2, center + wide[1] / 2 + 2
        first = max(first, self.left + wide[0] / 2)
        second = max(min(second, self.width - wide[1] / 2), first + (wide[0] + wide[1]) / 2 + 4)
        put_lines(canvas, [texts[0]], first, middle - 5, size=SMALL, color=INK)
        put_lines(canvas, [texts[1]], second, middle - 5, size=SMALL, color=INK)
        for value, x, free in (
            (ends[0], self.left, first - wide[0] / 2),
            (ends[1], self.right, second + wide[1] / 2),
        ):
            half = text_width(number_text(value), SMALL) / 2 + 4
            if abs(x - free) > half and value not in (low_value, high_value) and (x < free) == (x == self.left):
                put_lines(canvas, [number_text(value)], x, middle - 5, size=SMALL, color=GREY)
