"""Lines, words and drawings of a PDF page as the file states them."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import cache
from typing import Any

from medvrag_core.corpus.lines import Ink, Line, PageLines, Rectangle
from medvrag_core.records import Box

MAX_WORDS = 20_000
TINY = 1.0
"""Points; smaller type cannot be read."""
_MAX_DRAWINGS = 20_000
_ROUND = 5  # digits of a page fraction: a hundredth of a pixel at 300 dpi


def read_text_layer(page: Any) -> PageLines:
    """Lines of a :class:`pymupdf.Page` in the extractor's order, in a frame where text is upright.

    Rotated pages and pages whose text runs up or down (wide tables) are turned first, so that
    everything after this speaks of lines from left to right.
    """
    import pymupdf

    flags = pymupdf.TEXTFLAGS_DICT & ~pymupdf.TEXT_PRESERVE_IMAGES
    textpage = page.get_textpage(flags=flags)  # from the page's display list lines come in another order
    blocks = [block for block in textpage.extractDICT()["blocks"] if block["type"] == 0]
    words: dict[tuple[int, int], list[tuple[Rectangle, str]]] = defaultdict(list)
    for x0, y0, x1, y1, text, block, line, _ in textpage.extractWORDS()[:MAX_WORDS]:
        if _finite((x0, y0, x1, y1)):
            words[block, line].append(((x0, y0, x1, y1), text))

    dx, dy = _main_direction(blocks)
    upright = pymupdf.Matrix(dx, -dy, dy, dx, 0, 0)
    turned = _turning(upright)
    lines = []
    for block in blocks:
        for number, raw in enumerate(block["lines"]):
            own = words.get((block["number"], number), [])
            if own:
                inks = _inks(raw["spans"], [box for box, _ in own])
                lines.append(_line(block["number"], raw["spans"], [(turned(b), t) for b, t in own], inks))
    unrotated = page.rect * page.derotation_matrix
    drawings, beside = [], False
    for kind, box in page.get_bboxlog()[:_MAX_DRAWINGS]:
        if _finite(box):
            beside = beside or (kind.endswith("-text") and _is_beside(box, unrotated))
            if kind != "fill-text":
                drawings.append((kind, turned(box)))
    return PageLines(
        tuple(lines),
        turned(tuple(unrotated)),
        _to_page(page.rect, ~upright * page.rotation_matrix),
        tuple(drawings),
        _words_beside(page, unrotated) if beside else 0,
    )


def _words_beside(page: Any, frame: Any) -> int:
    """Words of pieces of text that stand wholly beside ``frame``; the extractor itself leaves them out."""
    pieces = (piece for piece in page.get_texttrace() if _finite(piece["bbox"]) and _is_beside(piece["bbox"], frame))
    return sum(len("".join(chr(char[0]) for char in piece["chars"]).split()) for piece in pieces)


def _is_beside(box: Any, frame: Any) -> bool:
    return bool(box[2] <= frame.x0 or box[0] >= frame.x1 or box[3] <= frame.y0 or box[1] >= frame.y1)


def _inks(spans: list[dict[str, Any]], boxes: list[Rectangle]) -> tuple[Ink, ...]:
    """The ink of the span in which the middle of each box lies; of the first where none is."""
    drawn = [_ink(span) for span in spans]
    if len(set(drawn)) == 1:
        return (drawn[0],) * len(boxes)
    inks = []
    for box in boxes:
        x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
        around = (s["bbox"] for s in spans)
        inks.append(
            next((k for k, b in zip(drawn, around, strict=True) if b[0] <= x <= b[2] and b[1] <= y <= b[3]), drawn[0])
        )
    return tuple(inks)


def _ink(span: dict[str, Any]) -> Ink:
    color = (span["color"] >> 16 & 255, span["color"] >> 8 & 255, span["color"] & 255)
    if span["alpha"] == 0:  # MuPDF tells render mode 3 in the same way as full transparency
        return Ink(color, "invisible")
    return Ink(color, "tiny" if span["size"] < TINY else "")


def _line(block: int, spans: list[dict[str, Any]], words: list[tuple[Rectangle, str]], inks: tuple[Ink, ...]) -> Line:
    longest = max(spans, key=lambda span: len(span["text"].strip()))
    boxes = [box for box, _ in words]
    return Line(
        text=" ".join(text for _, text in words),
        box=(min(b[0] for b in boxes), min(b[1] for b in boxes), max(b[2] for b in boxes), max(b[3] for b in boxes)),
        block=block,
        size=float(longest["size"]),
        bold=bool(longest["flags"] & 16) or "bold" in longest["font"].lower(),
        words=tuple((text, box) for box, text in words),
        inks=inks,
    )


def _main_direction(blocks: list[dict[str, Any]]) -> tuple[int, int]:
    seen: Counter[tuple[int, int]] = Counter()
    for block in blocks:
        for line in block["lines"]:
            dx, dy = (round(part) if math.isfinite(part) else 0 for part in line["dir"])
            if abs(dx) + abs(dy) == 1:
                seen[dx, dy] += sum(len(span["text"]) for span in line["spans"])
    return seen.most_common(1)[0][0] if seen else (1, 0)


def _turning(matrix: Any) -> Callable[[Rectangle], Rectangle]:
    """The map of a :class:`pymupdf.Matrix` that turns by quarters, as plain arithmetic: it is asked for every word."""
    a, b, c, d, e, f = (float(part) for part in matrix)

    def turned(box: Rectangle) -> Rectangle:
        x0, y0, x1, y1 = box
        left, right = a * x0 + c * y0 + e, a * x1 + c * y1 + e
        top, bottom = b * x0 + d * y0 + f, b * x1 + d * y1 + f
        return (min(left, right), min(top, bottom), max(left, right), max(top, bottom))

    return turned


def _to_page(rect: Any, matrix: Any) -> Callable[[Rectangle], Box | None]:
    turned, width, height = _turning(matrix), float(rect.width), float(rect.height)

    @cache  # asked once for what is hidden and once for what is kept
    def to_page(box: Rectangle) -> Box | None:
        return fraction_box(turned(box), width, height)

    return to_page


def fraction_box(box: Rectangle, width: float, height: float) -> Box | None:
    """``box`` as fractions of a page ``width`` x ``height``, clipped to it; None if nothing is left.

    >>> fraction_box((10.0, 20.0, 300.0, 40.0), 200.0, 100.0)
    (0.05, 0.2, 1.0, 0.4)
    >>> fraction_box((float("nan"), 0.0, 1.0, 1.0), 200.0, 100.0) is None
    True
    """
    left, top, right, bottom = box
    if not _finite((*box, width, height)) or width <= 0 or height <= 0:
        return None
    x0, x1 = round(min(max(left / width, 0.0), 1.0), _ROUND), round(min(max(right / width, 0.0), 1.0), _ROUND)
    y0, y1 = round(min(max(top / height, 0.0), 1.0), _ROUND), round(min(max(bottom / height, 0.0), 1.0), _ROUND)
    return (x0, y0, x1, y1) if x1 > x0 and y1 > y0 else None


def _finite(box: Any) -> bool:
    return math.isfinite(sum(box))  # far below what overflows
