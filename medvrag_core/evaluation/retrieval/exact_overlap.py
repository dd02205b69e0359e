"""The modes of the index beside exact search (paper section 3.2): what each finds of it, and how long it takes.

This needs no gold pages: it asks what a shortcut costs, not whether late interaction finds the right pages.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean, median
from typing import Literal

from pydantic import Field
from tqdm import tqdm

from medvrag_core.errors import InputError, NotBuiltError
from medvrag_core.evaluation.statistics.means import Estimate, mean_of
from medvrag_core.index.base import PageIndex
from medvrag_core.index.build import open_index
from medvrag_core.index.manifest import read_manifest
from medvrag_core.index.tune import exact_settings
from medvrag_core.records import Query, Record, SearchResult, StageTime
from medvrag_core.settings import EvaluationSettings, IndexSettings
from medvrag_core.systems.resources import Resources


class SearchWay(Record):
    """One mode with the settings that decide what it looks at."""

    mode: Literal["exact", "fast", "paper"]
    ann_neighbors: int | None = Field(None, description="centroids fetched for each query vector; paper alone")
    shortlist: int | None = Field(None, description="R, pages scored by codes; null: every page")
    rescore: int = Field(description="best pages by codes that are scored anew by their vectors")

    @classmethod
    def of(cls, settings: IndexSettings) -> SearchWay:
        """The one that settings describe."""
        return cls(
            mode=settings.mode,
            ann_neighbors=settings.ann_neighbors if settings.mode == "paper" else None,
            shortlist=None if settings.mode == "exact" else settings.shortlist,
            rescore=settings.rescore,
        )

    def applied(self, settings: IndexSettings) -> IndexSettings:
        """Settings under which an index searches this way."""
        return settings.model_copy(update=self.model_dump(exclude_none=True))


class OverlapRow(Record):
    """What the first k pages have in common with those of exact search."""

    k: int
    overlap: Estimate = Field(description="share of the first k pages of exact search among the first k found")
    identical: int = Field(description="queries with the same first k pages in the same order")
    proved: int = Field(description="queries whose first k pages are proved to be the best k of all, in this order")


class SearchedWay(SearchWay):
    """One way to search, on all queries."""

    own: bool = Field(description="the way of this mode under the settings of the profile")
    whole: bool = Field(description="no page can be lost before its codes are looked at")
    seconds: float = Field(description="median of one search, encoding left out")
    steps: tuple[StageTime, ...] = Field(description="mean of each step")
    rows: tuple[OverlapRow, ...]


class ExactOverlap(Record):
    """Ways to search beside exact search on the same queries; the first is mode ``exact`` of the profile."""

    queries: int
    pages: int = Field(description="that can be found")
    backward_weight: float = Field(description="of the second half of S")
    searched: tuple[SearchedWay, ...]
    left_out: dict[str, str] = Field(default_factory=dict, description="modes that could not be opened, and why")

    def shows_nothing(self, searched: SearchedWay) -> bool:
        """Whether every page is scored by its vectors that way, so that agreement is no finding."""
        return searched.whole and searched.rescore >= self.pages


def search_ways(
    settings: IndexSettings,
    *,
    rescores: Sequence[int] = (),
    shortlists: Sequence[int] = (),
    ann_neighbors: Sequence[int] = (),
) -> list[SearchWay]:
    """All three modes under the given settings, then with one setting changed at a time.

    >>> [way.shortlist for way in search_ways(IndexSettings(), shortlists=(20,)) if way.mode == "fast"]
    [4000, 20]
    """
    changes: dict[str, list[dict[str, int]]] = {
        "exact": [{"rescore": count} for count in rescores],
        "fast": [{"shortlist": count} for count in shortlists],
        "paper": [{"shortlist": r} for r in shortlists] + [{"ann_neighbors": count} for count in ann_neighbors],
    }
    return [
        SearchWay.of(settings.model_copy(update={"mode": mode, **change}))
        for mode, some in changes.items()
        for change in ({}, *some)
    ]


def exact_overlap(
    resources: Resources,
    queries: Sequence[Query],
    *,
    ways: Sequence[SearchWay] | None = None,
    ks: Sequence[int] = (10, 100, 2_000),
    progress: bool = True,
) -> ExactOverlap:
    """Search every query in every way, live; each query begins with another way, so that none always comes first.

    Parameters
    ----------
    resources : a run with an index
    queries : what to search
    ways : to compare besides mode ``exact`` of the profile; default: all modes as the profile has them
    ks : cut-offs; one beyond a shortlist is left out there

    Raises
    ------
    InputError : there is no query, or every cut-off is beyond a shortlist
    """
    if not queries:
        raise InputError("there is no query to search", way_out="give a file with at least one")
    settings, most = resources.profile.index, max(ks)
    own = search_ways(settings)
    indexes, left_out = _opened(resources, [own[0], *(own if ways is None else ways)], min(ks))
    pages = read_manifest(resources.workspace.index).pages
    exact = _exact_search(resources, most, pages)
    whole = {way: _whole(way, pages, len(resources.vectors) * settings.centroids) for way in indexes}
    tallies = {way: _Tally([k for k in sorted({*ks}) if _within(k, way)]) for way in indexes}
    first = resources.encoder.encode_query(queries[0].text)
    for index in indexes.values():
        index.search(first, most)  # For what is compiled, read and started by the first search alone.
    for number, query in enumerate(tqdm(queries, desc="overlap", unit="query", disable=None if progress else True)):
        vectors = resources.encoder.encode_query(query.text)
        turn = number % len(indexes)
        results: dict[SearchWay, dict[int, SearchResult]] = {}
        for way in [*indexes][turn:] + [*indexes][:turn]:
            clock = time.perf_counter()
            results[way] = {most: indexes[way].search(vectors, most)}
            tallies[way].seconds.append(time.perf_counter() - clock)
            if whole[way]:  # Only there can fewer pages be proved where more are not.
                results[way] |= {k: indexes[way].search(vectors, k) for k in ks if k < most}
        wanted = exact.search(vectors, most)
        for way, tally in tallies.items():
            tally.add(results[way], wanted, most)
    return ExactOverlap(
        queries=len(queries),
        pages=pages,
        backward_weight=settings.backward_weight,
        searched=tuple(
            SearchedWay(
                **way.model_dump(),
                own=way in own,
                whole=whole[way],
                seconds=median(tally.seconds),
                steps=tuple(StageTime(step=step, seconds=fmean(some)) for step, some in tally.steps.items()),
                rows=tally.rows(resources.profile.evaluation),
            )
            for way, tally in tallies.items()
        ),
        left_out=left_out,
    )


class _Tally:
    """What one way found and took, query by query."""

    def __init__(self, ks: Sequence[int]) -> None:
        self.seconds: list[float] = []
        self.steps: defaultdict[str, list[float]] = defaultdict(list)
        self.shares: dict[int, list[float]] = {k: [] for k in ks}
        self.same = dict.fromkeys(ks, 0)
        self.proved = dict.fromkeys(ks, 0)

    def add(self, found: dict[int, SearchResult], exact: SearchResult, most: int) -> None:
        """One query: its results by the number of pages asked for, ``most`` among them, beside exact search."""
        for time_ in found[most].times:
            self.steps[time_.step].append(time_.seconds)
        for k, shares in self.shares.items():
            wanted, pages = ([hit.page_id for hit in result.hits[:k]] for result in (exact, found[most]))
            shares.append(len({*wanted} & {*pages}) / len(wanted))
            self.same[k] += wanted == pages
            self.proved[k] += found.get(k, found[most]).proved

    def rows(self, settings: EvaluationSettings) -> tuple[OverlapRow, ...]:
        """Means over the queries."""
        return tuple(
            OverlapRow(k=k, overlap=mean_of(shares, settings), identical=self.same[k], proved=self.proved[k])
            for k, shares in self.shares.items()
        )


def _exact_search(resources: Resources, most: int, pages: int) -> PageIndex:
    """What all ways are compared with."""
    mine = resources.profile.index
    wanted = exact_settings(mine, most)
    if min(wanted.rescore, pages) <= mine.rescore:
        return resources.exact_index
    return open_index(resources.vectors, wanted, resources.workspace.index)


def _opened(
    resources: Resources, ways: Sequence[SearchWay], least: int
) -> tuple[dict[SearchWay, PageIndex], dict[str, str]]:
    """Indexes, mode ``exact`` of the profile first; and modes that this index was not made for."""
    indexes: dict[SearchWay, PageIndex] = {ways[0]: resources.exact_index}
    left_out: dict[str, str] = {}
    for way in ways[1:]:
        if not _within(least, way):
            raise InputError(
                f"mode '{way.mode}': every cut-off is beyond the shortlist of {way.shortlist}",
                way_out="give a smaller cut-off",
            )
        if way in indexes or way.mode in left_out:
            continue
        try:
            indexes[way] = open_index(
                resources.vectors, way.applied(resources.profile.index), resources.workspace.index
            )
        except NotBuiltError as error:
            left_out[way.mode] = str(error)
    return indexes, left_out


def _within(k: int, way: SearchWay) -> bool:
    return way.shortlist is None or k <= way.shortlist


def _whole(way: SearchWay, pages: int, centroids: int) -> bool:
    """Whether no page can be lost: neither by the shortlist, nor by an ANN that does not return every centroid."""
    reached = way.ann_neighbors is None or way.ann_neighbors >= centroids
    return reached and (way.shortlist is None or way.shortlist >= pages)
