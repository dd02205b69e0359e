"""How much of exact two-way search the coarse-to-fine index finds (paper section 3.2), by size of the shortlist.

This needs no gold pages: it asks what the approximation costs, not whether late interaction finds the right pages.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import median

import numpy as np
from pydantic import Field
from tqdm import tqdm

from medvrag_core.errors import InputError
from medvrag_core.evaluation.statistics.means import Estimate, mean_of
from medvrag_core.index.build import open_index
from medvrag_core.index.manifest import read_manifest
from medvrag_core.records import Query, Record
from medvrag_core.systems.resources import Resources


class OverlapRow(Record):
    """One shortlist, one cut-off: what the first k pages of both searches have in common."""

    shortlist: int = Field(description="R, pages that the index scores exactly")
    k: int
    overlap: Estimate = Field(description="share of the first k pages of exact search among the first k of the index")
    identical: int = Field(description="queries with the same first k pages in the same order")


class ExactOverlap(Record):
    """The index beside exact search on the same queries."""

    queries: int
    pages: int = Field(description="pages in the index")
    ann_neighbors: int
    rows: tuple[OverlapRow, ...]
    exact_seconds: float = Field(description="median of one exact search, encoding left out")
    seconds: dict[int, float] = Field(description="the same for the index, by shortlist")

    @property
    def exhaustive(self) -> tuple[int, ...]:
        """Shortlists that hold every page, so that agreement there proves nothing about the approximation."""
        return tuple(r for r in self.seconds if r >= self.pages)


def exact_overlap(
    resources: Resources,
    queries: Sequence[Query],
    *,
    shortlists: Sequence[int] | None = None,
    ks: Sequence[int] = (10, 100, 2_000),
    progress: bool = True,
) -> ExactOverlap:
    """Search every query both ways, live.

    Parameters
    ----------
    resources : a run with an index
    queries : what to search
    shortlists : sizes R to try; default: the one of the profile
    ks : cut-offs; one beyond the shortlist is left out for that shortlist

    Raises
    ------
    InputError : there is no query, or no cut-off is within any shortlist
    """
    if not queries:
        raise InputError("there is no query to search", way_out="give a file with at least one")
    settings = resources.profile.index
    sizes = sorted(set(shortlists or (settings.shortlist,)))
    indexes = {
        size: open_index(
            resources.vectors,
            settings.model_copy(update={"mode": "paper", "shortlist": size}),
            resources.workspace.index,
        )
        for size in sizes
    }
    cells = {(size, k): np.zeros(len(queries)) for size in sizes for k in sorted(set(ks)) if k <= size}
    if not cells:
        raise InputError(f"every cut-off is beyond the shortlist {sizes[-1]}", way_out="give a smaller cut-off")
    same = dict.fromkeys(cells, 0)
    seconds: dict[int, list[float]] = {size: [] for size in sizes}
    exact_seconds: list[float] = []
    for number, query in enumerate(tqdm(queries, desc="overlap", unit="query", disable=None if progress else True)):
        vectors = resources.encoder.encode_query(query.text)
        clock = time.perf_counter()
        exact = [hit.page_id for hit in resources.exact_index.search(vectors, max(ks)).hits]
        exact_seconds.append(time.perf_counter() - clock)
        for size, index in indexes.items():
            clock = time.perf_counter()
            found = [hit.page_id for hit in index.search(vectors, max(ks)).hits]
            seconds[size].append(time.perf_counter() - clock)
            for k in (k for s, k in cells if s == size):
                wanted = exact[:k]
                cells[size, k][number] = len({*wanted} & {*found[:k]}) / len(wanted)
                same[size, k] += wanted == found[:k]
    return ExactOverlap(
        queries=len(queries),
        pages=read_manifest(resources.workspace.index).pages,
        ann_neighbors=settings.ann_neighbors,
        rows=tuple(
            OverlapRow(
                shortlist=size, k=k, overlap=mean_of(values, resources.profile.evaluation), identical=same[size, k]
            )
            for (size, k), values in cells.items()
        ),
        exact_seconds=median(exact_seconds),
        seconds={size: median(spent) for size, spent in seconds.items()},
    )
