"""Mode ``fast``: S(q, p) over the centroids of every page, both ways, then over all vectors of the best pages.

Three things set it apart from the coarse rank of mode ``paper``: there is no ANN before it, for a page that is good in
the mean need not be among the nearest of any single query row; both halves of S are taken; and in the second half a
centroid counts for as many vectors as it stands for.
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from medvrag_core.index.coded_index import CodedIndex, IndexedPages
from medvrag_core.index.coded_pages import Places
from medvrag_core.index.ranking import best_places
from medvrag_core.records import StageTime


class FastIndex(CodedIndex):
    """Centroids of all pages -> all vectors of the best R."""

    def __init__(self, pages: IndexedPages, shortlist: int) -> None:
        super().__init__(pages)
        self.shortlist = shortlist

    def _shortlist(self, query: NDArray[np.float32]) -> tuple[Places, list[StageTime]]:
        clock = time.perf_counter()
        places = self.pages.places
        if self.shortlist < len(places):
            scores = self.pages.coded.centroid_scores(query)
            scores = scores if len(places) == len(scores) else scores[places]
            places = places[best_places(scores, self.shortlist)]
        return places, [StageTime(step="coarse", seconds=time.perf_counter() - clock)]
