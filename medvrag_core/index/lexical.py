"""BM25 over page text: the plain text search that every visual index must be laid beside."""

from __future__ import annotations

import logging
import re
import unicodedata
from collections.abc import Sequence

import numpy as np
from bm25s.stopwords import STOPWORDS_EN

from medvrag_core.index.exact import ranked_hits
from medvrag_core.records import Hit

_WORD = re.compile(r"[^\W_]+")


def tokenize(text: str) -> list[str]:
    """Lower-case words and numbers; hyphenated codes fall into their parts (``IL-6`` -> ``il 6``).

    >>> tokenize("Raised IL-6 and HbA1c")
    ['raised', 'il', '6', 'hba1c']
    """
    folded = unicodedata.normalize("NFKC", text).lower()
    return [word for word in _WORD.findall(folded) if word not in STOPWORDS_EN]


class Bm25Index:
    """BM25 (k1 0.9, b 0.4) over one text a page.

    Parameters
    ----------
    page_ids, texts : same length; pages without a word simply never match
    """

    def __init__(self, page_ids: Sequence[str], texts: Sequence[str]) -> None:
        import bm25s

        self.page_ids = np.array(page_ids)
        tokens = [tokenize(text) for text in texts]
        self._vocabulary = {word for words in tokens for word in words}
        logging.getLogger("bm25s").setLevel(logging.WARNING)  # it would report every index it builds
        self._bm25 = bm25s.BM25(k1=0.9, b=0.4)
        if self._vocabulary:
            self._bm25.index(tokens, show_progress=False)

    def scores(self, text: str) -> np.ndarray:
        """BM25 of every page for a query, float32, shape (N,)."""
        words = [word for word in tokenize(text) if word in self._vocabulary]
        if not words:
            return np.zeros(len(self.page_ids), dtype=np.float32)
        return np.asarray(self._bm25.get_scores(words), dtype=np.float32)

    def search(self, text: str, k: int) -> tuple[Hit, ...]:
        """The ``k`` best pages, equal scores in order of page id."""
        return ranked_hits(self.page_ids, self.scores(text), k)
