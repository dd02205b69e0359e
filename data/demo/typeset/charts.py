"""Bar charts and curves."""

from __future__ import annotations

import math
from typing import Any

from reportlab.lib.colors import HexColor, white

from medvrag_core.errors import InputError
from typeset.draw import GREY, INK, LEADING, SERIES, SIZE, legend, longest_word, put_lines, text_width, wrap
from typeset.parse import Bars, Curve

_GRID = HexColor("#d9dee3")
_DASHES: tuple[list[float], ...] = ([], [4, 2], [1, 1.6], [6, 2, 1, 2], [2, 2], [8, 3])


def number_text(value: float) -> str:
    """A number as a reader expects it: no trailing zeros, at most three decimals."""
    return f"{value:.3f}".rstrip("0").rstrip(".").replace("-", "−")


def ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    """Round values that span ``low`` to ``high``.

    Examples
    --------
    >>> ticks(0, 37)
    [0.0, 10.0, 20.0, 30.0, 40.0]
    """
    span = (high - low) or abs(high) or 1.0
    raw = span / wanted
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw * 0.999)
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    return [round(step * number, 10) for number in range(first, last + 1)]


class BarsArt:
    """Grouped bars with their values printed; they lie down when the labels are too wide to stand."""

    def __init__(self, figure: Bars, width: float) -> None:
        self.figure = figure
        self.width = width
        self.names = list(figure.series)
        self.values = [value for series in figure.series.values() for value in series]
        if min(self.values) < 0:
            raise InputError(f"figure '{figure.anchor}', field 'series': values below zero cannot be drawn as bars")
        self.top = max(self.values) or 1.0
        self.legend = legend(self.names, width) if len(self.names) > 1 else []
        slot = (width - 30) / len(figure.x)
        value_width = max(text_width(self._value(value), 6.6) for value in self.values)
        self.upright = slot - 4 >= max(longest_word(label) for label in figure.x) and (
            slot * 0.8 / len(self.names) >= value_width
        )
        legend_height = len(self.legend) * LEADING + (5 if self.legend else 0)
        caption_height = LEADING + 3 if (figure.y_label or figure.unit) else 4
        if self.upright:
            self.labels = [wrap(label, slot - 4) for label in figure.x]
            self.foot = max(len(lines) for lines in self.labels) * LEADING + 5 + (LEADING if figure.x_label else 0)
            self.plot = 95.0
            self.height = self.foot + self.plot + 12 + caption_height + legend_height
        else:
            self.labels = [wrap(label, width * 0.36) for label in figure.x]
            self.rows = [max(len(lines) * LEADING, 10.0 * len(self.names)) + 6 for lines in self.labels]
            self.height = sum(self.rows) + caption_height + legend_height + 4

    def _value(self, value: float) -> str:
        unit = self.figure.unit
        return number_text(value) + (unit if unit == "%" else "")

    def _head(self, canvas: Any) -> float:
        y = self.height
        for row in self.legend:
            for x, name in row:
                canvas.setFillColor(SERIES[self.names.index(name) % len(SERIES)])
                canvas.rect(x, y - 7, 8, 6, stroke=0, fill=1)
                put_lines(canvas, [name], x + 11, y, align="left")
            y -= LEADING
        y -= 5 if self.legend else 0
        label, unit = self.figure.y_label, self.figure.unit
        text = f"{label} ({unit})" if label and unit and unit not in label else label or unit
        if text:
            put_lines(canvas, [text], 0, y, align="left", color=GREY)
            y -= LEADING + 3
        return y

    def paint(self, canvas: Any) -> None:
        """Draw legend, axis and bars."""
        top = self._head(canvas)
        if self.upright:
            self._paint_upright(canvas)
        else:
            self._paint_lying(canvas, top)

    def _paint_upright(self, canvas: Any) -> None:
        marks = ticks(0, self.top, 4)
        left = max(text_width(number_text(mark), 6.6) for mark in marks) + 4
        slot = (self.width - left) / len(self.figure.x)
        scale = self.plot / max(marks[-1], self.top)
        canvas.setLineWidth(0.4)
        for mark in marks:
            y = self.foot + mark * scale
            canvas.setStrokeColor(_GRID)
            canvas.line(left, y, self.width, y)
            put_lines(canvas, [number_text(mark)], left - 3, y + 3, size=6.6, align="right", color=GREY)
        bar = min(slot * 0.8 / len(self.names), 26.0)
        for group, label in enumerate(self.labels):
            center = left + slot * (group + 0.5)
            put_lines(canvas, label, center, self.foot - 4)
            for number, name in enumerate(self.names):
                value = self.figure.series[name][group]
                x = center + (number - len(self.names) / 2) * bar
                canvas.setFillColor(SERIES[number % len(SERIES)])
                canvas.rect(x + 0.5, self.foot, bar - 1, value * scale, stroke=0, fill=1)
                put_lines(canvas, [self._value(value)], x + bar / 2, self.foot + value * scale + 8, size=6.6)
        canvas.setStrokeColor(INK)
        canvas.line(left, self.foot, self.width, self.foot)
        if self.figure.x_label:
            put_lines(canvas, [self.figure.x_label], (left + self.width) / 2, LEADING, color=GREY)

    def _paint_lying(self, canvas: Any, top: float) -> None:
        left = max(text_width(line) for lines in self.labels for line in lines) + 5
        room = self.width - left - max(text_width(self._value(value), 6.6) for value in self.values) - 4
        y = top
        for group, (label, height) in enumerate(zip(self.labels, self.rows, strict=True)):
            middle = y - height / 2
            put_lines(canvas, label, left - 4, middle + len(label) * LEADING / 2, align="right")
            bar = min((height - 4) / len(self.names), 12.0)
            for number, name in enumerate(self.names):
                value = self.figure.series[name][group]
                low = middle + len(self.names) * bar / 2 - (number + 1) * bar
                length = value / self.top * room
                canvas.setFillColor(SERIES[number % len(SERIES)])
                canvas.rect(left, low + 0.5, length, bar - 1, stroke=0, fill=1)
                put_lines(canvas, [self._value(value)], left + length + 3, low + bar / 2 + 3.4, size=6.6, align="left")
            y -= height
        canvas.setStrokeColor(INK)
        canvas.setLineWidth(0.5)
        canvas.line(left, top, left, y)


