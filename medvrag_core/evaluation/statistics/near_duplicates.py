"""Questions whose stems say nearly the same: they are answered alike, so they are less evidence than as many others."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from medvrag_core.records import Record

THRESHOLD = 0.8
"""Jaccard similarity of word triples from which two stems count as one."""

_WORDS = 3
_WORD = re.compile(r"[^\W_]+")
_ROWS = 1_000


class StemClusters(Record):
    """How many of the questions are near-duplicates of others."""

    threshold: float = Field(description="Jaccard similarity of word triples, letter case and punctuation aside")
    questions: int
    clusters: int = Field(description="groups of near-duplicates, single questions counted as groups of one")
    repeated: int = Field(description="questions in a group of two or more")
    largest: int = Field(description="questions in the largest group")


def near_duplicates(texts: Sequence[str], *, threshold: float = THRESHOLD) -> NDArray[np.intp]:
    """Number of the cluster of every text, shape (n,); clusters are chains of pairs at or above ``threshold``.

    All pairs are compared, by a sparse product of the texts' word triples, so the result is exact, and the same for
    every order of the texts but for the numbering. A text of fewer words than three has itself as its only triple.

    >>> near_duplicates(["Which drug treats gout?", "which drug treats gout", "Which test is best?"]).tolist()
    [0, 0, 1]
    """
    from scipy.sparse import coo_array, csr_array
    from scipy.sparse.csgraph import connected_components

    known: dict[tuple[str, ...], int] = {}
    rows: list[int] = []
    columns: list[int] = []
    for row, text in enumerate(texts):
        words = _WORD.findall(text.casefold())
        triples = {tuple(words[i : i + _WORDS]) for i in range(max(1, len(words) - _WORDS + 1))}
        rows += [row] * len(triples)
        columns += [known.setdefault(triple, len(known)) for triple in triples]
    n = len(texts)
    held = csr_array((np.ones(len(rows), dtype=np.int64), (rows, columns)), shape=(n, max(len(known), 1)))
    sizes = np.asarray(held.sum(axis=1))
    first: list[NDArray[np.intp]] = []
    second: list[NDArray[np.intp]] = []
    for start in range(0, n, _ROWS):
        shared = (held[start : start + _ROWS] @ held.T).tocoo()
        a, b = shared.row + start, shared.col
        alike = (a < b) & (shared.data >= threshold * (sizes[a] + sizes[b] - shared.data))
        first.append(a[alike])
        second.append(b[alike])
    if not first:
        return np.zeros(0, dtype=np.intp)
    a, b = np.concatenate(first), np.concatenate(second)
    pairs = coo_array((np.ones(len(a), dtype=np.int8), (a, b)), shape=(n, n))
    return np.asarray(connected_components(pairs, directed=False)[1], dtype=np.intp)


def stem_clusters(clusters: NDArray[np.intp], *, threshold: float = THRESHOLD) -> StemClusters:
    """Counts of a clustering; raises ValueError for one without questions."""
    sizes = np.bincount(clusters)
    return StemClusters(
        threshold=threshold,
        questions=len(clusters),
        clusters=len(sizes),
        repeated=int(sizes[sizes > 1].sum()),
        largest=int(sizes.max()),
    )
