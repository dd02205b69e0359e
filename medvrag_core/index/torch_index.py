"""Mode ``exact`` on a GPU: all page vectors lie there, and every search scores every page. Never run on a GPU."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from medvrag_core.encoders.vectors import VectorStore
from medvrag_core.errors import MedvragError
from medvrag_core.index.base import PageIndex
from medvrag_core.index.ranking import check_query, ranked_hits
from medvrag_core.index.torch_scan import TorchPages, torch_device
from medvrag_core.records import SearchResult, StageTime
from medvrag_core.settings import IndexSettings

log = logging.getLogger(__name__)

_PAGES_AT_ONCE = 4_096


class TorchIndex(PageIndex):
    """Scores all pages of a store with torch; scores are those of float16, so no result is ``proved``.

    Parameters
    ----------
    store : page vectors
    places : int64, ascending, the pages that can be found
    settings : ``device`` and ``backward_weight``
    """

    def __init__(self, store: VectorStore, places: NDArray[np.int64], settings: IndexSettings) -> None:
        def blocks() -> Iterator[NDArray[np.float32]]:
            for first in range(0, len(places), _PAGES_AT_ONCE):
                yield store.rows(places[first : first + _PAGES_AT_ONCE])[0]

        self._page_ids, self._places, self._dim = store.page_ids, places, store.dim
        self._backward = settings.backward_weight
        lengths = np.diff(store.offsets)[places]
        self._pages = TorchPages(lengths, blocks(), store.dim, device=settings.device)
        self.device = self._pages.device

    def search(self, query: NDArray[np.float32], k: int) -> SearchResult:
        """See :class:`PageIndex`; the one step is ``exact``."""
        check_query(query, self._dim)
        begun = time.perf_counter()
        scores = self._pages.scores(query, backward=self._backward)
        hits = ranked_hits(self._page_ids, scores, k, places=self._places)
        return SearchResult(hits=hits, times=(StageTime(step="exact", seconds=time.perf_counter() - begun),))


def scan_device(settings: IndexSettings) -> str:
    """Where mode ``exact`` scores: ``cuda:N``, or ``cpu``, which ``auto`` means where torch or a GPU is missing.

    Raises
    ------
    SettingsError : the GPU that was asked for is not there
    MedvragError : a GPU was asked for, and torch is not installed
    """
    if settings.device == "cpu" or (settings.device == "auto" and find_spec("torch") is None):
        return "cpu"
    return torch_device(settings.device)


def on_gpu(store: VectorStore, places: NDArray[np.int64], settings: IndexSettings) -> TorchIndex | None:
    """Mode ``exact`` on a GPU; None where the settings leave it on the CPU, or ``auto`` finds too little room."""
    if scan_device(settings) == "cpu":
        return None
    try:
        return TorchIndex(store, places, settings)
    except MedvragError as error:
        # No room is told by the plain class; whatever has a class of its own is wrong on the CPU too.
        if settings.device != "auto" or type(error) is not MedvragError:
            raise
        log.warning("stage 1 stays on the CPU: %s", error)
        return None
