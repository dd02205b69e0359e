"""Regions of a page: what each block is to a reader (heading, caption, table row, figure, ...).

Plain rules over lines and drawings, no model. They are right for most journal pages and wrong for
some; nothing downstream depends on a region being right, it only gains when it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from scipy import ndimage

from medvrag_core.corpus.lines import Line, PageLines, Rectangle, gaps, hull, paragraphs, visual_rows
from medvrag_core.corpus.text import join_lines, normalize
from medvrag_core.records import Region, RegionKind

CAPTION = re.compile(
    r"^(supplement\w*\s+)?(fig(ure|ura)?s?|tab(le|ela|la)s?|quadros?|cuadros?|gr[aá]ficos?|box|chart|scheme)\b\.?\s*"
    r"(S?\d{1,3}|[IVX]{1,5}|[A-Z]\d)\b",
    re.IGNORECASE,
)
_TABLE_CAPTION = re.compile(r"^(supplement\w*\s+)?(tab(le|ela|la)|quadro|cuadro)", re.IGNORECASE)
_MARGIN = 0.075  # running heads and feet stand in this share of the height at top and bottom
_GRID = 120


def find_regions(page: PageLines, vocabulary: frozenset[str] = frozenset()) -> list[Region]:
    """Regions in reading order; table regions are followed by their rows, figures come last.

    ``vocabulary`` holds the words of the page, see :func:`~medvrag_core.corpus.text.join_lines`.
    """
    tables = _find_tables(page)
    in_table = {id(line) for table in tables for row in table for line in row}
    starts = {id(min((line for row in table for line in row), key=page.lines.index)): table for table in tables}
    figures = _figure_boxes(page, [hull([line.box for row in table for line in row]) for table in tables])
    labels: list[list[Line]] = [[] for _ in figures]
    body = _body_size(page.lines)

    found: list[tuple[RegionKind, Rectangle, str]] = []
    for paragraph in paragraphs(page.lines):
        prose: list[Line] = []
        for line in paragraph:
            if id(line) in starts:
                found += _table_regions(starts[id(line)])
            if id(line) in in_table:
                continue
            inside = next((i for i, box in enumerate(figures) if _holds(box, line.box)), None)
            if inside is not None and not CAPTION.match(line.text):
                labels[inside].append(line)
            else:
                prose.append(line)
        if prose:
            box = hull([line.box for line in prose])
            found.append((_kind(prose, box, page, body), box, join_lines([x.text for x in prose], vocabulary)))
    for box, inside_lines in zip(figures, labels, strict=True):
        found.append(("figure", box, " ".join(normalize(line.text) for line in inside_lines)))
    regions = ((kind, page.to_page(box), text) for kind, box, text in found)
    return [Region(kind=kind, box=box, text=text) for kind, box, text in regions if box is not None]


def _kind(lines: Sequence[Line], box: Rectangle, page: PageLines, body: float) -> RegionKind:
    text = normalize(" ".join(line.text for line in lines))
    if CAPTION.match(text):
        return "caption"
    top, bottom = (box[3] - page.frame[1]) / page.height, (box[1] - page.frame[1]) / page.height
    if (top < _MARGIN or bottom > 1 - _MARGIN) and len(lines) <= 3 and len(text) < 200:
        return "margin"
    size = max(line.size for line in lines)
    short = len(text) <= 200 and len(lines) <= 4 and any(char.isalpha() for char in text)
    if short and size >= 1.15 * body:
        return "heading"
    bold = all(line.bold for line in lines) and size >= 0.95 * body
    capitals = text.isupper() and len(text) > 3
    if short and len(text.split()) <= 14 and (bold or capitals) and not text.endswith((".", ",", ";")):
        return "heading"
    return "text"


def _body_size(lines: Sequence[Line]) -> float:
    """Font size in which most characters of the page are set."""
    weight: dict[float, int] = {}
    for line in lines:
        size = round(line.size * 2) / 2
        weight[size] = weight.get(size, 0) + len(line.text)
    return max(weight, key=lambda size: weight[size]) if weight else 10.0


def page_text(regions: tuple[Region, ...]) -> str:
    """Text of a page: a blank line between regions, the rows of a table on lines of their own.

    Cells stay apart by `` | ``, so that a reader can tell a row from a sentence; a table counts once, by its rows.
    """
    text, before = "", ""
    for region in regions:
        if region.kind == "table" or not region.text:
            continue
        gap = "\n" if region.kind == before == "table_row" else "\n\n"
        text += (gap if text else "") + region.text
        before = region.kind
    return text


# --- tables -----------------------------------------------------------------------------


def _find_tables(page: PageLines) -> list[list[list[Line]]]:
    """Tables as lists of rows of cells: runs of rows whose cells are short and apart."""
    tables = []
    for stretch in _stretches(page):
        run: list[list[Line]] = []
        captioned = False
        for row in visual_rows(stretch):
            if _TABLE_CAPTION.match(row[0].text) and CAPTION.match(row[0].text):
                tables += _accept(run, captioned)
                run, captioned = [], True
            elif _is_row(row, page.width):
                run.append(row)
            elif run and len(row) == 1 and row[0].width < 0.3 * page.width and not CAPTION.match(row[0].text):
                run.append(row)  # a wrapped cell or a subheading inside the table
            else:
                tables += _accept(run, captioned)
                captioned = captioned and not run
                run = []
        tables += _accept(run, captioned)
    return tables


def _stretches(page: PageLines) -> list[list[Line]]:
    """Cut ordered lines where reading jumps up the page: at a new column."""
    out: list[list[Line]] = []
    bottom = float("inf")
    for line in page.lines:
        if not out or line.box[3] < bottom - 0.15 * page.height:
            out.append([])
            bottom = line.box[3]
        out[-1].append(line)
        bottom = max(bottom, line.box[3])
    return out


def _is_row(row: Sequence[Line], page_width: float) -> bool:
    em = max(line.size for line in row)
    wide = [gap for gap in gaps(row) if gap > 0.6 * em]
    return len(wide) >= 1 and min(line.width for line in row) < 0.3 * page_width


def _accept(run: list[list[Line]], captioned: bool) -> list[list[list[Line]]]:
    while run and len(run[-1]) == 1:
        run = run[:-1]
    full = [row for row in run if len(row) > 1]
    cells = sum(len(row) for row in full) / max(len(full), 1)
    if captioned and len(full) >= 2:
        return [run]
    return [run] if len(full) >= 4 and cells >= 2.5 and 2 * len(full) >= len(run) and _aligned(full) else []


def _aligned(rows: Sequence[Sequence[Line]]) -> bool:
    """Whether most cells start where a cell of the next or former row starts."""
    starts = [[line.box[0] for line in row] + [line.box[2] for line in row] for row in rows]
    hits = total = 0
    for number, row in enumerate(rows):
        near = [x for other in starts[max(0, number - 1) : number] + starts[number + 1 : number + 2] for x in other]
        for line in row:
            total += 1
            hits += any(min(abs(line.box[0] - x), abs(line.box[2] - x)) < 4 for x in near)
    return hits >= 0.6 * total


def _table_regions(table: list[list[Line]]) -> list[tuple[RegionKind, Rectangle, str]]:
    rows = [" | ".join(normalize(line.text) for line in row) for row in table]
    boxes = [hull([line.box for line in row]) for row in table]
    whole: tuple[RegionKind, Rectangle, str] = ("table", hull(boxes), "\n".join(rows))
    return [whole, *(("table_row", box, text) for box, text in zip(boxes, rows, strict=True))]


# --- figures ----------------------------------------------------------------------------


def _figure_boxes(page: PageLines, tables: Sequence[Rectangle]) -> list[Rectangle]:
    """Areas that images or many strokes cover, found on a coarse grid."""
    grid, images, strokes = (np.zeros((_GRID, _GRID), dtype=np.int64) for _ in range(3))
    for kind, box in page.drawings:
        x0, x1 = ((x - page.frame[0]) / page.width for x in (box[0], box[2]))
        y0, y1 = ((y - page.frame[1]) / page.height for y in (box[1], box[3]))
        wide, high = min(x1, 1.0) - max(x0, 0.0), min(y1, 1.0) - max(y0, 0.0)
        if wide < 0 or high < 0 or wide * high > 0.85 or (max(wide, high) > 0.6 and min(wide, high) < 0.01):
            continue  # off the page, a background or scan, or a rule
        columns = slice(int(max(x0, 0.0) * (_GRID - 1)), int(min(x1, 1.0) * (_GRID - 1)) + 1)
        rows = slice(int(max(y0, 0.0) * (_GRID - 1)), int(min(y1, 1.0) * (_GRID - 1)) + 1)
        grid[rows, columns] = 1
        if kind.endswith("image") or kind.endswith("shade"):
            images[rows, columns] += 1
        else:
            strokes[(rows.start + rows.stop) // 2, (columns.start + columns.stop) // 2] += 1
    labels, _ = ndimage.label(ndimage.binary_dilation(grid), structure=np.ones((3, 3)))
    boxes = []
    for number, found in enumerate(ndimage.find_objects(labels), start=1):
        mine = labels[found] == number
        share = mine.size / _GRID**2
        if share < 0.01 or not (images[found][mine].any() or strokes[found][mine].sum() >= 12):
            continue
        box = (
            page.frame[0] + found[1].start / _GRID * page.width,
            page.frame[1] + found[0].start / _GRID * page.height,
            page.frame[0] + found[1].stop / _GRID * page.width,
            page.frame[1] + found[0].stop / _GRID * page.height,
        )
        if not _is_text_box(box, page.lines) and not any(_overlap(box, table) > 0.5 for table in tables):
            boxes.append(box)
    return boxes


def _is_text_box(box: Rectangle, lines: Sequence[Line]) -> bool:
    """Whether running text fills most of the area: a framed or shaded paragraph, no figure."""
    area = (box[2] - box[0]) * (box[3] - box[1])
    prose = [x.box for x in lines if _holds(box, x.box) and x.width > 0.6 * (box[2] - box[0])]
    return sum((b[2] - b[0]) * (b[3] - b[1]) for b in prose) > 0.35 * area


def _holds(box: Rectangle, inner: Rectangle) -> bool:
    x, y = (inner[0] + inner[2]) / 2, (inner[1] + inner[3]) / 2
    return box[0] <= x <= box[2] and box[1] <= y <= box[3]


def _overlap(box: Rectangle, other: Rectangle) -> float:
    """Share of ``box`` that ``other`` covers."""
    wide = min(box[2], other[2]) - max(box[0], other[0])
    high = min(box[3], other[3]) - max(box[1], other[1])
    area = (box[2] - box[0]) * (box[3] - box[1])
    return max(wide, 0.0) * max(high, 0.0) / area if area > 0 else 0.0
