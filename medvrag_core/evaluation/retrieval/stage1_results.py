"""Stage 1 beside its peers at scale, as ``benchmarks/stage1.py`` measured it and the repository keeps it.

Nothing is measured here. The files say which vectors were searched (made ones), on which machine, and in which way.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field, model_validator

from medvrag_core.records import Record

_RECALL = re.compile(r"recall@(\d+)")


class _Told(Record):
    """Part of a result. What else a file tells is passed over, since benchmarks learn to tell more."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=True)


class EngineFigures(_Told):
    """What an engine took and found; milliseconds are of one query, over all queries of all rounds."""

    cpu_ms_p50: float = Field(description="CPU time of the process, all its threads together")
    wall_ms_p50: float
    wall_ms_p95: float
    recall: dict[int, float | None] = Field(
        description="of the best n of exact search of its kind; null: too few found"
    )
    bytes_per_page: float
    build_cpu_ms_per_page: float
    private_mb: float | None = Field(None, description="memory of the process that maps no file, at the end")
    floor_ms: float = Field(
        description="reading what a search must read, at the bandwidth measured in the same run; 0: cannot be told"
    )
    device: str = Field("cpu", description="that searched")
    load: tuple[float, ...] = Field((), description="processes that wanted a core when each round began")

    @model_validator(mode="before")
    @classmethod
    def _recalls_together(cls, told: Any) -> Any:
        """``recall@10`` and its kind become one mapping."""
        if not isinstance(told, Mapping) or "recall" in told:
            return told
        recall = {found[1]: value for name, value in told.items() if (found := _RECALL.fullmatch(name))}
        return {**told, "recall": recall} if recall else told

    @property
    def of_floor(self) -> float | None:
        """Median time by the clock, by the floor; None where there is none."""
        return self.wall_ms_p50 / self.floor_ms if self.floor_ms else None


class Engine(_Told):
    """One engine with a number of threads; ``figures`` are missing where it did not run, ``reason`` says why."""

    name: str
    version: str = ""
    ways: Literal[1, 2]
    compared_with: str
    threads: int
    status: str
    reason: str = ""
    figures: EngineFigures | None = None

    @model_validator(mode="before")
    @classmethod
    def _figures_apart(cls, told: Any) -> Any:
        if isinstance(told, Mapping) and told.get("status") == "ok" and "figures" not in told:
            return {**told, "figures": dict(told)}
        return told


class Difficulty(_Told):
    """How hard the made queries are for exact search."""

    target_first: float = Field(description="queries whose page ranks first")
    target_among_100: float
    two_way_top_100_in_one_way: float | None = Field(
        None, description="share of the best 100 both ways among the best 100 one way"
    )


class Collection(_Told):
    """All engines on the same pages and queries."""

    pages: int
    rows: int
    queries: int
    query_rows: float
    difficulty: Difficulty
    read_bytes_per_s: dict[int, float] = Field(description="bandwidth of memory by threads")
    beside: str = Field(description="the engine that ratios are to")
    engines: tuple[Engine, ...]

    @property
    def measured(self) -> tuple[tuple[Engine, EngineFigures], ...]:
        """Engines that ran, with their figures."""
        return tuple((engine, engine.figures) for engine in self.engines if engine.figures is not None)

    @property
    def on_fewest_threads(self) -> tuple[tuple[Engine, EngineFigures], ...]:
        """Engines that ran, each with the fewest threads it ran with; CPU time is least disturbed there."""
        fewest: dict[str, int] = {}
        for engine, _ in self.measured:
            fewest[engine.name] = min(fewest.get(engine.name, engine.threads), engine.threads)
        return tuple(both for both in self.measured if both[0].threads == fewest[both[0].name])

    @property
    def not_measured(self) -> tuple[Engine, ...]:
        """Engines that did not run."""
        return tuple(engine for engine in self.engines if engine.figures is None)

    @property
    def load(self) -> tuple[float, float] | None:
        """Least and most processes that wanted a core when an engine began; None where no file tells."""
        every = [load for _, figures in self.measured for load in figures.load]
        return (min(every), max(every)) if every else None

    def ratio(self, engine: Engine) -> float | None:
        """CPU time of an engine by that of ``beside`` with as many threads; None where one of them did not run."""
        base = {e.threads: f.cpu_ms_p50 for e, f in self.measured if e.name == self.beside}.get(engine.threads)
        return engine.figures.cpu_ms_p50 / base if engine.figures and base else None


class Machine(_Told):
    """What was measured on."""

    cpu: str
    flags: tuple[str, ...] = ()
    cores: int | None = None
    memory_gb: float | None = None
    python: str = ""
    load: float | None = Field(None, description="processes that wanted a core when the run began")


class Generator(_Told):
    """What page vectors were mixed from, see ``benchmarks/page_vectors.py``."""

    seed: int
    dim: int
    topics: int
    concepts: int = Field(description="of one topic")
    background_share: float = Field(description="of regions that look alike on all pages")
    short_share: float = Field(description="of pages with under 12 vectors")
    query_words: float = Field(description="share of query vectors that any question has")


class Stage1Run(_Told):
    """One file of results."""

    source: str = Field("", description="name of the file")
    command: tuple[str, ...] = Field(description="arguments of the benchmark, folders left out")
    machine: Machine
    generator: Generator
    sizes: tuple[Collection, ...]
    kernel: Collection | None = Field(None, description="scoring alone")

    @property
    def on_gpu(self) -> tuple[str, ...]:
        """Engines that searched on a GPU."""
        every = (*self.sizes, *([self.kernel] if self.kernel else ()))
        return tuple(
            dict.fromkeys(engine.name for found in every for engine, told in found.measured if told.device != "cpu")
        )


def read_stage1_runs(folder: Path) -> tuple[Stage1Run, ...]:
    """Results ``stage1*.json`` of a folder in order of their names; empty where there are none.

    Raises
    ------
    InputError : a file is not what the benchmark writes; names the file and the field
    """
    return tuple(read_stage1_run(path) for path in sorted(folder.glob("stage1*.json")))


def read_stage1_run(path: Path) -> Stage1Run:
    """One file; errors as :func:`read_stage1_runs`."""
    return Stage1Run.from_json(path.read_bytes(), source=str(path)).model_copy(update={"source": path.name})
