"""Text of a page for the text arms: in reading order, or by one of the two policies of VisRAG (appendix B.1).

The policies were made for the boxes of an OCR engine. Here a box is a run of words on one line, whether the words come
from a text layer or from OCR, so both kinds of pages are treated alike. VisRAG counts in pixels of images of any size;
here a pixel is 1/200 inch, since its demonstration renders PDF pages at 200 dpi. Unlike there, no box is dropped for
its OCR score: that was decided when the corpus was built. The third kind of text, which needs a model, is in
:mod:`medvrag_core.corpus.captions`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from medvrag_core.corpus.lines import Rectangle, hull
from medvrag_core.corpus.text import join_lines, normalize, vocabulary_of
from medvrag_core.records import Page, PageLayout
from medvrag_core.settings import LayoutPolicy

_PIXELS_PER_POINT = 200 / 72
_NEAR = 15.0  # pixels: boxes nearer than this in height are on a line, or belong together
_ALIGNED = 100.0  # pixels: left edges nearer than this are on one alignment
_PIXELS_PER_SPACE = 45.0


@dataclass(frozen=True)
class TextBox:
    """A run of words on one line, or what was merged from several; ``box`` in pixels of 1/200 inch."""

    lines: tuple[str, ...]
    box: Rectangle

    @property
    def center(self) -> tuple[float, float]:
        """Its middle, x and y."""
        return (self.box[0] + self.box[2]) / 2, (self.box[1] + self.box[3]) / 2


def text_of_page(page: Page, layout: PageLayout, policy: LayoutPolicy) -> str:
    """Text of a page under a policy.

    Parameters
    ----------
    page : its ``text`` is that of the policy ``reading_order``
    layout : words of the page in reading order
    policy : ``adjacent_merging`` joins boxes that stand close below each other, a line for each joined box;
        ``layout_preserving`` mirrors the page in spaces and line breaks
    """
    if policy == "reading_order":
        return page.text
    boxes = text_boxes(page, layout)
    if policy == "layout_preserving":
        return layout_preserving(boxes)
    vocabulary = vocabulary_of(word.text for word in layout.words)
    return "\n".join(join_lines(box.lines, vocabulary) for box in adjacent_merging(boxes))


def text_boxes(page: Page, layout: PageLayout) -> list[TextBox]:
    """Runs of words on one line no farther apart than the line is high, in reading order."""
    runs: list[list[tuple[str, Rectangle]]] = []
    scale = (page.width_pt * _PIXELS_PER_POINT, page.height_pt * _PIXELS_PER_POINT) * 2
    for word in layout.words:
        left, top, right, bottom = (side * by for side, by in zip(word.box, scale, strict=True))
        box = (left, top, right, bottom)
        if not (text := normalize(word.text)):
            continue
        if runs and _continues(runs[-1][-1][1], box):
            runs[-1].append((text, box))
        else:
            runs.append([(text, box)])
    return [TextBox((" ".join(text for text, _ in run),), hull([box for _, box in run])) for run in runs]


def _continues(before: Rectangle, word: Rectangle) -> bool:
    height = min(before[3] - before[1], word[3] - word[1])
    overlap = min(before[3], word[3]) - max(before[1], word[1])
    return overlap > 0.5 * height and -height < word[0] - before[2] <= height


def adjacent_merging(boxes: Sequence[TextBox]) -> list[TextBox]:
    """Merge boxes that stand close below each other until none do; parts and results stay in the order given.

    The paper merges by "vertical proximity (within 15 pixels) and horizontal alignment (within 100 pixels)", and its
    public demonstration of this policy holds the code of the other one. Taken here as: at most 15 pixels between the
    lower edge of one and the upper edge of the other, and left edges at most 100 pixels apart. So lines become
    paragraphs and cells become columns of a table, while two columns of print stay apart; at 100 pixels of white space
    between boxes most journals' columns would run into one another.
    """
    groups = [[place] for place in range(len(boxes))]
    hulls = [box.box for box in boxes]
    before = len(groups) + 1
    while len(groups) < before:
        before = len(groups)
        kept: list[list[int]] = []
        kept_hulls: list[Rectangle] = []
        for group, outline in zip(groups, hulls, strict=True):
            home = next((place for place, other in enumerate(kept_hulls) if _adjacent(other, outline)), None)
            if home is None:
                kept.append(group)
                kept_hulls.append(outline)
            else:
                kept[home] += group
                kept_hulls[home] = hull([kept_hulls[home], outline])
        groups, hulls = kept, kept_hulls
    merged = [
        TextBox(tuple(line for place in sorted(group) for line in boxes[place].lines), outline)
        for group, outline in zip(groups, hulls, strict=True)
    ]
    first = [min(group) for group in groups]
    return [merged[place] for place in sorted(range(len(merged)), key=first.__getitem__)]


def _adjacent(one: Rectangle, other: Rectangle) -> bool:
    gap = max(one[1], other[1]) - min(one[3], other[3])
    return gap <= _NEAR and abs(one[0] - other[0]) <= _ALIGNED


def layout_preserving(boxes: Sequence[TextBox]) -> str:
    """Rows from top to bottom, boxes of a row from left to right, with the blanks of VisRAG's public code between.

    Between boxes of a row stands a space for every 45 pixels from center to center, between rows a line break for every
    15 pixels, at least one. There, boxes are sorted by the exact height of their centers, so that a box a pixel higher
    comes before its left neighbor; here all boxes within 15 pixels of the first of a row are that row.
    """
    rows: list[list[TextBox]] = []
    for box in sorted(boxes, key=lambda item: (item.center[1], item.center[0])):
        if rows and box.center[1] - rows[-1][0].center[1] < _NEAR:
            rows[-1].append(box)
        else:
            rows.append([box])
    placed = [(number, box) for number, row in enumerate(rows) for box in sorted(row, key=lambda item: item.center[0])]
    text = " ".join(placed[0][1].lines) if placed else ""
    for (row_before, before), (row_now, box) in pairwise(placed):
        across, down = (abs(a - b) for a, b in zip(box.center, before.center, strict=True))
        same_row = row_now == row_before
        text += _times(" ", across / _PIXELS_PER_SPACE) if same_row else _times("\n", down / _NEAR)
        text += " ".join(box.lines)
    return text


def _times(blank: str, times: float) -> str:
    return blank * max(1, int(times))
