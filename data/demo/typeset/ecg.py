"""A lead of an electrocardiogram, computed from its intervals and drawn on millimeter paper."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from reportlab.lib.colors import HexColor

from typeset.axes import SMALL
from typeset.draw import GREY, INK, put_lines
from typeset.figure_kinds import Ecg

SPEED = 25.0
"""Millimeters a second."""
GAIN = 10.0
"""Millimeters a millivolt."""
_ROWS_MM = 30
_BASE_MM = 11.0
_STEP = 0.004
_CALIBRATION_S = 0.32
_FINE, _COARSE = HexColor("#f6d5d5"), HexColor("#e7a3a3")
# Beats of atrial fibrillation differ in length without a pattern; the mean is 1.
_IRREGULAR = (0.82, 1.21, 0.94, 0.71, 1.33, 1.05, 0.78, 1.16)
_ATRIAL_RATE = 85.0
_FLUTTER_RATE = 300.0
_WENCKEBACH_STEP_S = 0.08
_WENCKEBACH_CYCLE = 4


@dataclass(frozen=True)
class Beats:
    """Onsets in seconds: P waves (flutter and fibrillation have none) and QRS complexes."""

    p: tuple[float, ...]
    qrs: tuple[float, ...]


def beats(figure: Ecg) -> Beats:
    """When the atria and the ventricles fire within the strip.

    Examples
    --------
    >>> strip = Ecg(kind="ecg", anchor="a", caption="c", rate=60, seconds=3, pr_ms=200)
    >>> [round(after - before, 2) for before, after in zip(beats(strip).p, beats(strip).qrs)]
    [0.2, 0.2, 0.2]
    """
    cycle, pr, start = 60.0 / figure.rate, figure.pr_ms / 1000, 0.35
    regular = _train(start, cycle, figure.seconds)
    match figure.rhythm:
        case "sinus":
            return Beats(regular, tuple(time + pr for time in regular))
        case "wide_tachycardia" | "flutter":
            return Beats((), regular)
        case "fibrillation":
            onsets, time = [], start
            while time < figure.seconds:
                onsets.append(time)
                time += cycle * _IRREGULAR[(len(onsets) - 1) % len(_IRREGULAR)]
            return Beats((), tuple(onsets))
        case "wenckebach":
            # Each PR is longer than the one before, until a P wave is not conducted.
            conducted = [
                time + pr + _WENCKEBACH_STEP_S * (number % _WENCKEBACH_CYCLE)
                for number, time in enumerate(regular)
                if number % _WENCKEBACH_CYCLE != _WENCKEBACH_CYCLE - 1
            ]
            return Beats(regular, tuple(conducted))
        case "complete_block":
            return Beats(_train(0.1, 60.0 / _ATRIAL_RATE, figure.seconds), regular)


def _train(start: float, cycle: float, end: float) -> tuple[float, ...]:
    return tuple(start + cycle * number for number in range(math.ceil((end - start) / cycle)))


def trace(figure: Ecg) -> list[tuple[float, float]]:
    """The lead as seconds and millivolts."""
    strip = beats(figure)
    samples = []
    for number in range(int(figure.seconds / _STEP) + 1):
        time = number * _STEP
        level = _atria(time, figure.rhythm)
        level += sum(_bump(time - onset, 0.045, 0.022, 0.13) for onset in strip.p if -0.2 < time - onset < 0.3)
        level += sum(_ventricles(time - onset, figure) for onset in strip.qrs if -0.2 < time - onset < 1.2)
        samples.append((time, level))
    return samples


def _atria(time: float, rhythm: str) -> float:
    """What the atria write when they do not beat: saw teeth of flutter, or unrest of fibrillation."""
    if rhythm == "flutter":
        return 0.3 * (0.5 - (time * _FLUTTER_RATE / 60) % 1.0)
    if rhythm == "fibrillation":
        return 0.035 * (math.sin(37.7 * time) + math.sin(51.1 * time + 1.0) + math.sin(43.3 * time + 2.0))
    return 0.0


def _bump(time: float, center: float, sigma: float, height: float) -> float:
    return height * math.exp(-(((time - center) / sigma) ** 2) / 2)


def _ventricles(time: float, figure: Ecg) -> float:
    """QRS complex, ST segment and T wave of a beat whose QRS begins at 0, in millivolts."""
    qrs, qt = figure.qrs_ms / 1000, figure.qt_ms / 1000
    level = _bump(time, 0.18 * qrs, 0.08 * qrs, -0.12) + _bump(time, 0.82 * qrs, 0.09 * qrs, -0.22)
    level += _bump(time, 0.48 * qrs, 0.11 * qrs, 1.0)
    end_of_t = max(qt, qrs + 0.16)
    sigma = min(0.045, (end_of_t - qrs) / 6)
    # Broad complexes repolarize the other way; T waves are low where they would hide the atria.
    high = 0.12 if figure.rhythm in ("flutter", "fibrillation") else 0.28
    level += _bump(time, end_of_t - 2.2 * sigma, sigma, high if figure.qrs_ms < 120 else -0.3)
    if figure.st_mm and qrs < time < end_of_t:
        rise = min((time - qrs) / 0.02, 1.0, (end_of_t - time) / (2.2 * sigma))
        level += figure.st_mm / GAIN * max(rise, 0.0)
    return level


class EcgArt:
    """The strip with its calibration pulse, for a width in points; one millimeter of paper shrinks to fit."""

    def __init__(self, figure: Ecg, width: float) -> None:
        self.figure = figure
        self.width = width
        self.columns = math.ceil((figure.seconds + _CALIBRATION_S) * SPEED / 5) * 5
        self.mm = min(width / self.columns, 72 / 25.4)
        self.foot = 10.0
        self.height = _ROWS_MM * self.mm + self.foot

    def paint(self, canvas: Any) -> None:
        """Draw the paper, the pulse of 1 mV and the lead."""
        right, top = self.columns * self.mm, self.height
        for every, color, pen in ((1, _FINE, 0.25), (5, _COARSE, 0.45)):
            canvas.setStrokeColor(color)
            canvas.setLineWidth(pen)
            for column in range(0, self.columns + 1, every):
                canvas.line(column * self.mm, self.foot, column * self.mm, top)
            for row in range(0, _ROWS_MM + 1, every):
                canvas.line(0, self.foot + row * self.mm, right, self.foot + row * self.mm)
        base = self.foot + _BASE_MM * self.mm
        start = _CALIBRATION_S * SPEED
        pulse = [(1.0, 0.0), (2.0, 0.0), (2.0, GAIN), (6.0, GAIN), (6.0, 0.0), (start, 0.0)]
        points = [(x * self.mm, base + y * self.mm) for x, y in pulse]
        points += [
            ((start + time * SPEED) * self.mm, base + level * GAIN * self.mm) for time, level in trace(self.figure)
        ]
        canvas.setStrokeColor(INK)
        canvas.setLineWidth(0.7)
        canvas.setLineJoin(1)
        path = canvas.beginPath()
        for number, place in enumerate(points):
            (path.moveTo if number == 0 else path.lineTo)(*place)
        canvas.drawPath(path, stroke=1, fill=0)
        put_lines(canvas, ["25 mm/s, 10 mm/mV"], 0, self.foot - 2, size=SMALL, align="left", color=GREY)
