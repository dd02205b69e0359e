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

from medvrag_core.corpus.lines import Line, PageLines, hull

_SEEN = 12  # levels of 255 by which two colors must differ to be told apart; a page of #FAFAFA on white is empty
_INK_SHARE = 0.6  # glyphs fill less of their box; a color that fills more of it is the background
_SAMPLES = 16  # rows and columns looked at first
_QUICK = 8  # rows and columns of a first look at all words at once
_GREEN = 1  # of the three channels that by which most colors differ
_FAR = 1_000  # no color is near it
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
    told = iter(_causes(page, pixels))
    for line in page.lines:
        causes = [next(told) for _ in line.inks]
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


def _causes(page: PageLines, pixels: NDArray[np.uint8]) -> list[str]:
    """Why each word that has an ink is hidden, in the order of the lines; "" for one that is seen."""
    height, width = pixels.shape[:2]
    causes: list[str] = []
    looked_at: list[int] = []
    areas: list[tuple[int, int, int, int]] = []
    colors: list[tuple[int, int, int] | None] = []
    for line in page.lines:
        for (text, box), ink in zip(line.words, line.inks, strict=True) if line.inks else ():
            shown = page.to_page(box)
            causes.append("")
            if not any(map(str.isalnum, text)):
                continue
            if ink.fault or shown is None:
                causes[-1] = ink.fault or "off_page"
                continue
            looked_at.append(len(causes) - 1)
            x0, y0 = min(int(shown[0] * width), width - 1), min(int(shown[1] * height), height - 1)
            areas.append((x0, y0, max(ceil(shown[2] * width), x0 + 1), max(ceil(shown[3] * height), y0 + 1)))
            colors.append(ink.color)
    if areas:
        for number in np.flatnonzero(_doubtful(np.array(areas), colors, pixels)).tolist():
            x0, y0, x1, y1 = areas[number]
            causes[looked_at[number]] = _cause(pixels[y0:y1, x0:x1], colors[number])
    return causes


def _doubtful(
    areas: NDArray[np.int64], colors: list[tuple[int, int, int] | None], pixels: NDArray[np.uint8]
) -> NDArray[np.bool_]:
    """Which areas (n, 4) may be hidden; of the others :func:`_cause` would say that they are seen. All at once."""
    starts, sizes = areas[:, :2], areas[:, 2:] - areas[:, :2]
    places = starts[:, :, None] + (sizes[:, :, None] - 1) * np.arange(_QUICK) // (_QUICK - 1)
    sample = pixels[places[:, 1, :, None], places[:, 0, None, :], _GREEN].reshape(len(areas), -1)
    even: NDArray[np.bool_] = sample.max(axis=1) - sample.min(axis=1) < _SEEN
    steps = np.maximum(1, sizes // _SAMPLES)
    ends = starts + (sizes - 1) // steps * steps  # the last pixel that the sample of `_cause` takes
    ends = np.stack([starts, ends], axis=2)
    corners = pixels[ends[:, 1][:, _ROWS], ends[:, 0][:, _COLUMNS]].astype(np.int64)
    far = [(_FAR,) * 3 if color is None else color for color in colors]
    near: NDArray[np.bool_] = (np.abs(corners - np.array(far)[:, None]).max(axis=2) < _SEEN).any(axis=1)
    return np.logical_or(even, near)


def _cause(patch: NDArray[np.uint8], color: tuple[int, int, int] | None) -> str:
    """Why a word of ``color`` in ``patch`` is hidden, as the pixels tell."""
    sample = patch[:: max(1, patch.shape[0] // _SAMPLES), :: max(1, patch.shape[1] // _SAMPLES)]
    if _is_even(sample) and _is_even(patch):
        return "no_ink"
    if color is not None and any(_near(corner, color) for corner in sample[_ROWS, _COLUMNS].tolist()):
        same = np.abs(sample.astype(np.int16) - np.array(color, dtype=np.int16)).max(axis=2) < _SEEN
        if same.mean() > _INK_SHARE:
            return "same_color"
    return ""


def _near(color: list[int], other: tuple[int, int, int]) -> bool:
    return all(abs(one - two) < _SEEN for one, two in zip(color, other, strict=True))


def _is_even(patch: NDArray[np.uint8]) -> bool:
    flat = patch.reshape(-1, 3)
    return int((flat.max(axis=0) - flat.min(axis=0)).max()) < _SEEN
