"""How the time of a search grows with the pages: straight lines through what was measured, and how far off they are.

A line is all that three or four sizes bear. Within the sizes it is a summary; beyond them it is a guess, and whatever
is made of it says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from medvrag_core.errors import InputError
from medvrag_core.evaluation.cost.unit_costs import UnitCost, UnitCosts
from medvrag_core.evaluation.retrieval.stage1_results import Stage1Run
from medvrag_core.records import Record

ScaledMode = Literal["exact", "fast"]
SCALED_MODES: tuple[ScaledMode, ...] = ("exact", "fast")
"""Modes whose work is divided among machines; mode ``paper`` has one ANN over all pages."""
LAW_VECTORS, LAW_WIDTH, LAW_CENTROIDS = 103, 128, 8
"""Of a page of the made collections that were measured, as of the paper's (section 3.2)."""


class LawPoint(Record):
    """One measured size: medians of one thread, and the tail beside the median by the clock."""

    pages: int
    cpu_ms: float
    tail: float
    held_mb: float | None
    build_cpu_ms: float
    recall: dict[int, float | None]
    source: str


class StageOneLaw(Record):
    """Seconds of one core a query, ``fixed_s + page_s * pages``, for pages of 103 vectors of 128 numbers.

    Attributes
    ----------
    tail : 95th percentile by the median, by the clock, of the largest size
    worst : largest relative difference between the line and a point
    """

    mode: ScaledMode
    fixed_s: float
    page_s: float
    tail: float
    worst: float
    points: tuple[LawPoint, ...]

    def seconds(self, pages: float) -> float:
        """Of one core for one query over so many pages."""
        return self.fixed_s + self.page_s * pages

    @property
    def largest(self) -> int:
        """Pages of the largest size that was measured."""
        return max(point.pages for point in self.points)


def laws(runs: Sequence[Stage1Run]) -> tuple[StageOneLaw, ...]:
    """One law a mode, from engines ``ours exact`` and ``ours fast`` with one thread.

    Relative differences are made small, so that a small collection counts as much as a large one.

    Raises
    ------
    InputError : fewer than three sizes were measured of a mode
    """
    return tuple(_law(mode, _points(mode, runs)) for mode in SCALED_MODES)


def law_costs(found: Sequence[StageOneLaw]) -> dict[str, UnitCost]:
    """Laws as unit costs, as the package ships them for installations without results."""
    costs = {}
    for law in found:
        sizes = ", ".join(f"{point.pages:,}" for point in law.points)
        source = (
            f"line through medians of benchmarks/results/stage1-*.json ({sizes} pages), off by {law.worst:.0%} at most"
        )
        told = {
            "fixed_s": (law.fixed_s, "s of a core a query, whatever the pages"),
            "page_s": (law.page_s, "s of a core a query and page of 103 vectors of 128"),
            "tail": (law.tail, "95th percentile of a query by its median, at the largest size"),
        }
        for name, (value, unit) in told.items():
            costs[f"{law.mode}_{name}"] = UnitCost(
                value=float(f"{value:.3g}"), unit=unit, kind="measured", source=source
            )
    exact = found[0]
    small, large = exact.points[-2], exact.points[-1]
    costs["index_s"] = UnitCost(
        value=float(f"{large.build_cpu_ms / 1e3 / (LAW_VECTORS * LAW_WIDTH / 1e9):.3g}"),
        unit="s of a core a billion numbers in page vectors",
        kind="measured",
        source=f"build of {large.pages:,} pages in {large.source}",
    )
    if small.held_mb is not None and large.held_mb is not None:
        held = (large.held_mb - small.held_mb) * 1e6 / (large.pages - small.pages)
        costs["held_page_bytes"] = UnitCost(
            value=float(f"{held:.3g}"),
            unit="bytes a page that a process with an open index holds beside its files",
            kind="measured",
            source=f"private_mb of mode exact in {small.source} and {large.source}",
        )
    return costs


def core_seconds(costs: UnitCosts, mode: ScaledMode, pages: float, numbers: float) -> float:
    """Of one query by the shipped law; time grows with the ``numbers`` that a page has in the files it reads most.

    >>> from medvrag_core.evaluation.cost.unit_costs import shipped_costs
    >>> costs = shipped_costs()
    >>> a_page = core_seconds(costs, "exact", 2, 103 * 128) - core_seconds(costs, "exact", 1, 103 * 128)
    >>> round(a_page / costs["exact_page_s"].value, 6)
    1.0
    """
    measured = LAW_VECTORS * LAW_WIDTH if mode == "exact" else LAW_CENTROIDS * LAW_WIDTH
    return costs[f"{mode}_fixed_s"].value + costs[f"{mode}_page_s"].value * pages * numbers / measured


def _points(mode: ScaledMode, runs: Sequence[Stage1Run]) -> tuple[LawPoint, ...]:
    points: Mapping[int, LawPoint] = {
        found.pages: LawPoint(
            pages=found.pages,
            cpu_ms=figures.cpu_ms_p50,
            tail=figures.wall_ms_p95 / figures.wall_ms_p50,
            held_mb=figures.private_mb,
            build_cpu_ms=figures.build_cpu_ms_per_page,
            recall=figures.recall,
            source=run.source,
        )
        for run in runs
        for found in run.sizes
        for engine, figures in found.measured
        if engine.name == f"ours {mode}" and engine.threads == 1
    }
    if len(points) < 3:
        raise InputError(
            f"mode {mode}: {len(points)} sizes were measured, a law needs three",
            way_out="run benchmarks/stage1.py for 20,000, 100,000 and 350,000 pages",
        )
    return tuple(points[pages] for pages in sorted(points))


def _law(mode: ScaledMode, points: tuple[LawPoint, ...]) -> StageOneLaw:
    pages, seconds = np.array([(point.pages, point.cpu_ms / 1e3) for point in points]).T
    rows = np.stack([1 / seconds, pages / seconds], axis=1)
    fixed, each = np.linalg.lstsq(rows, np.ones(len(points)), rcond=None)[0]
    off = np.abs((fixed + each * pages) / seconds - 1)
    return StageOneLaw(
        mode=mode,
        fixed_s=float(fixed),
        page_s=float(each),
        tail=points[-1].tail,
        worst=float(off.max()),
        points=points,
    )
