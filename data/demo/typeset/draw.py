"""Drawing helpers shared by the figure kinds: colors, wrapped text, arrows."""

from __future__ import annotations

from typing import Any, Protocol

from reportlab.lib.colors import Color, HexColor
from reportlab.pdfbase.pdfmetrics import stringWidth

from typeset.fonts import SANS

INK = HexColor("#1d2733")
GREY = HexColor("#7b8794")
PALE = HexColor("#eef3f8")
TINT = HexColor("#fdf3e1")
LINE = HexColor("#34607f")
SERIES = tuple(HexColor(code) for code in ("#2f6690", "#d98324", "#4f8a5b", "#8d5a97", "#b5483c", "#6b7280"))
SIZE = 7.2
LEADING = 8.8


class Art(Protocol):
    """A figure ready to be drawn with its lower left corner at the origin; sizes in points."""

    width: float
    height: float

    def paint(self, canvas: Any) -> None:
        """Draw on a reportlab canvas."""
        ...


def text_width(text: str, size: float = SIZE, *, bold: bool = False) -> float:
    """Printed width of ``text`` in points."""
    return float(stringWidth(text, f"{SANS}-Bold" if bold else SANS, size))


def wrap(text: str, width: float, size: float = SIZE, *, bold: bool = False) -> list[str]:
    """Break ``text`` at spaces so that each line fits ``width``; a longer word is broken after a slash or hyphen.

    A word that has no such place keeps its line: callers give boxes at least the width of the longest word.
    """
    lines: list[str] = []
    current = ""
    for word in text.split():
        for piece, glue in _pieces(word, width, size, bold):
            joined = current + glue + piece if current else piece
            if current and text_width(joined, size, bold=bold) > width:
                lines.append(current)
                current = piece
            else:
                current = joined
    return [*lines, current] if current else lines


def _pieces(word: str, width: float, size: float, bold: bool) -> list[tuple[str, str]]:
    if text_width(word, size, bold=bold) <= width:
        return [(word, " ")]
    for cut in ("/", "-", "–"):
        head, mark, tail = word.partition(cut)
        if mark and tail:
            return [
                (head + mark, " "),
                *(
                    (piece, "" if at == 0 else glue)
                    for at, (piece, glue) in enumerate(_pieces(tail, width, size, bold))
                ),
            ]
    return [(word, " ")]


def longest_word(text: str, size: float = SIZE, *, bold: bool = False) -> float:
    """Width in points of the widest word of ``text``."""
    return max((text_width(word, size, bold=bold) for word in text.split()), default=0.0)


def put_lines(
    canvas: Any,
    lines: list[str],
    x: float,
    top: float,
    *,
    size: float = SIZE,
    leading: float = LEADING,
    align: str = "center",
    bold: bool = False,
    color: Color = INK,
) -> None:
    """Print ``lines`` below ``top``; ``x`` is their center, left or right edge as ``align`` says."""
    canvas.setFillColor(color)
    canvas.setFont(f"{SANS}-Bold" if bold else SANS, size)
    put = {"center": canvas.drawCentredString, "left": canvas.drawString, "right": canvas.drawRightString}[align]
    for number, line in enumerate(lines):
        put(x, top - size * 0.86 - number * leading, line)


def arrow(canvas: Any, points: list[tuple[float, float]], color: Color = LINE) -> None:
    """A line through ``points`` with a head at the last one."""
    canvas.setStrokeColor(color)
    canvas.setLineWidth(0.8)
    path = canvas.beginPath()
    path.moveTo(*points[0])
    for point in points[1:]:
        path.lineTo(*point)
    canvas.drawPath(path, stroke=1, fill=0)
    (x0, y0), (x1, y1) = points[-2], points[-1]
    length = max(((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5, 1e-6)
    ux, uy = (x1 - x0) / length, (y1 - y0) / length
    head = canvas.beginPath()
    head.moveTo(x1, y1)
    head.lineTo(x1 - 4.5 * ux - 2.2 * uy, y1 - 4.5 * uy + 2.2 * ux)
    head.lineTo(x1 - 4.5 * ux + 2.2 * uy, y1 - 4.5 * uy - 2.2 * ux)
    head.close()
    canvas.setFillColor(color)
    canvas.drawPath(head, stroke=0, fill=1)


def legend(names: list[str], width: float) -> list[list[tuple[float, str]]]:
    """Lay out legend entries in rows; each entry is ``(x, name)`` with 12 points left for its key."""
    rows: list[list[tuple[float, str]]] = [[]]
    x = 0.0
    for name in names:
        need = 14 + text_width(name) + 10
        if rows[-1] and x + need > width + 10:
            rows.append([])
            x = 0.0
        rows[-1].append((x, name))
        x += need
    return rows
