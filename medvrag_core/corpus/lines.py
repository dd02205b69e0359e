"""Printed lines of a page and the order in which a person reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from medvrag_core.records import Box, Word

Rectangle = tuple[float, float, float, float]
"""``(x0, y0, x1, y1)`` in points of the upright frame: text runs to the right, lines go down."""

_GUTTER = 0.012  # narrowest white space between two columns, as a fraction of the page width
_COLUMN = 0.18  # a column has at least one line this wide; table cells mostly have not


@dataclass(frozen=True)
class Ink:
    """How a word is drawn: its color (red, green, blue of 255; None: unknown), and why nobody can see it, if so."""

    color: tuple[int, int, int] | None = None
    fault: Literal["", "invisible", "tiny"] = ""


@dataclass(frozen=True)
class Line:
    """One printed line (or one cell of a table row).

    ``block`` is the paragraph number given by the extractor, ``size`` the font size in points,
    ``words`` are texts with rectangles, ``inks`` how each of them is drawn; empty where a layer cannot tell.
    """

    text: str
    box: Rectangle
    block: int
    size: float = 10.0
    bold: bool = False
    words: tuple[tuple[str, Rectangle], ...] = field(default=(), repr=False)
    inks: tuple[Ink, ...] = field(default=(), repr=False)

    @property
    def width(self) -> float:
        """Width in points."""
        return self.box[2] - self.box[0]


@dataclass(frozen=True)
class PageLines:
    """Lines of one page in reading order, with the frame they live in.

    ``to_page`` turns a rectangle of the upright frame into a :data:`~medvrag_core.records.Box` of
    the displayed page, or None where nothing of it lies on the page. ``off_page`` counts words that stand wholly
    beside the page and are in no line.
    """

    lines: tuple[Line, ...]
    frame: Rectangle
    to_page: Callable[[Rectangle], Box | None] = field(repr=False)
    drawings: tuple[tuple[str, Rectangle], ...] = field(default=(), repr=False)
    off_page: int = 0

    @property
    def width(self) -> float:
        """Width of the upright frame in points."""
        return self.frame[2] - self.frame[0]

    @property
    def height(self) -> float:
        """Height of the upright frame in points."""
        return self.frame[3] - self.frame[1]


def reading_order(lines: Sequence[Line], page_width: float) -> list[Line]:
    """Order lines column by column.

    The page is cut into strips at horizontal white space; neighboring strips that share a gutter
    belong together and are read left column first. What has no gutter is read row by row.
    """
    out: list[Line] = []
    for group in _groups(lines, page_width):
        gutter = _gutter(group, page_width)
        if gutter is None:
            out += _rows_or_stream(group, page_width)
        else:
            left = [line for line in group if line.box[2] <= gutter]
            right = [line for line in group if line.box[2] > gutter]
            out += reading_order(left, page_width) + reading_order(right, page_width)
    return out


def _groups(lines: Sequence[Line], page_width: float) -> list[list[Line]]:
    groups: list[list[Line]] = []
    for strip in _strips(lines):
        if groups and _gutter(groups[-1] + strip, page_width) is not None:
            groups[-1] = groups[-1] + strip
        else:
            groups.append(strip)
    return groups


def _strips(lines: Sequence[Line]) -> list[list[Line]]:
    strips: list[list[Line]] = []
    bottom = float("-inf")
    for line in sorted(lines, key=lambda item: (item.box[1], item.box[0])):
        slack = 0.2 * (line.box[3] - line.box[1])  # ascenders and descenders of neighbors may touch
        if line.box[1] + slack >= bottom:
            strips.append([])
        strips[-1].append(line)
        bottom = max(bottom, line.box[3] - slack)
    return strips


def _gutter(lines: Sequence[Line], page_width: float) -> float | None:
    """The x where two columns part, or None."""
    spans = sorted((line.box[0], line.box[2]) for line in lines)
    best, where, end = _GUTTER * page_width, None, spans[0][1]
    for start, stop in spans[1:]:
        if start - end >= best:
            middle = (start + end) / 2
            left = max((line.width for line in lines if line.box[2] <= middle), default=0.0)
            right = max((line.width for line in lines if line.box[0] >= middle), default=0.0)
            if min(left, right) >= _COLUMN * page_width:
                best, where = start - end, middle
        end = max(end, stop)
    return where


def _rows_or_stream(lines: Sequence[Line], page_width: float) -> list[Line]:
    rows = visual_rows(lines)
    if any(sum(line.width > 0.25 * page_width for line in row) > 1 for row in rows):
        return sorted(lines, key=lambda line: line.block)  # prose side by side: trust the file's own order
    return [line for row in rows for line in row]


def visual_rows(lines: Sequence[Line]) -> list[list[Line]]:
    """Group lines that stand on one height, top to bottom, each row left to right."""
    rows: list[list[Line]] = []
    for line in sorted(lines, key=lambda item: (item.box[1] + item.box[3], item.box[0])):
        if rows:
            top, bottom = rows[-1][0].box[1], rows[-1][0].box[3]
            overlap = min(bottom, line.box[3]) - max(top, line.box[1])
            if overlap > 0.5 * min(bottom - top, line.box[3] - line.box[1]):
                rows[-1].append(line)
                continue
        rows.append([line])
    return [sorted(row, key=lambda line: line.box[0]) for row in rows]


def paragraphs(lines: Sequence[Line]) -> list[list[Line]]:
    """Cut ordered lines where the extractor's block changes."""
    out: list[list[Line]] = []
    for line in lines:
        if out and out[-1][-1].block == line.block:
            out[-1].append(line)
        else:
            out.append([line])
    return out


def words_of(page: PageLines) -> tuple[Word, ...]:
    """Words of all lines where they stand on the displayed page; those that stand off it are left out."""
    placed = ((text, page.to_page(box)) for line in page.lines for text, box in line.words)
    return tuple(Word(text=text, box=box) for text, box in placed if box is not None and text)


def hull(boxes: Sequence[Rectangle]) -> Rectangle:
    """Smallest rectangle around all."""
    return (
        min(box[0] for box in boxes),
        min(box[1] for box in boxes),
        max(box[2] for box in boxes),
        max(box[3] for box in boxes),
    )


def gaps(row: Sequence[Line]) -> list[float]:
    """White space between neighbors of a row in points."""
    return [right.box[0] - left.box[2] for left, right in pairwise(row)]
