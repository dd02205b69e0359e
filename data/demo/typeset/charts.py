"""Bar charts and curves."""

from __future__ import annotations

import math
from typing import Any

from medvrag_core.errors import InputError
from typeset.axes import (
    GRID,
    SMALL,
    Axes,
    Labels,
    Scale,
    log_ticks,
    number_text,
    paint_label,
    paint_legend,
    paint_points,
    pen,
    ticks,
)
from typeset.draw import GREY, INK, LEADING, SERIES, legend, longest_word, put_lines, text_width, wrap
from typeset.figure_kinds import Bars, Curve


class BarsArt:
    """Grouped bars with their values printed, or with a grid to read them off.

    They lie down when the labels are too wide to stand.
    """

    def __init__(self, figure: Bars, width: float) -> None:
        self.figure = figure
        self.width = width
        self.names = list(figure.series)
        self.values = [value for series in figure.series.values() for value in series]
        if min(self.values) < 0:
            raise InputError(f"figure '{figure.anchor}', field 'series': values below zero cannot be drawn as bars")
        self.hidden = figure.values == "hidden"
        self.marks = ticks(0, max(self.values) or 1.0, 8 if self.hidden else 4)
        # Lying bars with printed values have no axis, and the longest fills the room.
        self.top = self.marks[-1] if self.hidden else max(self.values) or 1.0
        self.legend = legend(self.names, width) if len(self.names) > 1 else []
        slot = (width - 30) / len(figure.x)
        value_width = 5.0 if self.hidden else max(text_width(self._value(value), SMALL) for value in self.values)
        self.upright = slot - 4 >= max(longest_word(label) for label in figure.x) and (
            slot * 0.8 / len(self.names) >= value_width
        )
        legend_height = len(self.legend) * LEADING + (5 if self.legend else 0)
        caption_height = LEADING + 3 if (figure.y_label or figure.unit) else 4
        if self.upright:
            self.labels = [wrap(label, slot - 4) for label in figure.x]
            self.foot = max(len(lines) for lines in self.labels) * LEADING + 5 + (LEADING if figure.x_label else 0)
            self.plot = 120.0 if self.hidden else 95.0
            self.height = self.foot + self.plot + 12 + caption_height + legend_height
        else:
            self.labels = [wrap(label, width * 0.36) for label in figure.x]
            self.rows = [max(len(lines) * LEADING, 10.0 * len(self.names)) + 6 for lines in self.labels]
            self.axis = LEADING * (2 if figure.x_label else 1) + 4 if self.hidden else 0.0
            self.height = sum(self.rows) + caption_height + legend_height + 4 + self.axis

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
        left = max(text_width(number_text(mark), SMALL) for mark in self.marks) + 4
        slot = (self.width - left) / len(self.figure.x)
        scale = self.plot / max(self.marks[-1], self.top)
        canvas.setLineWidth(0.4)
        for mark in self.marks:
            y = self.foot + mark * scale
            canvas.setStrokeColor(GRID)
            canvas.line(left, y, self.width, y)
            put_lines(canvas, [number_text(mark)], left - 3, y + 3, size=SMALL, align="right", color=GREY)
        bar = min(slot * 0.8 / len(self.names), 26.0)
        for group, label in enumerate(self.labels):
            center = left + slot * (group + 0.5)
            put_lines(canvas, label, center, self.foot - 4)
            for number, name in enumerate(self.names):
                value = self.figure.series[name][group]
                x = center + (number - len(self.names) / 2) * bar
                canvas.setFillColor(SERIES[number % len(SERIES)])
                canvas.rect(x + 0.5, self.foot, bar - 1, value * scale, stroke=0, fill=1)
                if not self.hidden:
                    put_lines(canvas, [self._value(value)], x + bar / 2, self.foot + value * scale + 8, size=SMALL)
        canvas.setStrokeColor(INK)
        canvas.line(left, self.foot, self.width, self.foot)
        if self.figure.x_label:
            put_lines(canvas, [self.figure.x_label], (left + self.width) / 2, LEADING, color=GREY)

    def _paint_lying(self, canvas: Any, top: float) -> None:
        left = max(text_width(line) for lines in self.labels for line in lines) + 5
        printed = [number_text(self.marks[-1])] if self.hidden else [self._value(value) for value in self.values]
        room = self.width - left - max(text_width(text, SMALL) for text in printed) - 4
        if self.hidden:
            self._paint_lying_axis(canvas, left, room, top)
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
                if not self.hidden:
                    spot = left + length + 3, low + bar / 2 + 3.4
                    put_lines(canvas, [self._value(value)], *spot, size=SMALL, align="left")
            y -= height
        canvas.setStrokeColor(INK)
        canvas.setLineWidth(0.5)
        canvas.line(left, top, left, y)

    def _paint_lying_axis(self, canvas: Any, left: float, room: float, top: float) -> None:
        foot = top - sum(self.rows)
        canvas.setLineWidth(0.4)
        canvas.setStrokeColor(GRID)
        for mark in self.marks:
            x = left + mark / self.top * room
            canvas.line(x, foot, x, top)
            put_lines(canvas, [number_text(mark)], x, foot - 2, size=SMALL, color=GREY)
        if self.figure.x_label:
            put_lines(canvas, [self.figure.x_label], left + room / 2, foot - 2 - LEADING, color=GREY)


