"""From what the processes of ``stage1.py`` saw to figures, and from figures to a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from stage1_data import PLACES, Collection
from stage1_worker import Seen


@dataclass(frozen=True)
class Round:
    """One process: what it saw, the pages that it found, and the load of the machine when it began."""

    seen: Seen
    found: NDArray[np.int64]
    load: float


def figures(rounds: Sequence[Round], collection: Collection, ways: int, bandwidth: float) -> dict[str, Any]:
    """All that is told of an engine with a number of threads; milliseconds are over all queries of all rounds."""
    cpu, wall = (np.concatenate([getattr(one.seen, name) for one in rounds]) for name in ("cpu_ms", "wall_ms"))
    last = max(rounds, key=lambda one: len(one.seen.cpu_ms))
    found = last.found[: len(last.seen.cpu_ms)]
    opened = [one.seen.open_wall_s for one in rounds if one.seen.open_wall_s is not None]
    # 0: it cannot be told. The memory of a GPU was not measured.
    floor = last.seen.moved_bytes / bandwidth * 1e3 if last.seen.device == "cpu" else 0
    return {
        "status": "ok",
        "rounds": len(rounds),
        "device": last.seen.device,
        "settings": last.seen.settings,
        "queries": len(found),
        "cpu_ms_p50": _rounded(np.median(cpu)),
        "cpu_ms_min": _rounded(cpu.min()),
        "wall_ms_p50": _rounded(np.median(wall)),
        "wall_ms_p95": _rounded(np.percentile(wall, 95)),
        "wall_ms_min": _rounded(wall.min()),
        **{f"recall@{at}": collection.recall(found, ways, at) for at in PLACES},
        "bytes_per_page": _rounded(last.seen.index_bytes / collection.pages),
        "build_cpu_ms_per_page": _rounded(min(one.seen.build_cpu_s for one in rounds) * 1e3 / collection.pages),
        "build_wall_ms_per_page": _rounded(min(one.seen.build_wall_s for one in rounds) * 1e3 / collection.pages),
        "open_s": _rounded(min(opened)) if opened else None,
        "peak_mb": round(max(one.seen.peak_mb for one in rounds)),
        "private_mb": round(max(one.seen.private_mb for one in rounds)),
        "moved_bytes": round(last.seen.moved_bytes),
        "floor_ms": _rounded(floor),
        "load": [one.load for one in rounds],
    }


def table(engines: Sequence[Mapping[str, Any]], beside: str) -> str:
    """A line for each engine and number of threads; ratios of CPU time are to ``beside`` at as many threads."""
    bases = {row["threads"]: row["cpu_ms_p50"] for row in engines if row["status"] == "ok" and row["name"] == beside}
    lines = [
        f"{'engine':18s}{'ways':>5s}{'thr':>4s}{'CPU ms':>9s}{'ratio':>7s}{'p50 ms':>9s}{'p95 ms':>9s}{'floor':>8s}"
        f"{'x floor':>8s}{'r@10':>7s}{'r@100':>7s}{'r@2000':>7s}{'B/page':>9s}{'build':>8s}{'MB':>7s}"
    ]
    for row in engines:
        if row["status"] != "ok":
            lines.append(f"{row['name']:18s}{row['ways']:5d}{row['threads']:4d}  {row['status']}: {row['reason']}")
            continue
        base = bases.get(row["threads"])
        recalls = "".join(_share(row[f"recall@{at}"]) for at in PLACES)
        lines.append(
            f"{row['name']:18s}{row['ways']:5d}{row['threads']:4d}{row['cpu_ms_p50']:9.1f}"
            + (f"{row['cpu_ms_p50'] / base:7.1f}" if base else f"{'-':>7s}")
            + f"{row['wall_ms_p50']:9.1f}{row['wall_ms_p95']:9.1f}"
            + (f"{floor:8.2f}{row['wall_ms_p50'] / floor:8.1f}" if (floor := row["floor_ms"]) else f"{'-':>8s}" * 2)
            + f"{recalls}{row['bytes_per_page']:9.0f}"
            f"{row['build_cpu_ms_per_page']:8.2f}{row['peak_mb']:7d}"
        )
    lines.append(
        f"ratio: CPU time beside '{beside}'; build: CPU ms a page; one-way engines: recall of exact one-way search"
    )
    return "\n".join(lines)


def _share(recall: float | None) -> str:
    return f"{'-':>7s}" if recall is None else f"{recall:7.3f}"


def _rounded(value: Any) -> float:
    """Four figures."""
    return float(f"{float(value):.4g}")
