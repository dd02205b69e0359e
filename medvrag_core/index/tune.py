"""How far a mode has to look: recall of exact search and time at several settings, and the fastest that will do."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from tqdm import tqdm

from medvrag_core.encoders.vectors import VectorStore
from medvrag_core.errors import InputError
from medvrag_core.index.build import open_index
from medvrag_core.index.manifest import read_manifest
from medvrag_core.records import Record
from medvrag_core.settings import IndexSettings

_STEPS: Mapping[str, Mapping[str, tuple[float, ...]]] = {
    "fast": {"shortlist": (0.001, 0.0015, 0.002, 0.003, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)},
    "paper": {"ann_neighbors": (0.0002, 0.001, 0.004, 0.02, 0.1), "shortlist": (0.003, 0.01, 0.03, 0.1)},
}
"""Settings that are tried for a mode, as shares of the pages; of ``ann_neighbors`` as shares of the centroids."""

_RESCORED = 4
"""Pages that exact search scores by their vectors at least, for each that counts."""
_FEWER = 1.25
"""The same that mode ``fast`` is tried with too, where fewer are scored so than is set: to read them takes long."""


class TunedPoint(Record):
    """One setting of a mode beside exact search on the same queries."""

    changed: dict[str, int] = Field(description="fields of the index settings")
    recall: float = Field(description="mean share of the best pages of exact search that were found")
    lowest: float = Field(description="the same of the query with the lowest")
    seconds: float = Field(description="median of one search, encoding left out")


class Tuning(Record):
    """The curve of one mode, and what was chosen."""

    mode: Literal["fast", "paper"]
    at: int = Field(description="best pages of exact search that count")
    wanted: float = Field(description="recall asked for")
    queries: int
    query_vectors: float = Field(description="mean number of vectors of a query")
    pages: int = Field(description="that can be found")
    segments: str = Field(description="digest of the segments of the index")
    exact_seconds: float = Field(description="median of one exact search")
    points: tuple[TunedPoint, ...] = Field(description="fastest first")
    chosen: int | None = Field(description="the fastest point that reaches the recall; null if none does")


def tuning_path(folder: Path, mode: str) -> Path:
    """Where the curve of a mode lies in the folder of an index."""
    return folder / f"tuning-{mode}.json"


def exact_settings(settings: IndexSettings, at: int) -> IndexSettings:
    """Mode ``exact`` with enough pages scored by their vectors that the best ``at`` are what recall is of.

    Pages that are not scored anew lie in the order of their codes, which all modes share.
    """
    return settings.model_copy(update={"mode": "exact", "rescore": max(settings.rescore, _RESCORED * at)})


def tune(
    store: VectorStore,
    settings: IndexSettings,
    folder: Path,
    queries: Sequence[NDArray[np.float32]],
    *,
    recall: float = 0.99,
    at: int = 100,
    progress: bool = True,
) -> Tuning:
    """Search all queries exactly and at every step of a grid.

    Parameters
    ----------
    store, settings, folder : of the index; ``settings.mode`` is the one to tune
    queries : encoded, each float32 of shape (m, d); not those that are reported. The first is searched once more
        beforehand, for what is compiled, read and started by the first search alone.
    recall : to be reached in the mean
    at : pages that count

    Raises
    ------
    InputError : there is no query, or mode ``exact``, which has nothing to tune
    """
    if not queries:
        raise InputError("there is no query to tune with", way_out="give a file with at least one")
    if settings.mode == "exact":
        raise InputError("mode 'exact' has nothing to tune", way_out="tune the mode fast or paper")
    exact = open_index(store, exact_settings(settings, at), folder)
    exact.search(queries[0], at)
    wanted: list[set[str]] = []
    exact_seconds: list[float] = []
    for query in tqdm(queries, desc="exact search", unit="query", disable=None if progress else True):
        clock = time.perf_counter()
        found = exact.search(query, at)
        exact_seconds.append(time.perf_counter() - clock)
        wanted.append({hit.page_id for hit in found.hits})
    manifest = read_manifest(folder)
    every = sum(map(len, wanted))
    points = []
    for changed in tqdm(
        _grid(settings, manifest.pages, at), desc="settings", unit="setting", disable=None if progress else True
    ):
        index = open_index(store, settings.model_copy(update=changed), folder)
        index.search(queries[0], at)
        found_of, seconds = [], []
        for query, best in zip(queries, wanted, strict=True):
            clock = time.perf_counter()
            hits = index.search(query, at).hits
            seconds.append(time.perf_counter() - clock)
            found_of.append(len(best & {hit.page_id for hit in hits}))
        # All queries want as many pages. Divided once, so that 0.99 of them is not less than 0.99.
        points.append(
            TunedPoint(
                changed=changed,
                recall=sum(found_of) / every,
                lowest=min(found_of) * len(queries) / every,
                seconds=median(seconds),
            )
        )
    points.sort(key=lambda point: point.seconds)
    return Tuning(
        mode=settings.mode,
        at=at,
        wanted=recall,
        queries=len(queries),
        query_vectors=float(np.mean([len(query) for query in queries])),
        pages=manifest.pages,
        segments=manifest.segments_digest(),
        exact_seconds=median(exact_seconds),
        points=tuple(points),
        chosen=next((k for k, point in enumerate(points) if point.recall >= recall), None),
    )


def _grid(settings: IndexSettings, pages: int, at: int) -> list[dict[str, int]]:
    """Settings to try, from shares to numbers; none keeps fewer pages than are asked for."""
    steps = _STEPS[settings.mode]
    whole = {name: pages * settings.centroids if name == "ann_neighbors" else pages for name in steps}
    sizes = [sorted({max(at, round(whole[name] * share)) for share in shares}) for name, shares in steps.items()]
    points = [dict(zip(steps, chosen, strict=True)) for chosen in itertools.product(*sizes)]
    fewer = math.ceil(_FEWER * at)
    if settings.mode == "fast":
        points += [{**point, "rescore": fewer} for point in points if fewer < min(settings.rescore, point["shortlist"])]
    return points
