"""Figures on axes that medicine has names for: survival curves, nomograms, growth charts, forest plots."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from reportlab.lib.colors import HexColor

from medvrag_core.errors import InputError
from typeset.axes import (
    FAINT,
    GRID,
    SMALL,
    Axes,
    Labels,
    Place,
    Scale,
    halves,
    log_ticks,
    number_text,
    paint_label,
    paint_leader,
    paint_legend,
    paint_points,
    pen,
    ticks,
    ticks_inside,
)
from typeset.draw import GREY, INK, LEADING, LINE, SERIES, legend, longest_word, put_lines, text_width, wrap
from typeset.figure_kinds import Forest, Growth, Mark, Nomogram, Survival

_AXIS_FOOT = 2 * LEADING + 6
_LEAST_PLOT = 64.0
_ZONE = HexColor("#5b6875")


class SurvivalArt:
    """Step curves with a legend, and a table of numbers at risk under their times."""

    def __init__(self, figure: Survival, width: float) -> None:
        self.figure = figure
        self.width = width
        self.names = list(figure.arms)
        self.legend = legend(self.names, width)
        self.title = wrap(figure.y_label, width)
        last = max(time for points in figure.arms.values() for time, _ in points)
        wanted = 10 if width > 250 else 6
        marks = figure.times or ticks(0, max(last, *figure.times) if figure.times else last, wanted)
        x = Scale(0.0, max(last, *marks), tuple(marks))
        least = min(share for points in figure.arms.values() for _, share in points)
        # Where few have events, the curves could not be told apart on an axis from zero.
        y = Scale.around(ticks(0 if least < 0.6 else least - 0.05, 1, 10))
        self.axes = Axes(x, y, width=width, plot=150.0 if width > 250 else 130.0, foot=_AXIS_FOOT)
        self.names_at_risk: list[list[str]] = []
        if figure.at_risk:
            # The first column of numbers is centered under time zero, names stand to the left of it.
            names = min(max(text_width(name, SMALL) for name in figure.at_risk), width * 0.33)
            names = max(names, *(longest_word(name, SMALL) for name in figure.at_risk))
            self.names_at_risk = [wrap(name, names, SMALL) for name in figure.at_risk]
            first = max(text_width(str(numbers[0]), SMALL) for numbers in figure.at_risk.values()) / 2
            self.axes.left = max(self.axes.left, names + first + 4)
            self.risk = LEADING * (1 + sum(map(len, self.names_at_risk))) + 4
            self.axes.foot += self.risk
        self.height = self.axes.plot + self.axes.foot + LEADING * (len(self.legend) + len(self.title)) + 8

    def paint(self, canvas: Any) -> None:
        """Draw legend, axes, steps and the numbers at risk."""
        y = paint_legend(canvas, self.legend, self.names, self.height, LEADING)
        put_lines(canvas, self.title, 0, y - 2, align="left", color=GREY)
        self.axes.paint(canvas, self.figure.x_label, grid_x=True)
        for number, name in enumerate(self.names):
            pen(canvas, number)
            steps: list[Place] = []
            for time, share in self.figure.arms[name]:
                if steps:
                    steps.append((time, steps[-1][1]))
                steps.append((time, share))
            self.axes.path(canvas, steps)
        canvas.setDash([])
        if self.figure.at_risk:
            self._paint_at_risk(canvas)

    def _paint_at_risk(self, canvas: Any) -> None:
        top = self.risk
        put_lines(canvas, ["Number at risk"], 0, top, size=SMALL, align="left", bold=True)
        top -= LEADING
        for (name, numbers), lines in zip(self.figure.at_risk.items(), self.names_at_risk, strict=True):
            color = SERIES[self.names.index(name) % len(SERIES)]
            put_lines(canvas, lines, 0, top, size=SMALL, align="left", color=color)
            for time, count in zip(self.figure.times, numbers, strict=True):
                x, _ = self.axes.at(time, 0.0)
                put_lines(canvas, [str(count)], x, top, size=SMALL)
            top -= LEADING * len(lines)


class NomogramArt:
    """Lines that part a plane into named zones, with labeled points; grid lines both ways."""

    def __init__(self, figure: Nomogram, width: float) -> None:
        self.figure = figure
        self.width = width
        self.names = list(figure.lines)
        self.legend = legend(self.names, width)
        self.title = wrap(figure.y_label, width)
        wide = width > 250
        x_ticks = ticks_inside(*figure.x, 12 if wide else 8)
        y_ticks = log_ticks(*figure.y, 8) if figure.log_y else ticks_inside(*figure.y, 10)
        x = Scale(*figure.x, tuple(x_ticks), minor=halves(x_ticks))
        y = Scale(*figure.y, tuple(y_ticks), figure.log_y, minor=() if figure.log_y else halves(y_ticks))
        self.axes = Axes(x, y, width=width, plot=210.0 if wide else 165.0, foot=_AXIS_FOOT)
        self.height = self.axes.plot + self.axes.foot + LEADING * (len(self.legend) + len(self.title)) + 8
        lines = [[self.axes.at(*point) for point in line] for line in figure.lines.values()]
        self.dots = [self.axes.at(a, b) for a, b, _ in figure.points]
        labels = Labels(figure.anchor, self.axes.frame, self.dots, lines)
        zones = [(*self.axes.at(a, b), text) for a, b, text in figure.regions]
        self.zones = [labels.place(*zone, centered=True, width=95.0) for zone in zones]
        self.labels = _place_marks(labels, self.dots, figure.points)

    def paint(self, canvas: Any) -> None:
        """Draw legend, axes, lines, zones and points."""
        y = paint_legend(canvas, self.legend, self.names, self.height, LEADING)
        put_lines(canvas, self.title, 0, y - 2, align="left", color=GREY)
        self.axes.paint(canvas, self.figure.x_label, grid_x=True)
        for number, name in enumerate(self.names):
            pen(canvas, number)
            self.axes.path(canvas, self.figure.lines[name])
        canvas.setDash([])
        for zone in self.zones:
            paint_label(canvas, *zone, color=_ZONE)
        _paint_marks(canvas, self.dots, self.labels)


class GrowthArt:
    """Percentile curves with their names at the right end, and labeled visits joined by nothing."""

    def __init__(self, figure: Growth, width: float) -> None:
        self.figure = figure
        self.width = width
        self.title = wrap(figure.y_label, width)
        wide = width > 250
        every = [point for line in figure.curves.values() for point in line] + [(x, y) for x, y, _ in figure.points]
        xs, ys = [x for x, _ in every], [y for _, y in every]
        x_ticks = ticks_inside(min(xs), max(xs), 12 if wide else 8)
        y_ticks = ticks(min(ys), max(ys), 10)
        x = Scale(min(xs), max(xs), tuple(x_ticks), minor=halves(x_ticks))
        y = Scale(y_ticks[0], y_ticks[-1], tuple(y_ticks), minor=halves(y_ticks))
        names = max(text_width(name, SMALL) for name in figure.curves)
        self.axes = Axes(x, y, width=width, plot=230.0 if wide else 170.0, foot=_AXIS_FOOT, right=names + 5)
        self.height = self.axes.plot + self.axes.foot + LEADING * len(self.title) + 8
        lines = [[self.axes.at(*point) for point in line] for line in figure.curves.values()]
        self.dots = [self.axes.at(a, b) for a, b, _ in figure.points]
        self.labels = _place_marks(Labels(figure.anchor, self.axes.frame, self.dots, lines), self.dots, figure.points)
        self.ends = _spread([line[-1] for line in lines], SMALL + 0.6)

    def paint(self, canvas: Any) -> None:
        """Draw axes, curves with their names, and visits."""
        put_lines(canvas, self.title, 0, self.height - 2, align="left", color=GREY)
        self.axes.paint(canvas, self.figure.x_label, grid_x=True)
        for number, ((name, line), end) in enumerate(zip(self.figure.curves.items(), self.ends, strict=True)):
            canvas.setStrokeColor(LINE)
            canvas.setLineWidth(1.4 if number == len(self.figure.curves) // 2 else 0.8)
            self.axes.path(canvas, line)
            last = self.axes.at(*line[-1])
            if end != last[1]:
                canvas.setLineWidth(0.3)
                canvas.line(last[0], last[1], self.axes.right + 2, end)
            put_lines(canvas, [name], self.axes.right + 3, end + SMALL / 2, size=SMALL, align="left", color=LINE)
        _paint_marks(canvas, self.dots, self.labels)


def _place_marks(labels: Labels, dots: list[Place], marks: tuple[Mark, ...]) -> list[Any]:
    return [labels.place(x, y, text) for (x, y), (_, _, text) in zip(dots, marks, strict=True)]


def _paint_marks(canvas: Any, dots: list[Place], labels: list[Any]) -> None:
    for dot, label in zip(dots, labels, strict=True):
        paint_leader(canvas, dot, label[1])
        paint_label(canvas, *label)
    paint_points(canvas, dots)


def _spread(ends: list[Place], gap: float) -> list[float]:
    """Heights at least ``gap`` apart, in the order of the ends, each moved as little as a pass upward allows."""
    heights = [y for _, y in ends]
    for lower, upper in pairwise(sorted(range(len(ends)), key=heights.__getitem__)):
        heights[upper] = max(heights[upper], heights[lower] + gap)
    return heights


class ForestArt:
    """One row for each estimate: its name, the square with its interval, and the numbers unless they are hidden."""

    def __init__(self, figure: Forest, width: float) -> None:
        self.figure = figure
        self.width = width
        self.hidden = figure.values == "hidden"
        self.numbers = [""] * len(figure.rows) if self.hidden else _intervals(figure)
        self.right = max(text_width(text, SMALL) for text in self.numbers) + (6 if not self.hidden else 4)
        words = max(longest_word(label) for label, *_ in figure.rows)
        natural = max(text_width(label) for label, *_ in figure.rows)
        self.left = max(words, min(natural, width * 0.38, width - self.right - _LEAST_PLOT - 8)) + 8
        if self.left + self.right + _LEAST_PLOT > width + 0.01:
            raise InputError(f"figure '{figure.anchor}' has no room for its plot", way_out="write span: page")
        self.labels = [wrap(label, self.left - 7) for label, *_ in figure.rows]
        self.rows = [max(len(lines) * LEADING, 9.0) + 5 for lines in self.labels]
        low = min(figure.null, *(row[2] for row in figure.rows))
        high = max(figure.null, *(row[3] for row in figure.rows))
        wanted = 6 if self.hidden or width > 250 else 4
        if figure.log_x:
            self.scale = Scale(low * 0.92, high * 1.08, tuple(log_ticks(low * 0.92, high * 1.08, wanted)), log=True)
        else:
            self.scale = Scale.around(ticks(low, high, wanted))
        self.axis = wrap(figure.x_label, width - self.left)
        self.foot = 2 + (1 + len(self.axis)) * LEADING + 4
        self.height = sum(self.rows) + self.foot + (0 if self.hidden else LEADING + 2)

    def _x(self, value: float) -> float:
        return self.left + self.scale.fraction(value) * (self.width - self.right - self.left)

    def paint(self, canvas: Any) -> None:
        """Draw grid, axis, rows and the line of no effect."""
        top = self.foot + sum(self.rows)
        if not self.hidden:
            put_lines(canvas, ["Estimate (95% CI)"], self.width, self.height, size=SMALL, align="right", color=GREY)
        self._paint_axis(canvas, top)
        y = top
        for (_, estimate, low, high), label, text, height in zip(
            self.figure.rows, self.labels, self.numbers, self.rows, strict=True
        ):
            middle = y - height / 2
            put_lines(canvas, label, 0, middle + len(label) * LEADING / 2, align="left")
            canvas.setStrokeColor(LINE)
            canvas.setFillColor(LINE)
            canvas.setLineWidth(1)
            canvas.line(self._x(low), middle, self._x(high), middle)
            for end in (low, high):
                canvas.line(self._x(end), middle - 2, self._x(end), middle + 2)
            canvas.rect(self._x(estimate) - 2.4, middle - 2.4, 4.8, 4.8, stroke=0, fill=1)
            put_lines(canvas, [text], self.width, middle + SMALL / 2, size=SMALL, align="right")
            y -= height

    def _paint_axis(self, canvas: Any, top: float) -> None:
        canvas.setLineWidth(0.4)
        printed = 0.0
        canvas.setStrokeColor(FAINT)
        for mark in halves(self.scale.ticks) if self.hidden else ():
            canvas.line(self._x(mark), self.foot, self._x(mark), top)
        for mark in self.scale.ticks:
            x, text = self._x(mark), number_text(mark)
            canvas.setStrokeColor(GRID)
            canvas.line(x, self.foot, x, top)
            canvas.setStrokeColor(INK)
            canvas.line(x, self.foot, x, self.foot - 2)
            half = text_width(text, SMALL) / 2
            if x - half > printed + 2:
                put_lines(canvas, [text], x, self.foot - 4, size=SMALL, color=GREY)
                printed = x + half
        canvas.line(self.left, self.foot, self.width - self.right, self.foot)
        middle = (self.left + self.width - self.right) / 2
        wide = max(text_width(line) for line in self.axis)
        middle = min(max(middle, wide / 2), self.width - wide / 2)
        put_lines(canvas, self.axis, middle, self.foot - 5.6 - LEADING, color=GREY)
        canvas.setDash([2, 2])
        canvas.setLineWidth(0.8)
        canvas.line(self._x(self.figure.null), self.foot, self._x(self.figure.null), top)
        canvas.setDash([])


def _intervals(figure: Forest) -> list[str]:
    """Estimate and limits of each row, all with the same number of decimals."""
    rows = [row[1:] for row in figure.rows]
    digits = 1 if all(abs(value * 10 - round(value * 10)) < 1e-9 for row in rows for value in row) else 2
    texts = [[f"{value:.{digits}f}".replace("-", "−") for value in row] for row in rows]
    return [f"{estimate} ({low} to {high})" for estimate, low, high in texts]