class CurveArt:
    """Lines through points on linear or logarithmic axes, with a legend and labeled marks."""

    def __init__(self, figure: Curve, width: float) -> None:
        self.figure = figure
        self.width = width
        self.names = list(figure.lines)
        self.hidden = figure.values == "hidden"
        points = [point for line in figure.lines.values() for point in line]
        points += [(x, y) for x, y, _ in figure.marks]
        xs, ys = [x for x, _ in points], [y for _, y in points]
        if figure.log_y and min(ys) <= 0:
            raise InputError(f"figure '{figure.anchor}', field 'lines': log_y needs values above zero")
        wide = width > 250
        finer = 2 if self.hidden else 1
        if figure.log_y:
            low, high = math.floor(math.log10(min(ys)) + 1e-9), math.ceil(math.log10(max(ys)) - 1e-9)
            y_ticks = [10.0**power for power in range(low, max(high, low + 1) + 1)]
            y_ticks = log_ticks(y_ticks[0], y_ticks[-1], 9) if self.hidden else y_ticks
        else:
            low_y = 0.0 if min(ys) >= 0 and min(ys) < max(ys) * 0.6 else min(ys)
            y_ticks = ticks(low_y, max(ys), 5 * finer)
        self.legend = legend(self.names, width) if len(self.names) > 1 else []
        self.y_title = wrap(figure.y_label, width)
        self.head = len(self.legend) * LEADING + len(self.y_title) * LEADING + 12
        self.axes = Axes(
            Scale.around(ticks(min(xs), max(xs), 8 if wide else 5)),
            Scale.around(y_ticks, log=figure.log_y),
            width=width,
            plot=(135.0 if wide else 112.0) * (1.25 if self.hidden else 1.0),
            foot=2 * LEADING + 6,
        )
        self.height = self.axes.plot + self.head + self.axes.foot

    def paint(self, canvas: Any) -> None:
        """Draw grid, axes, lines, legend and marks."""
        y = paint_legend(canvas, self.legend, self.names, self.height, LEADING)
        put_lines(canvas, self.y_title, 0, y - 2, align="left", color=GREY)
        self.axes.paint(canvas, self.figure.x_label, grid_x=self.hidden)
        for number, name in enumerate(self.names):
            pen(canvas, number)
            self.axes.path(canvas, self.figure.lines[name])
        canvas.setDash([])
        dots = [self.axes.at(x, y) for x, y, _ in self.figure.marks]
        left, bottom, right, top = self.axes.frame
        labels = Labels(self.figure.anchor, (left, bottom, right + 8, top + 10), dots)
        for (x, y), (_, _, text) in zip(dots, self.figure.marks, strict=True):
            paint_label(canvas, *labels.place(x, y, text))
        paint_points(canvas, dots)
