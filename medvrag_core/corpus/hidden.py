"""Words of a text layer that nobody sees on the printed page.

Such words are no evidence, and they are the cheapest way to speak to a model behind the back of whoever looks at the
page (prompt injection by white or invisible text). A page image cannot carry them, so text must not either.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from math import ceil

import numpy as np
from numpy.typing import NDArray

from medvrag_core.corpus.lines import Ink, Line, PageLines, hull
from medvrag_core.corpus.text import readable_characters
from medvrag_core.records import Box

_SEEN = 12  # levels of 255 by which two colors must differ to be told apart; a page of #FAFAFA on white is empty
_INK_SHARE = 0.6  # glyphs fill less of their box; a color that fills more of it is the background
_SAMPLES = 16  # rows and columns looked at first
_ROWS, _COLUMNS = (0, 0, -1, -1), (0, -1, 0, -1)  # the corners, where glyphs seldom reach
CAUSES: Mapping[str, str] = {
    "invisible": "drawn without ink",
    "tiny": "smaller than 1 pt",
    "same_color": "in the color behind them",
    "no_ink": "where nothing is printed",
    "off_page": "off the page",
}


def split_hidden(page: PageLines, pixels: NDArray[np.uint8]) -> tuple[PageLines, Counter[str]]:
    """The page without its hidden words, and how many there were by cause (a key of :data:`CAUSES`).

    A word is hidden if it is drawn without ink (render mode 3, or wholly transparent), is set below 1 pt, has the color
    of what lies behind it, or stands where the page image has one color only (clipped, covered, or behind the picture).
    What :class:`~medvrag_core.corpus.lines.Ink` tells comes first, the image decides the rest. Lines without inks and
    words without a letter or digit are taken as seen.

    Parameters
    ----------
    pixels : uint8, shape (height, width, 3), the displayed page at any resolution
    """
    found: Counter[str] = Counter({"off_page": page.off_page} if page.off_page else {})
    lines = []
    for line in page.lines:
        inked = zip(line.words, line.inks, strict=True) if line.inks else ()
        causes = [
            _cause(page.to_page(box), ink, pixels) if readable_characters(text) else "" for (text, box), ink in inked
        ]
        found.update(cause for cause in causes if cause)
        if not any(causes):
            lines.append(line)
        elif not all(causes):
            lines.append(_without(line, causes))
    return replace(page, lines=tuple(lines)), found


def _without(line: Line, causes: list[str]) -> Line:
    words = tuple(word for word, cause in zip(line.words, causes, strict=True) if not cause)
    inks = tuple(ink for ink, cause in zip(line.inks, causes, strict=True) if not cause)
    text = " ".join(text for text, _ in words)
    return replace(line, text=text, box=hull([box for _, box in words]), words=words, inks=inks)


def _cause(box: Box | None, ink: Ink, pixels: NDArray[np.uint8]) -> str:
    if ink.fault:
        return ink.fault
    if box is None:
        return "off_page"
    height, width = pixels.shape[:2]
    x0, y0 = min(int(box[0] * width), width - 1), min(int(box[1] * height), height - 1)
    patch = pixels[y0 : max(ceil(box[3] * height), y0 + 1), x0 : max(ceil(box[2] * width), x0 + 1)]
    sample = patch[:: max(1, patch.shape[0] // _SAMPLES), :: max(1, patch.shape[1] // _SAMPLES)]
    if _is_even(sample) and _is_even(patch):
        return "no_ink"
    if ink.color is not None and any(_near(corner, ink.color) for corner in sample[_ROWS, _COLUMNS].tolist()):
        same = np.abs(sample.astype(np.int16) - np.array(ink.color, dtype=np.int16)).max(axis=2) < _SEEN
        if same.mean() > _INK_SHARE:
            return "same_color"
    return ""


def _near(color: list[int], other: tuple[int, int, int]) -> bool:
    return all(abs(one - two) < _SEEN for one, two in zip(color, other, strict=True))


def _is_even(patch: NDArray[np.uint8]) -> bool:
    flat = patch.reshape(-1, 3)
    return int((flat.max(axis=0) - flat.min(axis=0)).max()) < _SEEN
