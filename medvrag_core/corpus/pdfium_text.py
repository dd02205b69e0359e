"""Lines and words of a PDF page from PDFium's characters.

PDFium knows characters and no paragraphs: words end at blanks, lines where the next character stands elsewhere, and
paragraphs where lines part. Lines that its own order keeps apart are not brought together.
"""

from __future__ import annotations

import ctypes
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from medvrag_core.corpus.lines import Ink, Line, PageLines, Rectangle, hull
from medvrag_core.corpus.textlayer import MAX_WORDS, TINY, fraction_box
from medvrag_core.records import Box

_GRID = 10_000_000  # device units along a side, so that a fraction of the page has seven digits
_MAX_DRAWINGS = 20_000
_HYPHEN = "\x02"  # a hyphen at the end of a line
_CELL_GAP = 1.2  # times the height of the type; wider gaps part cells of a row
_INVISIBLE = 3


@dataclass
class _Word:
    text: str
    box: Rectangle
    size: float
    bold: bool
    ink: Ink


def read_text_layer(page: Any) -> PageLines:
    """Lines of a :class:`pypdfium2.PdfPage` in PDFium's order, in a frame where text runs to the right."""
    width, height = page.get_size()
    shown = _displayed(page, width, height)
    textpage = page.get_textpage()
    try:
        turns = _quarter_turns(textpage, page.get_rotation())
        turn, back = _turning(turns, width, height)
        lines = _lines(_words(textpage, lambda box: turn(shown(box))))
    finally:
        textpage.close()

    def to_page(box: Rectangle) -> Box | None:
        return fraction_box(back(box), width, height)

    frame = (0.0, 0.0, height, width) if turns % 2 else (0.0, 0.0, width, height)
    return PageLines(tuple(lines), frame, to_page, tuple((kind, turn(shown(box))) for kind, box in _drawings(page)))


def _displayed(page: Any, width: float, height: float) -> Callable[[Rectangle], Rectangle]:
    """From PDF space (origin bottom left, not turned) to points of the displayed page (origin top left)."""
    import pypdfium2.raw as pdfium

    def at(x: float, y: float) -> tuple[float, float]:
        right, down = ctypes.c_int(), ctypes.c_int()
        pdfium.FPDF_PageToDevice(page, 0, 0, _GRID, _GRID, 0, x, y, right, down)
        return right.value / _GRID * width, down.value / _GRID * height

    (x, y), (xx, yx), (xy, yy) = at(0, 0), at(100, 0), at(0, 100)
    a, b, c, d = (xx - x) / 100, (yx - y) / 100, (xy - x) / 100, (yy - y) / 100

    def shown(box: Rectangle) -> Rectangle:
        x0, y0 = a * box[0] + c * box[1] + x, b * box[0] + d * box[1] + y
        x1, y1 = a * box[2] + c * box[3] + x, b * box[2] + d * box[3] + y
        return (min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1))

    return shown


