"""Search over coded pages: a shortlist, its scores by codes, and the best of them anew by their vectors.

The three modes differ in the shortlist alone. In mode ``exact`` it holds every page.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from medvrag_core.encoders.storage import Stored
from medvrag_core.index.base import PageIndex
from medvrag_core.index.coded_pages import CodedPages, Places, Scores
from medvrag_core.index.kernels.vector_scores import vector_scores
from medvrag_core.index.maxsim import row_weights
from medvrag_core.index.ranking import best_places, check_query, ranked_hits
from medvrag_core.records import SearchResult, StageTime

ReadVectors = Callable[[Places], tuple[Stored, NDArray[np.int64]]]
"""Vectors of chosen pages as they are stored, and their offsets, in the order given."""
_ROUNDING = 1e-4
"""More than sums of float32 lose of a score of rows of unit length."""


@dataclass(frozen=True)
class IndexedPages:
    """What every mode searches.

    Attributes
    ----------
    page_ids : of all N pages of the codes
    coded : their codes
    read : their vectors
    places : int64, ascending, pages that can be found; the others were left out or deleted
    dim : d
    rescore : pages of a shortlist that are scored anew by their vectors
    """

    page_ids: Sequence[str]
    coded: CodedPages
    read: ReadVectors
    places: Places
    dim: int
    rescore: int

    def exact_scores(self, query: NDArray[np.float32], places: Places) -> Scores:
        """S(q, p) of chosen pages by their vectors."""
        return vector_scores(query, *self.read(places), backward=self.coded.backward)


class CodedIndex(PageIndex):
    """Mode ``exact``; the other modes shorten the list.

    A hit that was not scored anew carries the score of its codes.
    """

    def __init__(self, pages: IndexedPages) -> None:
        self.pages = pages

    def search(self, query: NDArray[np.float32], k: int) -> SearchResult:
        """See :class:`PageIndex`; the last step is ``exact``: scores by codes, then by vectors.

        A result is ``proved`` where every page was on the shortlist, and no page that was not scored anew can reach the
        last hit by the bounds on what codes leave out.
        """
        check_query(query, self.pages.dim)
        places, times = self._shortlist(query)
        begun = time.perf_counter()
        coded = self.pages.coded.scores(query, places)
        anew = best_places(coded, self.pages.rescore)
        scores = coded.copy()
        scores[anew] = self.pages.exact_scores(query, places[anew])
        hits = ranked_hits(self.pages.page_ids, scores, k, places=places)
        proved = len(places) == len(self.pages.places) and self._proved(query, coded, anew, scores, k)
        times.append(StageTime(step="exact", seconds=time.perf_counter() - begun))
        return SearchResult(hits=hits, times=tuple(times), proved=proved)

    def _shortlist(self, query: NDArray[np.float32]) -> tuple[Places, list[StageTime]]:
        """Pages to score, ascending, and what it took to find them."""
        return self.pages.places, []

    def _proved(self, query: NDArray[np.float32], coded: Scores, anew: Places, scores: Scores, k: int) -> bool:
        if len(anew) == len(coded):
            return True
        if k > len(anew):
            return False
        rest = np.ones(len(coded), dtype=bool)
        rest[anew] = False
        highest = (coded + self.pages.coded.bounds(query)[self.pages.places])[rest].max()
        return out_of_reach(query, scores[anew], k, float(highest), self.pages.coded.backward)


def out_of_reach(query: NDArray[np.float32], anew: Scores, k: int, highest: float, backward: float) -> bool:
    """Whether the k-th of the scores by vectors lies above all that pages scored by codes alone can have.

    Parameters
    ----------
    anew : of at least k pages
    highest : code score of any other page and its bound, at most
    """
    last = float(np.partition(anew, len(anew) - k)[len(anew) - k])
    return last > highest + _ROUNDING * (float(row_weights(query).mean()) + backward)
