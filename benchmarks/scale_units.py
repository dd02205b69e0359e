"""Measures what `medvrag plan` and chapter 11 need beyond one machine: cold reads of a disk, and a call of a Ray actor.

    python benchmarks/scale_units.py --folder work --json benchmarks/results/scale_units.json
    python benchmarks/scale_units.py … --write     # puts them, and the laws of stage 1, into unit_costs.yaml

Reads are those of a search whose codes lie on the disk: blocks of one page's codes at random places of a file, and the
whole file from front to end, each after the system was told to forget the file. A file that a hypervisor still has in
its memory reads faster than the disk is; the result tells what was seen, here.

The laws of stage 1 are straight lines through the medians of `stage1-*.json`, see ``evaluation/scale/laws.py``.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from stage1_machine import facts, load
from unit_costs import HEADER

from medvrag_core.evaluation.cost.unit_costs import UnitCost, shipped_costs, shipped_file
from medvrag_core.evaluation.retrieval.stage1_results import read_stage1_runs
from medvrag_core.evaluation.scale.laws import law_costs, laws

RESULTS = Path(__file__).parent / "results"
BLOCK = 103 * 128
"""Bytes of the codes of a page of the paper."""
QUERY, HITS = (20, 128), 256


def main() -> None:
    """Measure, print, and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="on the disk that is measured")
    parser.add_argument("--megabytes", type=int, default=4_000, help="of the file that is read")
    parser.add_argument("--reads", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--again", action="store_true", help="measure nothing, take what --json names")
    given = parser.parse_args()
    if given.again:
        write(json.loads(given.json.read_text(encoding="utf-8")))
        return
    found: dict[str, Any] = {
        "command": f"benchmarks/scale_units.py --megabytes {given.megabytes} --reads {given.reads} "
        f"--rounds {given.rounds}",
        "machine": facts(),
        "disk": disk(given.folder, given.megabytes, given.reads, given.rounds),
        "hop": hop(given.reads),
        "load_after": load(),
    }
    text = json.dumps(found, indent=1) + "\n"
    print(text)
    if given.json:
        given.json.write_text(text, encoding="utf-8")
    if given.write:
        write(found)


def disk(folder: Path, megabytes: int, reads: int, rounds: int) -> dict[str, Any]:
    """Medians over rounds: bytes a second in order, seconds a block at random one by one and 16 at once."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "cold.bin"
    noise = np.random.default_rng(0).integers(0, 256, size=1_000_000, dtype=np.uint8).tobytes()
    with path.open("wb") as handle:
        for _ in range(megabytes):
            handle.write(noise)
        os.fsync(handle.fileno())
    try:
        blocks = megabytes * 1_000_000 // BLOCK
        told: dict[str, list[float]] = {"bytes_per_s": [], "block_s": [], "block_s_16_at_once": []}
        for turn in range(rounds):
            places = random.Random(turn).sample(range(blocks), 2 * reads)
            told["bytes_per_s"].append(in_order(path))
            told["block_s"].append(at_random(path, places[:reads], 1))
            told["block_s_16_at_once"].append(at_random(path, places[reads:], 16))
        return {"block_bytes": BLOCK, **{name: statistics.median(values) for name, values in told.items()}}
    finally:
        path.unlink()


def in_order(path: Path) -> float:
    handle = forgotten(path)
    begun = time.perf_counter()
    size = 0
    while piece := os.read(handle, 8_000_000):
        size += len(piece)
    spent = time.perf_counter() - begun
    os.close(handle)
    return size / spent


def at_random(path: Path, places: list[int], at_once: int) -> float:
    handle = forgotten(path)
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_RANDOM)
    with ThreadPoolExecutor(at_once) as pool:
        begun = time.perf_counter()
        sizes = list(pool.map(lambda place: len(os.pread(handle, BLOCK, place * BLOCK)), places))
        spent = time.perf_counter() - begun
    os.close(handle)
    assert sizes == [BLOCK] * len(places)
    return spent / len(places)


def forgotten(path: Path) -> int:
    """A handle of a file of which the system keeps nothing in memory."""
    handle = os.open(path, os.O_RDONLY)
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    return handle


def hop(calls: int) -> dict[str, float]:
    """Seconds of a call to an actor on this machine: a query there, scores of the best pages back."""
    from medvrag_core.cluster.session import join
    from medvrag_core.settings import RaySettings

    join(RaySettings(where="local"), 2)
    import ray

    class Echo:
        def reply(self, query: Any) -> Any:
            return np.zeros(HITS, dtype=np.float32)

    actor: Any = ray.remote(Echo).remote()
    query = np.zeros(QUERY, dtype=np.float32)
    ray.get(actor.reply.remote(query))
    took = []
    for _ in range(calls):
        begun = time.perf_counter()
        ray.get(actor.reply.remote(query))
        took.append(time.perf_counter() - begun)
    ray.shutdown()
    return {"p50_s": statistics.median(took), "p95_s": float(np.quantile(took, 0.95))}


def write(found: dict[str, Any]) -> None:
    """Put the values among the shipped unit costs."""
    source = f"{found['command']}, {found['machine']['cpu']}, {found['machine']['cores']} cores, a virtual disk"
    values = {
        "disk_bytes_per_s": (found["disk"]["bytes_per_s"], "bytes a second, cold, in order"),
        "disk_page_s": (found["disk"]["block_s"], "s to read the codes of one page, cold, at a random place"),
        "disk_page_16_s": (found["disk"]["block_s_16_at_once"], "s a page where 16 such reads are under way at once"),
        "hop_s": (found["hop"]["p50_s"], "s of a call to a Ray actor and back, on one machine"),
    }
    costs = {
        name: UnitCost(value=float(f"{value:.3g}"), unit=unit, kind="measured", source=source)
        for name, (value, unit) in values.items()
    }
    seen = json.loads((RESULTS / "corpus_memory.json").read_text(encoding="utf-8"))
    for name, measured, what in (
        ("ledger_page_bytes", "build", "that builds a corpus"),
        ("corpus_page_bytes", "ids", "that looks up pages and summaries by id"),
        ("manifest_page_bytes", "manifest", "that opens the manifest of page vectors"),
    ):
        costs[name] = UnitCost(
            value=float(seen["bytes_a_page"][measured]),
            unit=f"bytes a page in a process {what}",
            kind="measured",
            source=seen["command"],
        )
    merged = shipped_costs() | costs | law_costs(laws(read_stage1_runs(RESULTS)))
    text = yaml.safe_dump({name: cost.model_dump() for name, cost in merged.items()}, sort_keys=False, width=118)
    shipped_file().write_text(HEADER + text, encoding="utf-8")


if __name__ == "__main__":
    main()
