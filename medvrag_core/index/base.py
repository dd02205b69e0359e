"""The seam between vectors and ranked pages."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from medvrag_core.records import SearchResult


class PageIndex(ABC):
    """Ranks all pages of a corpus for one query given as token vectors.

    ``device`` is where it searches: ``cpu``, or ``cuda:N``. One that searches ``elsewhere`` may be asked from several
    threads at one time, and gets more done that way; for the others one search has all the cores.
    """

    device: str = "cpu"
    elsewhere: bool = False

    @abstractmethod
    def search(self, query: NDArray[np.float32], k: int) -> SearchResult:
        """The best ``k`` pages (fewer if the corpus is smaller), ties broken by page id.

        ``query`` is float32 of shape (m, d) with rows of unit length.
        """
