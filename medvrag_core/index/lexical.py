"""BM25 over page text: the plain text search that every visual index must be laid beside."""

from __future__ import annotations

import logging
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
from bm25s.stopwords import STOPWORDS_EN
from numpy.typing import NDArray

from medvrag_core.index.ranking import ranked_among
from medvrag_core.records import Hit

_HYPHENS = str.maketrans(dict.fromkeys("\u2010\u2011\u2012\u2013\u2212\ufe63\uff0d", "-") | {"\u00ad": "", "™": " "})
_RAISED = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻]+")
_FRACTION = re.compile("[¼-¾⅐-⅞]")
_GREEK = {
    letter: unicodedata.name(letter).split()[-1].lower().replace("lamda", "lambda")
    for letter in "αβγδεζηθικλμνξοπρςστυφχψω"
}
_NUMBER = r"(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!,?\d)|\d+\.\d+|(?<!,)\d+,\d+(?!,?\d)|\d+|(?<![\w.])\.\d+)(?:\^[-+]?\d+)?"
_SYMBOL = "(?<![\u0370-\u03ff])[α-ω](?![\u0370-\u03ff])"  # a Greek letter that is no part of a Greek word
_WORD = rf"(?!{_SYMBOL})[^\W\d_](?:(?!{_SYMBOL})[^\W_])*"
_PIECE = re.compile(rf"{_NUMBER}|{_SYMBOL}|{_WORD}|\^[-+]?\d+")
_LINK = r"(?:-\n\s*|[-*:])?"  # the first is a word broken at the end of a line
_COMPOUND = re.compile(rf"(?:{_PIECE.pattern})(?:{_LINK}(?:{_PIECE.pattern}))*")


def tokenize(text: str, *, stemming: bool = False) -> list[str]:
    """Lower-case words and numbers, as they are looked up; a few English function words are left out.

    - What is linked by hyphens, ``*`` or ``:`` counts by its parts. A code (it has a digit or a Greek letter) and a
      word broken at the end of a line also count as a whole, without the signs, so that ``IL-6`` and ``IL6`` find each
      other. Numbers alone (``5-10``, ``1:2``) have no whole: it would be another number.
    - A number is one word: ``2.5``, ``1,000`` (as ``1000``), ``.05`` (as ``0.05``), ``2,5`` (as ``2.5``), ``10⁹`` (as
      ``10^9``). Lowered digits are digits: ``SpO₂`` is ``spo2``.
    - A Greek letter goes by its name: ``TNF-α`` is ``TNF-alpha``.
    - ``stemming`` cuts English endings from what has no digit.

    >>> tokenize("Raised IL-6, HbA1c and TNF-α")
    ['raised', 'il', '6', 'il6', 'hba1c', 'tnf', 'alpha', 'tnfalpha']
    >>> tokenize("2.5 mg for 5–10 days, 10⁹/L", stemming=True)
    ['2.5', 'mg', '5', '10', 'day', '10^9', 'l']
    """
    words = [word for found in _COMPOUND.finditer(_folded(text)) for word in _words_of(found.group())]
    return [_stem(word) if word.isalpha() else word for word in words] if stemming else words


def _folded(text: str) -> str:
    """Lower case and NFKC, but no raised digit and no fraction runs into the number before it."""
    if not text.isascii():
        text = _FRACTION.sub(r" \g<0> ", _RAISED.sub(r"^\g<0>", text))
        text = unicodedata.normalize("NFKC", text.translate(_HYPHENS)).translate(_HYPHENS)
    return text.lower()


def _words_of(compound: str) -> Iterator[str]:
    pieces = [_plain(piece) for piece in _PIECE.findall(compound)]
    for piece in pieces:
        if piece not in STOPWORDS_EN and piece[0] != "^":
            yield piece
    code = any(char.isdigit() for char in compound) or any(piece in _GREEK.values() for piece in pieces)
    if len(pieces) > 1 and not all(piece[0].isdigit() for piece in pieces) and (code or "\n" in compound):
        yield "".join(pieces)


def _plain(piece: str) -> str:
    """A piece as it is looked up.

    >>> [_plain(piece) for piece in ("1,000", "2,5", ".05", "α", "il6")]
    ['1000', '2.5', '0.05', 'alpha', 'il6']
    """
    if "," in piece:
        return piece.replace(",", "" if re.match(r"\d{1,3}(,\d{3})+(?!\d)", piece) else ".")
    return "0" + piece if piece[0] == "." else _GREEK.get(piece, piece)


@lru_cache(maxsize=200_000)
def _stem(word: str) -> str:
    return str(_stemmer().stemWord(word))


@lru_cache(maxsize=1)
def _stemmer() -> Any:
    import snowballstemmer

    return snowballstemmer.stemmer("english")


class Bm25Index:
    """BM25 (k1 0.9, b 0.4) over one text a page.

    Parameters
    ----------
    page_ids, texts : same length; pages without a word simply never match
    stemming : whether English endings are cut, in pages and queries
    words_of : the words of a text, where the caller has them already; :func:`tokenize` with ``stemming`` without it
    """

    def __init__(
        self,
        page_ids: Sequence[str],
        texts: Sequence[str],
        *,
        stemming: bool = False,
        words_of: Callable[[str], list[str]] | None = None,
    ) -> None:
        import bm25s

        self.page_ids = np.array(page_ids)
        self._stemming = stemming
        words_of = words_of or partial(tokenize, stemming=stemming)
        tokens = [words_of(text) for text in texts]
        self._vocabulary = {word for words in tokens for word in words}
        logging.getLogger("bm25s").setLevel(logging.WARNING)  # it would report every index it builds
        self._bm25 = bm25s.BM25(k1=0.9, b=0.4)
        if self._vocabulary:
            self._bm25.index(tokens, show_progress=False)

    def scores(self, text: str) -> np.ndarray:
        """BM25 of every page for a query, float32, shape (N,)."""
        words = [word for word in tokenize(text, stemming=self._stemming) if word in self._vocabulary]
        if not words:
            return np.zeros(len(self.page_ids), dtype=np.float32)
        return np.asarray(self._bm25.get_scores(words), dtype=np.float32)

    def search(self, text: str, k: int, among: NDArray[np.int64] | None = None) -> tuple[Hit, ...]:
        """The ``k`` best pages, equal scores in order of page id; ``among`` are the places of those that count."""
        return ranked_among(self.page_ids, self.scores(text), k, among)
