"""One engine of ``stage1.py`` in a process of its own: makes or opens it, searches, writes what it saw.

Started by ``stage1.py`` as ``python stage1_worker.py TASK.json``, with the numbers of threads in the environment. Needs
numpy, and whatever the engine needs.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from stage1_engines import Engine, emptied

WARM_UP_S = 5.0
"""Queries are asked once before they are timed, until so many seconds are over; the last one always."""
_PROBE, _TRIES = 64 * 1024 * 1024, 20


@dataclass(frozen=True)
class Task:
    """What a process has to do.

    Attributes
    ----------
    module, engine : where its class is
    data : folder with rows.f16, offsets.npy and queries.npz
    folder : of the engine
    threads, k : as in :class:`~stage1_engines.Engine`
    search_s : no further query is begun after so many seconds
    out : the file to write, with found.npy beside it
    """

    module: str
    engine: str
    data: str
    folder: str
    threads: int
    k: int
    search_s: float
    out: str


@dataclass(frozen=True)
class Seen:
    """What a process saw.

    Attributes
    ----------
    build_cpu_s, build_wall_s : of the build; of all modes in the same folder up to this one
    open_wall_s : None where this process built
    cpu_ms, wall_ms : of each query that was searched, warm-up left out
    index_bytes, moved_bytes : what the engine keeps; what a search must read, mean over queries
    peak_mb, private_mb : most memory of the process; of that, what maps no file, at the end
    bandwidth : bytes a second that the threads read in this process
    device : that searched
    settings : numbers that were chosen for the engine
    """

    build_cpu_s: float
    build_wall_s: float
    open_wall_s: float | None
    cpu_ms: list[float]
    wall_ms: list[float]
    index_bytes: int
    moved_bytes: float
    peak_mb: float
    private_mb: float
    bandwidth: float
    device: str
    settings: dict[str, float]


def main() -> None:
    task = Task(**json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    found, seen = work(task)
    out = Path(task.out)
    np.save(out.with_name("found.npy"), found)
    out.write_text(json.dumps(asdict(seen)), encoding="utf-8")


def work(task: Task) -> tuple[np.ndarray[Any, np.dtype[np.int64]], Seen]:
    """Build or open, search; pages found are of shape (queries, k), -1 where there is none."""
    data, folder = Path(task.data), Path(task.folder)
    offsets = np.load(data / "offsets.npy")
    rows = np.memmap(data / "rows.f16", dtype=np.float16, mode="r").reshape(int(offsets[-1]), -1)
    with np.load(data / "queries.npz") as kept:
        ends = np.cumsum(kept["sizes"])
        queries = np.split(kept["rows"], ends[:-1])
    kind: type[Engine] = getattr(importlib.import_module(task.module), task.engine)
    built = folder / f"built-{task.engine}.json"
    opened = None
    if not kind.kept:
        emptied(folder)
    engine = kind(folder, task.threads)
    wall, cpu = time.perf_counter(), time.process_time()
    if kind.kept and built.is_file():
        engine.open(rows, offsets)
        opened = time.perf_counter() - wall
    else:
        before = sum(json.loads(path.read_text(encoding="utf-8"))["cpu_s"] for path in folder.glob("built-*.json"))
        engine.build(rows, offsets)
        spent = {"cpu_s": time.process_time() - cpu, "wall_s": time.perf_counter() - wall, "before_s": before}
        built.write_text(json.dumps(spent), encoding="utf-8")
    told = json.loads(built.read_text(encoding="utf-8"))
    k = min(task.k, kind.depth or task.k, len(offsets) - 1)
    begun = time.perf_counter()
    for query in reversed(queries):
        engine.search(query, k)
        if time.perf_counter() - begun > WARM_UP_S:
            break
    found = np.full((len(queries), k), -1, dtype=np.int64)
    cpu_ms: list[float] = []
    wall_ms: list[float] = []
    begun = time.perf_counter()
    for number, query in enumerate(queries):
        if number and time.perf_counter() - begun > task.search_s:
            break
        wall, cpu = time.perf_counter(), time.process_time()
        pages = engine.search(query, k)
        cpu_ms.append((time.process_time() - cpu) * 1e3)
        wall_ms.append((time.perf_counter() - wall) * 1e3)
        found[number, : len(pages)] = pages
    seen = Seen(
        build_cpu_s=told["cpu_s"] + told["before_s"],
        build_wall_s=told["wall_s"],
        open_wall_s=opened,
        cpu_ms=cpu_ms,
        wall_ms=wall_ms,
        index_bytes=engine.bytes,
        moved_bytes=float(np.mean([engine.must_read(len(query)) for query in queries])),
        peak_mb=status_mb("VmHWM"),
        private_mb=status_mb("RssAnon"),
        bandwidth=read_bandwidth(task.threads),
        device=engine.device,
        settings=engine.settings,
    )
    return found, seen


def status_mb(name: str) -> float:
    """A line of Linux's account of this process, in MB; nan elsewhere."""
    status = Path("/proc/self/status")
    lines = status.read_text(encoding="ascii").splitlines() if status.is_file() else []
    return next((int(line.split()[1]) / 1e3 for line in lines if line.startswith(name + ":")), float("nan"))


def read_bandwidth(threads: int) -> float:
    """Bytes a second that ``threads`` threads read from memory, the best of 20 tries.

    Each adds up 256 MB of float32 by a product with itself, which costs less time than the reading: more than the
    caches hold, and little enough that now and then no other process comes between.
    """
    parts = [np.ones(_PROBE, dtype=np.float32) for _ in range(threads)]
    fastest = float("inf")
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(_TRIES):
            begun = time.perf_counter()
            list(pool.map(lambda part: np.dot(part, part), parts))
            fastest = min(fastest, time.perf_counter() - begun)
    return threads * parts[0].nbytes / fastest


if __name__ == "__main__":
    main()
