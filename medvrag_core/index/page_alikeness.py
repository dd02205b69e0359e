"""What two pages that look alike to an encoder have in common as texts: the same, other numbers, or no text at all."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from medvrag_core.corpus.store import CorpusStore

PairKind = Literal["near", "numbers_differ", "blank", "no_text"]
"""``near``: the same text, or other words; ``numbers_differ``: the same words, but other numbers, units or signs;
``blank``: both are white and without text; ``no_text``: neither has text, and not both are white."""

KINDS: tuple[PairKind, ...] = ("blank", "no_text", "numbers_differ", "near")

_TOKEN = re.compile(r"\d+(?:[.,·]\d+)*|[^\W\d_]+|[<>≤≥=±%‰]")
_UNITS = frozenset(
    {
        "g", "kg", "mg", "μg", "mcg", "ng", "pg", "l", "dl", "ml", "μl", "mol", "mmol", "μmol", "nmol", "iu", "u",
        "units", "meq", "kcal", "kj", "mmhg", "cm", "mm", "m", "h", "hr", "hrs", "hour", "hours", "min", "minute",
        "minutes", "s", "d", "day", "days", "wk", "week", "weeks", "month", "months", "y", "yr", "year", "years",
        "puff", "puffs", "drop", "drops", "tablet", "tablets",
    }
)  # fmt: skip
_NUMBERS = frozenset(
    {
        "half", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
        "twenty", "thirty", "forty", "fifty", "hundred", "thousand", "once", "twice", "thrice", "double", "triple",
    }
)  # fmt: skip
_WHITE, _INK = 200, 0.0005
"""Gray value from which a pixel counts as paper, and the share of darker ones that specks of a scan may have."""


def numbers_and_words(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Numbers of a text in their order, with units and signs of comparison; and its other words, sorted.

    Numbers in words count as numbers, and a unit behind a number belongs to it: 5 mg and 5 µg are two doses.

    >>> numbers_and_words("Give 2.5 mg/kg twice; if > 3 fail, stop")
    (('2.5', 'mg', 'kg', 'twice', '>', '3'), ('fail', 'give', 'if', 'stop'))
    """
    numbers: list[str] = []
    words: list[str] = []
    measured = False
    for token in _TOKEN.findall(unicodedata.normalize("NFKC", text).casefold()):
        is_number = not token.isalpha() or token in _NUMBERS
        measured = is_number or (measured and token in _UNITS)
        (numbers if measured else words).append(token)
    return tuple(numbers), tuple(sorted(words))


class PageAlikeness:
    """Tells pairs of pages apart by kind; a page is read once, when it is first asked about.

    Parameters
    ----------
    corpus : with texts and images of the pages; None: every pair is ``near``
    page_ids : what row numbers stand for
    """

    def __init__(self, corpus: CorpusStore | None, page_ids: tuple[str, ...]) -> None:
        self._corpus, self._page_ids = corpus, page_ids
        self._read = np.zeros(len(page_ids), dtype=np.bool_)
        self._words, self._numbers = (np.zeros(len(page_ids), dtype=np.uint64) for _ in range(2))
        self._silent, self._white = (np.zeros(len(page_ids), dtype=np.bool_) for _ in range(2))

    def are(self, kinds: Iterable[PairKind], first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether the kind of each pair is one of ``kinds``; all three arrays of one shape."""
        wanted = {*kinds}
        if not wanted:
            return np.zeros(len(first), dtype=np.bool_)
        if self._corpus is None:
            return np.full(len(first), "near" in wanted, dtype=np.bool_)
        rows = np.unique(np.concatenate([first, second]))
        for row in rows[~self._read[rows]].tolist():
            self._read_page(self._corpus, row)
        silent = self._silent[first] & self._silent[second]
        white = silent & self._white[first] & self._white[second]
        numbers = (
            ~silent & (self._words[first] == self._words[second]) & (self._numbers[first] != self._numbers[second])
        )
        held = {"blank": white, "no_text": silent & ~white, "numbers_differ": numbers, "near": ~silent & ~numbers}
        found: NDArray[np.bool_] = np.logical_or.reduce([held[kind] for kind in sorted(wanted)])
        return found

    def kind(self, first: int, second: int) -> PairKind:
        """Kind of one pair."""
        one, other = np.array([first]), np.array([second])
        return next(kind for kind in KINDS if self.are([kind], one, other)[0])

    def _read_page(self, corpus: CorpusStore, row: int) -> None:
        numbers, words = numbers_and_words(corpus.page(self._page_ids[row]).text)
        self._numbers[row], self._words[row] = _digest(numbers), _digest(words)
        self._silent[row] = not numbers and not words
        self._white[row] = self._silent[row] and _is_white(corpus, self._page_ids[row])
        self._read[row] = True


def _digest(tokens: tuple[str, ...]) -> int:
    return int.from_bytes(hashlib.blake2b("\0".join(tokens).encode(), digest_size=8).digest(), "little")


def _is_white(corpus: CorpusStore, page_id: str) -> bool:
    with Image.open(corpus.image_path(page_id)) as image:
        gray = np.asarray(image.convert("L"))
    return bool((gray < _WHITE).mean() <= _INK)