def _quarter_turns(textpage: Any, rotation: int) -> int:
    """Quarter turns, clockwise, that most characters are away from running to the right on the displayed page."""
    import pypdfium2.raw as pdfium

    count = pdfium.FPDFText_CountChars(textpage)
    seen: Counter[int] = Counter()
    for place in range(0, count, max(1, count // 200)):
        angle = pdfium.FPDFText_GetCharAngle(textpage, place)
        if angle >= 0 and not pdfium.FPDFText_IsGenerated(textpage, place):
            seen[round(angle / (math.pi / 2)) % 4] += 1
    return (seen.most_common(1)[0][0] + rotation // 90) % 4 if seen else 0


def _turning(
    turns: int, width: float, height: float
) -> tuple[Callable[[Rectangle], Rectangle], Callable[[Rectangle], Rectangle]]:
    """To the upright frame and back, for text that is ``turns`` quarters clockwise away from it."""

    def turn(box: Rectangle, quarters: int, wide: float, high: float) -> Rectangle:
        x0, y0, x1, y1 = box
        for _ in range(quarters % 4):  # a quarter counterclockwise
            x0, y0, x1, y1 = y0, wide - x1, y1, wide - x0
            wide, high = high, wide
        return (x0, y0, x1, y1)

    frame = (height, width) if turns % 2 else (width, height)
    return lambda box: turn(box, turns, width, height), lambda box: turn(box, -turns, *frame)


def _words(textpage: Any, place_of: Callable[[Rectangle], Rectangle]) -> list[_Word]:
    import pypdfium2.raw as pdfium

    words: list[_Word] = []
    text, first = "", 0
    boxes: list[Rectangle] = []
    rect = pdfium.FS_RECTF()

    def end() -> None:
        nonlocal text, boxes
        if text:
            size, bold, ink = _drawn(textpage, first)
            words.append(_Word(text, hull(boxes), size, bold, ink))
        text, boxes = "", []

    for number in range(pdfium.FPDFText_CountChars(textpage)):
        code = pdfium.FPDFText_GetUnicode(textpage, number)
        char = "-" if chr(code) == _HYPHEN else chr(code)
        if code in (0, 0xFFFE, 0xFFFF) or char.isspace() or not char.isprintable():
            end()
            continue
        if not pdfium.FPDFText_GetLooseCharBox(textpage, number, rect):
            continue
        box = place_of((rect.left, rect.bottom, rect.right, rect.top))
        if not all(math.isfinite(part) for part in box):
            continue
        if boxes and not _goes_on(boxes[-1], box):
            end()
        if not text:
            first = number
            if len(words) >= MAX_WORDS:
                return words
        text += char
        boxes.append(box)
    end()
    return words


def _goes_on(before: Rectangle, box: Rectangle) -> bool:
    """Whether two characters may be of one word."""
    high = max(before[3] - before[1], box[3] - box[1])
    gap = max(box[0] - before[2], before[0] - box[2])
    return gap < 0.5 * high and min(before[3], box[3]) - max(before[1], box[1]) > 0


def _drawn(textpage: Any, number: int) -> tuple[float, bool, Ink]:
    import pypdfium2.raw as pdfium

    matrix = pdfium.FS_MATRIX()
    scale = math.hypot(matrix.c, matrix.d) if pdfium.FPDFText_GetMatrix(textpage, number, matrix) else 1.0
    size = pdfium.FPDFText_GetFontSize(textpage, number) * scale
    bold = pdfium.FPDFText_GetFontWeight(textpage, number) >= 600
    red, green, blue, alpha = (ctypes.c_uint() for _ in range(4))
    if not pdfium.FPDFText_GetFillColor(textpage, number, red, green, blue, alpha):
        return size, bold, Ink()
    color = (red.value, green.value, blue.value)
    mode = pdfium.FPDFTextObj_GetTextRenderMode(pdfium.FPDFText_GetTextObject(textpage, number))
    if mode == _INVISIBLE or alpha.value == 0:
        return size, bold, Ink(color, "invisible")
    return size, bold, Ink(color, "tiny" if size < TINY else "")


def _lines(words: list[_Word]) -> list[Line]:
    rows: list[list[_Word]] = []
    for word in words:
        if rows and _same_line(rows[-1][-1], word):
            rows[-1].append(word)
        else:
            rows.append([word])
    lines: list[Line] = []
    for row in rows:
        longest = max(row, key=lambda word: len(word.text))
        line = Line(
            text=" ".join(word.text for word in row),
            box=hull([word.box for word in row]),
            block=0,
            size=longest.size,
            bold=longest.bold,
            words=tuple((word.text, word.box) for word in row),
            inks=tuple(word.ink for word in row),
        )
        block = lines[-1].block + (not _same_paragraph(lines[-1], line)) if lines else 0
        lines.append(Line(line.text, line.box, block, line.size, line.bold, line.words, line.inks))
    return lines


def _same_line(before: _Word, word: _Word) -> bool:
    a, b = before.box, word.box
    low = min(a[3] - a[1], b[3] - b[1])
    level = min(a[3], b[3]) - max(a[1], b[1]) > 0.5 * low
    return level and max(b[0] - a[2], a[0] - b[2]) < _CELL_GAP * max(low, before.size)


def _same_paragraph(before: Line, line: Line) -> bool:
    a, b = before.box, line.box
    across = min(a[2], b[2]) - max(a[0], b[0])
    near = -0.5 * line.size < b[1] - a[3] < 0.6 * line.size
    return across > 0 and near and abs(before.size - line.size) < 1.0


def _drawings(page: Any) -> list[tuple[str, Rectangle]]:
    """Images and strokes; a form that holds others counts as one image."""
    import pypdfium2.raw as pdfium

    kinds = {
        pdfium.FPDF_PAGEOBJ_IMAGE: "fill-image",
        pdfium.FPDF_PAGEOBJ_SHADING: "fill-shade",
        pdfium.FPDF_PAGEOBJ_FORM: "fill-image",
        pdfium.FPDF_PAGEOBJ_PATH: "fill-path",
    }
    found: list[tuple[str, Rectangle]] = []
    for number in range(min(pdfium.FPDFPage_CountObjects(page), _MAX_DRAWINGS)):
        thing = pdfium.FPDFPage_GetObject(page, number)
        kind = kinds.get(pdfium.FPDFPageObj_GetType(thing))
        sides = [ctypes.c_float() for _ in range(4)]
        if kind and pdfium.FPDFPageObj_GetBounds(thing, *sides):
            left, bottom, right, top = (side.value for side in sides)
            if all(math.isfinite(side.value) for side in sides):
                found.append((kind, (left, bottom, right, top)))
    return found
