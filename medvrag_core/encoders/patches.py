"""Patches for an encoder that reads words: runs of words that stand in one block of the page."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from medvrag_core.records import PageLayout

_SMALLEST = 5


def layout_patches(layout: PageLayout, *, words: int, at_most: int) -> list[tuple[int, int]]:
    """Cut the words of a page into runs in reading order, none across two blocks of the layout but for short ones.

    A block (a paragraph, a caption, a whole table) with more than ``words`` words falls into equal runs; a run shorter
    than a fifth of that joins its neighbor while the two stay within ``words``. If more than ``at_most`` runs are left,
    the two neighbors that are shortest together become one, again and again.

    Parameters
    ----------
    layout : words in reading order and regions; no words, no patches
    words : longest run, 1 or more
    at_most : most runs, 1 or more

    Returns
    -------
    Half-open ranges of places in ``layout.words``; each word lies in one.
    """
    runs: list[tuple[int, int]] = []
    for start, stop in _blocks(layout):
        parts = math.ceil((stop - start) / words)
        cuts = [start + math.ceil(k * (stop - start) / parts) for k in range(parts + 1)]
        for run in pairwise(cuts):
            if runs and _joins(runs[-1], run, words):
                runs[-1] = (runs[-1][0], run[1])
            else:
                runs.append(run)
    while len(runs) > at_most:
        k = min(range(len(runs) - 1), key=lambda k: runs[k + 1][1] - runs[k][0])
        runs[k : k + 2] = [(runs[k][0], runs[k + 1][1])]
    return runs


def _joins(left: tuple[int, int], right: tuple[int, int], words: int) -> bool:
    short = min(left[1] - left[0], right[1] - right[0]) * _SMALLEST < words
    return short and right[1] - left[0] <= words


def _blocks(layout: PageLayout) -> list[tuple[int, int]]:
    """Runs of neighboring words that stand in the same region, or in none."""
    if not layout.words:
        return []
    region = _region_of_words(layout)
    cuts = [0, *(np.flatnonzero(np.diff(region)) + 1).tolist(), len(region)]
    return list(pairwise(cuts))


def _region_of_words(layout: PageLayout) -> NDArray[np.int64]:
    """The smallest region around the middle of each word, -1 for none; table rows are left to their table."""
    # A table is found as a whole: its rows apart would be too short to stand for themselves.
    boxes = np.array([r.box for r in layout.regions if r.kind != "table_row"], dtype=np.float64).reshape(-1, 4)
    words = np.array([word.box for word in layout.words], dtype=np.float64)
    if not len(boxes):
        return np.full(len(words), -1)
    x, y = (words[:, [0]] + words[:, [2]]) / 2, (words[:, [1]] + words[:, [3]]) / 2
    inside = (boxes[:, 0] <= x) & (x <= boxes[:, 2]) & (boxes[:, 1] <= y) & (y <= boxes[:, 3])
    area = np.where(inside, (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]), np.inf)
    return np.where(inside.any(axis=1), area.argmin(axis=1), -1)
