"""One index searched in parts: each scores the pages of some segments, and one merge gives what a single index gives.

Codes are compared over all parts before the best pages are scored anew, so results are the same bit by bit: hits,
scores and proofs. Modes ``exact`` and ``fast``; the ANN of mode ``paper`` is one piece.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from medvrag_core.encoders.vectors import VectorStore
from medvrag_core.errors import SettingsError
from medvrag_core.index.base import PageIndex
from medvrag_core.index.build import findable
from medvrag_core.index.coded_index import out_of_reach
from medvrag_core.index.coded_pages import CodedPages, Places, Scores
from medvrag_core.index.kernels.vector_scores import vector_scores
from medvrag_core.index.manifest import IndexManifest, way_out
from medvrag_core.index.ranking import best_places, check_query, ranked_hits
from medvrag_core.index.segments import open_segments
from medvrag_core.records import SearchResult, StageTime
from medvrag_core.runs.verified import files_of, verify
from medvrag_core.settings import IndexSettings

Query = NDArray[np.float32]


@dataclass(frozen=True)
class PartOfIndex:
    """What is needed to open a part, wherever its files are seen under these paths; can be pickled.

    Attributes
    ----------
    vectors, index : folders
    manifest : of the index when it was divided; what is deleted later is still found, as in an index that is open
    settings : of the search
    segments : number of the first, and of the one after the last
    """

    vectors: Path
    index: Path
    manifest: IndexManifest
    settings: IndexSettings
    segments: tuple[int, int]

    @property
    def places(self) -> tuple[int, int]:
        """Place of the first page in the store, and of the one after the last."""
        first, end = (sum(entry.pages for entry in self.manifest.segments[:number]) for number in self.segments)
        return first, end

    def open(self) -> OpenPart:
        """Raises MismatchError for a file that is damaged or gone."""
        return OpenPart(self)


@dataclass(frozen=True)
class PartScores:
    """What a part tells of its pages: the best by their codes, and a bound on all others.

    Attributes
    ----------
    places : of the store, ascending
    coded : scores by codes
    highest : what each may have at most
    rest : what any page may have that is not told of
    """

    places: Places
    coded: Scores
    highest: Scores
    rest: float


class OpenPart:
    """The pages of some segments; places are those of the whole store. Raises MismatchError as :class:`PartOfIndex`."""

    def __init__(self, part: PartOfIndex) -> None:
        entries = part.manifest.segments[slice(*part.segments)]
        verify(part.index, files_of(entries), way_out=way_out(part.index))
        self._store = VectorStore.open(part.vectors)
        self._coded = CodedPages(
            open_segments([part.index / entry.folder for entry in entries]),
            backward=part.settings.backward_weight,
            threads=part.settings.threads,
        )
        self._first, end = part.places
        every = findable(self._store, part.manifest)
        self._places = every[(every >= self._first) & (every < end)]

    def coarse(self, query: Query, count: int) -> tuple[Places, Scores]:
        """The ``count`` best pages by their centroids and their scores; more where scores are equal."""
        scores = self._coded.centroid_scores(query)[self._places - self._first]
        best = best_places(scores, count)
        return self._places[best], scores[best]

    def scores(self, query: Query, rescore: int, k: int, among: Places | None) -> PartScores:
        """The ``rescore`` best pages by codes and the ``k`` best of the others, of those at ``among`` if given."""
        places = self._places if among is None else among
        coded = self._coded.scores(query, places - self._first)
        highest = coded + self._coded.bounds(query)[places - self._first]
        told = np.zeros(len(places), dtype=bool)
        told[best_places(coded, rescore)] = True
        others = np.flatnonzero(~told)
        told[others[best_places(coded[others], k)]] = True
        rest = float(highest[~told].max()) if not told.all() else -np.inf
        return PartScores(places[told], coded[told], highest[told], rest)

    def exact(self, query: Query, places: Places) -> Scores:
        """Scores of pages by their vectors."""
        return vector_scores(query, *self._store.stored_rows(places), backward=self._coded.backward)


Ask = Callable[[Literal["coarse", "scores", "exact"], Sequence[tuple[Any, ...]]], Sequence[Any]]
"""Calls a method of every :class:`OpenPart` with the arguments given for it; replies in order, every one of them."""


def divided(
    store: VectorStore, folder: Path, manifest: IndexManifest, settings: IndexSettings, parts: int
) -> list[PartOfIndex]:
    """An index in ``parts`` parts of about as many pages each, whole segments all; in fewer where these are few.

    Raises SettingsError for mode ``paper``.
    """
    if settings.mode == "paper":
        raise SettingsError("index.mode 'paper' is not searched in parts", way_out="take mode exact or fast")
    ends = np.cumsum([entry.pages for entry in manifest.segments])
    wanted = np.arange(1, min(parts, len(ends))) * ends[-1] / min(parts, len(ends))
    cuts = sorted({0, *(int(np.abs(ends - goal).argmin()) + 1 for goal in wanted), len(ends)})
    return [PartOfIndex(store.folder.absolute(), folder.absolute(), manifest, settings, cut) for cut in pairwise(cuts)]


class DividedIndex(PageIndex):
    """An index whose parts are asked through ``ask``; a part that cannot answer fails the query.

    Parameters
    ----------
    parts : in the order of the store
    elsewhere : ``ask`` has other processes search, and may be called from several threads
    """

    def __init__(self, store: VectorStore, parts: Sequence[PartOfIndex], ask: Ask, *, elsewhere: bool = False) -> None:
        self.elsewhere = elsewhere
        self._page_ids, self._dim, self._ask = store.page_ids, store.dim, ask
        self._settings = parts[0].settings
        self._firsts = np.array([part.places[0] for part in parts[1:]], dtype=np.int64)
        self._pages = parts[0].manifest.pages
        self._parts = len(parts)

    def search(self, query: Query, k: int) -> SearchResult:
        """See :class:`PageIndex`; hits and proof are those of :class:`~.coded_index.CodedIndex`."""
        check_query(query, self._dim)
        settings, times = self._settings, []
        among: Sequence[Places | None] = [None] * self._parts
        whole = settings.mode == "exact" or settings.shortlist >= self._pages
        if not whole:
            begun = time.perf_counter()
            among = self._shortlist(query)
            times.append(StageTime(step="coarse", seconds=time.perf_counter() - begun))
        elif settings.mode == "fast":
            times.append(StageTime(step="coarse", seconds=0.0))
        begun = time.perf_counter()
        asked = [(query, settings.rescore, k, places) for places in among]
        parts: Sequence[PartScores] = self._ask("scores", asked)
        places = np.concatenate([part.places for part in parts])
        scores = np.concatenate([part.coded for part in parts])
        highest = np.concatenate([part.highest for part in parts])
        anew = best_places(scores, settings.rescore)
        replies: Sequence[Scores] = self._ask("exact", [(query, chosen) for chosen in self._by_part(places[anew])])
        scores[anew] = np.concatenate(replies)
        hits = ranked_hits(self._page_ids, scores, k, places=places)
        rest = max(max(part.rest for part in parts), float(np.delete(highest, anew).max(initial=-np.inf)))
        proved = whole and (
            rest == -np.inf or (k <= len(anew) and out_of_reach(query, scores[anew], k, rest, settings.backward_weight))
        )
        times.append(StageTime(step="exact", seconds=time.perf_counter() - begun))
        return SearchResult(hits=hits, times=tuple(times), proved=proved)

    def _shortlist(self, query: Query) -> list[Places]:
        """Pages of each part among the best of all by their centroids."""
        count = self._settings.shortlist
        told: Sequence[tuple[Places, Scores]] = self._ask("coarse", [(query, count)] * self._parts)
        places = np.concatenate([found for found, _ in told])
        return self._by_part(places[best_places(np.concatenate([scores for _, scores in told]), count)])

    def _by_part(self, places: Places) -> list[Places]:
        return np.split(places, np.searchsorted(places, self._firsts))