class CurveArt:
    """Lines through points on linear or logarithmic axes, with a legend and labeled marks."""

    def __init__(self, figure: Curve, width: float) -> None:
        self.figure = figure
        self.width = width
        self.names = list(figure.lines)
        points = [point for line in figure.lines.values() for point in line]
        points += [(x, y) for x, y, _ in figure.marks]
        xs, ys = [x for x, _ in points], [y for _, y in points]
        if figure.log_y and min(ys) <= 0:
            raise InputError(f"figure '{figure.anchor}', field 'lines': log_y needs values above zero")
        wide = width > 250
        self.x_ticks = ticks(min(xs), max(xs), 8 if wide else 5)
        if figure.log_y:
            low, high = math.floor(math.log10(min(ys)) + 1e-9), math.ceil(math.log10(max(ys)) - 1e-9)
            self.y_ticks = [10.0**power for power in range(low, max(high, low + 1) + 1)]
        else:
            low_y = 0.0 if min(ys) >= 0 and min(ys) < max(ys) * 0.6 else min(ys)
            self.y_ticks = ticks(low_y, max(ys), 5)
        self.legend = legend(self.names, width) if len(self.names) > 1 else []
        self.plot = 135.0 if wide else 112.0
        self.y_title = wrap(figure.y_label, width)
        self.head = len(self.legend) * LEADING + len(self.y_title) * LEADING + 12
        self.foot = 2 * LEADING + 6
        self.height = self.plot + self.head + self.foot
        self.left = max(text_width(number_text(mark), 6.6) for mark in self.y_ticks) + 5

    def _at(self, x: float, y: float) -> tuple[float, float]:
        def fraction(value: float, low: float, high: float) -> float:
            return (value - low) / (high - low)

        across = fraction(x, self.x_ticks[0], self.x_ticks[-1]) * (self.width - self.left - 8)
        if self.figure.log_y:
            y, low, high = math.log10(y), math.log10(self.y_ticks[0]), math.log10(self.y_ticks[-1])
        else:
            low, high = self.y_ticks[0], self.y_ticks[-1]
        return self.left + across, self.foot + fraction(y, low, high) * self.plot

    def paint(self, canvas: Any) -> None:
        """Draw grid, axes, lines, legend and marks."""
        y = self.height
        for row in self.legend:
            for x, name in row:
                self._pen(canvas, self.names.index(name))
                canvas.line(x, y - 4, x + 11, y - 4)
                canvas.setDash([])
                put_lines(canvas, [name], x + 14, y, align="left")
            y -= LEADING
        put_lines(canvas, self.y_title, 0, y - 2, align="left", color=GREY)
        self._paint_axes(canvas)
        for number, name in enumerate(self.names):
            self._pen(canvas, number)
            path = canvas.beginPath()
            for position, (px, py) in enumerate(self.figure.lines[name]):
                (path.moveTo if position == 0 else path.lineTo)(*self._at(px, py))
            canvas.drawPath(path, stroke=1, fill=0)
        canvas.setDash([])
        self._paint_marks(canvas)

    def _pen(self, canvas: Any, number: int) -> None:
        canvas.setStrokeColor(SERIES[number % len(SERIES)])
        canvas.setLineWidth(1.3)
        canvas.setDash(_DASHES[number % len(_DASHES)])

    def _paint_axes(self, canvas: Any) -> None:
        canvas.setLineWidth(0.4)
        for mark in self.y_ticks:
            _, y = self._at(self.x_ticks[0], mark)
            canvas.setStrokeColor(_GRID)
            canvas.line(self.left, y, self.width - 8, y)
            put_lines(canvas, [number_text(mark)], self.left - 3, y + 3, size=6.6, align="right", color=GREY)
        canvas.setStrokeColor(INK)
        canvas.line(self.left, self.foot, self.width - 8, self.foot)
        canvas.line(self.left, self.foot, self.left, self.foot + self.plot)
        for mark in self.x_ticks:
            x, _ = self._at(mark, self.y_ticks[0])
            canvas.line(x, self.foot, x, self.foot - 2)
            put_lines(canvas, [number_text(mark)], x, self.foot - 4, size=6.6, color=GREY)
        put_lines(canvas, [self.figure.x_label], (self.left + self.width - 8) / 2, SIZE + 2, color=GREY)

    def _paint_marks(self, canvas: Any) -> None:
        """Label each mark on the first side of it where the words clear the frame and the labels already put."""
        taken: list[tuple[float, float, float, float]] = []
        dots = [self._at(x, y) for x, y, _ in self.figure.marks]
        for (x, y), (_, _, text) in zip(dots, self.figure.marks, strict=True):
            lines = wrap(text, 80, 6.6)
            width = max(text_width(line, 6.6) for line in lines)
            height = len(lines) * 7.6
            box = (x, y, x, y)
            candidates = [
                (x + 5 + dx, y + dy)
                for reach in (0.0, 12.0, 24.0)
                for dx, dy in (
                    (0, reach + height),
                    (0, -reach),
                    (-width - 10, reach + height),
                    (-width - 10, -reach),
                    (0, height / 2),
                    (-width - 10, height / 2),
                )
            ]
            for left, top in candidates:
                box = (left, top - height, left + width, top)
                inside = left > self.left and box[2] < self.width and box[1] > self.foot + 1
                clear = all(box[2] < a or box[0] > c or box[3] < b or box[1] > d for a, b, c, d in taken)
                free = all(not (box[0] - 1 < a < box[2] + 1 and box[1] - 1 < b < box[3] + 1) for a, b in dots)
                if inside and clear and free and box[3] < self.height - self.head + 10:
                    break
            taken.append(box)
            canvas.setFillColor(white)
            canvas.rect(box[0] - 1, box[1], width + 2, height, stroke=0, fill=1)
            put_lines(canvas, lines, box[0], box[3], size=6.6, leading=7.6, align="left")
        for x, y in dots:
            canvas.setFillColor(INK)
            canvas.circle(x, y, 2, stroke=0, fill=1)
