"""Axes with round ticks, linear or logarithmic, and free places for labels among what is drawn on them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from reportlab.lib.colors import HexColor, white

from medvrag_core.errors import InputError
from typeset.draw import GREY, INK, SERIES, put_lines, text_width, wrap

SMALL = 6.6
SMALL_LEADING = 7.6
GRID = HexColor("#d9dee3")
FAINT = HexColor("#edf0f3")
DASHES: tuple[list[float], ...] = ([], [4, 2], [1, 1.6], [6, 2, 1, 2], [2, 2], [8, 3])
_RIGHT = 8.0
# Sets of multiples of a power of ten, from coarse to fine.
_LOG_STEPS = (
    (1.0,),
    (1.0, 3.0),
    (1.0, 2.0, 5.0),
    (1.0, 1.5, 2.0, 3.0, 5.0, 7.0),
    (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0),
    tuple(step / 4 for step in range(4, 40)),
)

Box = tuple[float, float, float, float]
Place = tuple[float, float]


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


def ticks_inside(low: float, high: float, wanted: int = 5) -> list[float]:
    """Round values from ``low`` to ``high``, none outside.

    Examples
    --------
    >>> ticks_inside(3, 24, 8)
    [5.0, 10.0, 15.0, 20.0]
    """
    raw = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * 0.999)
    numbers = range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
    return [round(step * number, 10) for number in numbers]


def halves(marks: Sequence[float]) -> tuple[float, ...]:
    """The middles between neighboring marks."""
    return tuple((first + second) / 2 for first, second in pairwise(marks))


def log_ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    """Round values from ``low`` to ``high`` (both above zero) for a logarithmic axis.

    Examples
    --------
    >>> log_ticks(0.5, 20)
    [0.5, 1.0, 2.0, 5.0, 10.0, 20.0]
    """
    marks: list[float] = []
    for steps in _LOG_STEPS:
        powers = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
        every = [round(step * 10.0**power, 10) for power in powers for step in steps]
        marks = [mark for mark in every if low * 0.999 <= mark <= high * 1.001]
        if len(marks) >= wanted:
            break
    return marks


@dataclass(frozen=True)
class Scale:
    """One axis: its ends, the values that are marked on it, and those that get a pale line only."""

    low: float
    high: float
    ticks: tuple[float, ...]
    log: bool = False
    minor: tuple[float, ...] = ()

    @classmethod
    def around(cls, marks: Sequence[float], *, log: bool = False) -> Scale:
        """An axis from the first of its marks to the last."""
        return cls(marks[0], marks[-1], tuple(marks), log)

    def fraction(self, value: float) -> float:
        """Where ``value`` lies between the ends, 0 to 1."""
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


class Axes:
    """A plot with its origin at ``(left, foot)``; sizes in points.

    ``foot`` is the room for the numbers and the label below the plot, beyond whatever else is put there.
    """

    def __init__(self, x: Scale, y: Scale, *, width: float, plot: float, foot: float, right: float = _RIGHT) -> None:
        self.x, self.y = x, y
        self.foot, self.plot = foot, plot
        self.left = max(text_width(number_text(mark), SMALL) for mark in y.ticks) + 5
        self.right = width - right

    def at(self, x: float, y: float) -> Place:
        """Where a value lies on the drawing."""
        across = self.x.fraction(x) * (self.right - self.left)
        return self.left + across, self.foot + self.y.fraction(y) * self.plot

    def paint(self, canvas: Any, x_label: str, *, grid_x: bool = False) -> None:
        """Draw grid, axes and numbers; a number that has no room beside its neighbor is left out."""
        canvas.setLineWidth(0.3)
        canvas.setStrokeColor(FAINT)
        for mark in self.y.minor:
            canvas.line(self.left, self.at(self.x.low, mark)[1], self.right, self.at(self.x.low, mark)[1])
        for mark in self.x.minor:
            canvas.line(self.at(mark, self.y.low)[0], self.foot, self.at(mark, self.y.low)[0], self.foot + self.plot)
        canvas.setLineWidth(0.4)
        printed = -math.inf
        for mark in self.y.ticks:
            _, y = self.at(self.x.low, mark)
            canvas.setStrokeColor(GRID)
            canvas.line(self.left, y, self.right, y)
            if y - printed >= SMALL:
                put_lines(canvas, [number_text(mark)], self.left - 3, y + 3, size=SMALL, align="right", color=GREY)
                printed = y
        if grid_x:
            for mark in self.x.ticks:
                x, _ = self.at(mark, self.y.low)
                canvas.line(x, self.foot, x, self.foot + self.plot)
        canvas.setStrokeColor(INK)
        canvas.line(self.left, self.foot, self.right, self.foot)
        canvas.line(self.left, self.foot, self.left, self.foot + self.plot)
        printed = -math.inf
        for mark in self.x.ticks:
            x, _ = self.at(mark, self.y.low)
            canvas.line(x, self.foot, x, self.foot - 2)
            half = text_width(number_text(mark), SMALL) / 2
            if x - half >= printed + 2:
                put_lines(canvas, [number_text(mark)], x, self.foot - 4, size=SMALL, color=GREY)
                printed = x + half
        if x_label:
            put_lines(canvas, [x_label], (self.left + self.right) / 2, self.foot - 14.4, color=GREY)

    @property
    def frame(self) -> Box:
        """The plot as left, bottom, right and top."""
        return self.left, self.foot, self.right, self.foot + self.plot

    def path(self, canvas: Any, points: Iterable[Place]) -> None:
        """Draw a line through values with the pen that is set."""
        path = canvas.beginPath()
        for position, (x, y) in enumerate(points):
            (path.moveTo if position == 0 else path.lineTo)(*self.at(x, y))
        canvas.drawPath(path, stroke=1, fill=0)


def pen(canvas: Any, number: int) -> None:
    """Set color, width and dash of the line of a series."""
    canvas.setStrokeColor(SERIES[number % len(SERIES)])
    canvas.setLineWidth(1.3)
    canvas.setDash(DASHES[number % len(DASHES)])


def paint_legend(
    canvas: Any, rows: list[list[tuple[float, str]]], names: list[str], top: float, leading: float
) -> float:
    """Draw line samples with their names below ``top``; returns the height that is left."""
    for row in rows:
        for x, name in row:
            pen(canvas, names.index(name))
            canvas.line(x, top - 4, x + 11, top - 4)
            canvas.setDash([])
            put_lines(canvas, [name], x + 14, top, align="left")
        top -= leading
    return top


class Labels:
    """Places for the labels of points: inside the frame, off other labels and dots, and off the lines if possible."""

    def __init__(self, figure: str, frame: Box, dots: Sequence[Place], lines: Iterable[Sequence[Place]] = ()) -> None:
        self._figure, self._frame, self._dots = figure, frame, dots
        self._inked = [place for line in lines for place in _along(line)]
        self._taken: list[Box] = []

    def place(
        self, x: float, y: float, text: str, *, centered: bool = False, width: float = 80.0
    ) -> tuple[list[str], Box]:
        """Lines and box of the label of the point at ``(x, y)``, or of a text that is best centered there.

        Raises :class:`InputError` naming the label when every place near the point is taken.
        """
        lines = wrap(text, width, SMALL)
        wide, high = max(text_width(line, SMALL) for line in lines), len(lines) * SMALL_LEADING
        best: tuple[int, Box] | None = None
        for left, top in _centered(x, y, wide, high) if centered else _beside(x, y, wide, high):
            box = (left, top - high, left + wide, top)
            if self._is_free(box):
                crossed = sum(box[0] - 1 < a < box[2] + 1 and box[1] - 1 < b < box[3] + 1 for a, b in self._inked)
                if best is None or crossed < best[0]:
                    best = crossed, box
                if not crossed:
                    break
        if best is None:
            raise InputError(
                f"figure '{self._figure}': the label '{text}' finds no free place near its point",
                way_out="shorten it, or move it apart from its neighbors",
            )
        self._taken.append(best[1])
        return lines, best[1]

    def _is_free(self, box: Box) -> bool:
        left, bottom, right, top = self._frame
        inside = box[0] > left and box[2] < right and box[1] > bottom + 1 and box[3] < top
        clear = all(box[2] < a or box[0] > c or box[3] < b or box[1] > d for a, b, c, d in self._taken)
        return (
            inside
            and clear
            and not any(box[0] - 1 < a < box[2] + 1 and box[1] - 1 < b < box[3] + 1 for a, b in self._dots)
        )


def _along(line: Sequence[Place]) -> list[Place]:
    """Points two apart on a polyline."""
    places: list[Place] = []
    for (x0, y0), (x1, y1) in pairwise(line):
        steps = max(1, int(math.hypot(x1 - x0, y1 - y0) / 2))
        places += [(x0 + (x1 - x0) * step / steps, y0 + (y1 - y0) * step / steps) for step in range(steps + 1)]
    return places


def _beside(x: float, y: float, width: float, height: float) -> list[Place]:
    return [
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


def _centered(x: float, y: float, width: float, height: float) -> list[Place]:
    steps = (0, 1, -1, 2, -2, 3, -3, 4, -4)
    shifts = sorted(((dx, dy) for dx in steps for dy in steps), key=lambda shift: abs(shift[0]) + abs(shift[1]))
    return [(x - width / 2 + 8 * dx, y + height / 2 + 6 * dy) for dx, dy in shifts]


def paint_label(canvas: Any, lines: list[str], box: Box, *, color: Any = INK) -> None:
    """Print a placed label on a white ground."""
    canvas.setFillColor(white)
    canvas.rect(box[0] - 1, box[1], box[2] - box[0] + 2, box[3] - box[1], stroke=0, fill=1)
    put_lines(canvas, lines, box[0], box[3], size=SMALL, leading=SMALL_LEADING, align="left", color=color)


def paint_leader(canvas: Any, dot: Place, box: Box) -> None:
    """Join a label to its point when it does not stand beside it."""
    x, y = min(max(dot[0], box[0]), box[2]), min(max(dot[1], box[1]), box[3])
    if math.hypot(x - dot[0], y - dot[1]) > 7.0:
        canvas.setStrokeColor(GREY)
        canvas.setLineWidth(0.4)
        canvas.line(*dot, x, y)


def paint_points(canvas: Any, dots: Iterable[Place], radius: float = 2.0) -> None:
    """Draw a filled dot at each place."""
    canvas.setFillColor(INK)
    for x, y in dots:
        canvas.circle(x, y, radius, stroke=0, fill=1)
