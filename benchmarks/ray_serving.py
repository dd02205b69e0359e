"""Queries a second of an index in Ray actors, by replicas and by parts, beside this process; and the simulation's word.

    python benchmarks/ray_serving.py --work work --pages 20000 --json benchmarks/results/ray_serving.json

``plain`` is the index in this process. ``1 x 2`` is one part with two replicas, ``2 x 1`` two parts with one each; an
actor has one core. All must find the same pages, or nothing is told. ``most`` has as many queries under way as keep all
actors busy (a fixed number of threads). Under ``arrivals`` queries come at random to one part with one replica, at half
and at four fifths of what it did at most; beside what they waited stands what ``evaluation/scale/scatter.py`` makes of
the median and the tail of that actor alone, as chapter 11 does for sizes that nobody measured.
"""

from __future__ import annotations

import argparse
import json
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from page_vectors import PageMaker
from stage1_data import collect
from stage1_machine import facts, load

from medvrag_core.cluster.index_servers import IndexServers
from medvrag_core.cluster.session import join
from medvrag_core.encoders.vectors import VectorStore
from medvrag_core.evaluation.scale.scatter import Fleet, simulate
from medvrag_core.index.base import PageIndex
from medvrag_core.index.build import open_index, usable_manifest, write_index
from medvrag_core.index.parts import DividedIndex, divided
from medvrag_core.settings import IndexSettings, RaySettings

K = 100
LAYOUTS = ((1, 1), (1, 2), (2, 1))
"""Parts, and replicas of each."""
AT_ONCE = 4
LOADS = (0.5, 0.8)
Query = Any


def main() -> None:
    """Measure, print, and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder for the collection")
    parser.add_argument("--pages", type=int, default=20_000)
    parser.add_argument("--queries", type=int, default=400, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3, help="sides take turns; medians are told")
    parser.add_argument("--mode", choices=("exact", "fast"), default="exact")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    made = collect(given.work, PageMaker(0), given.pages, 40)
    store, folder = VectorStore.open(made.store), made.home / f"index-{given.mode}"
    settings = IndexSettings(mode=given.mode, threads=1)
    write_index(store, settings, folder, near_duplicate=2.0, progress=False)
    join(RaySettings(where="local"), 2)
    asked = [made.queries[number % len(made.queries)] for number in range(given.queries)]
    rounds = [one_round(store, settings, folder, asked, seed) for seed in range(given.rounds)]
    told = {
        "command": f"benchmarks/ray_serving.py --pages {given.pages} --queries {given.queries} "
        f"--rounds {given.rounds} --mode {given.mode}",
        "machine": facts(),
        "rounds": rounds,
        "summary": summary(rounds),
        "load_after": load(),
    }
    text = json.dumps(told, indent=1) + "\n"
    print(text)
    if given.json:
        given.json.write_text(text, encoding="utf-8")


def one_round(
    store: VectorStore, settings: IndexSettings, folder: Path, asked: Sequence[Query], seed: int
) -> dict[str, Any]:
    """Every side once, and queries at random to the smallest of them."""
    whole = open_index(store, settings, folder)
    hits = [whole.search(query, K).hits for query in asked[:40]]
    sides: dict[str, Any] = {}
    two = settings.model_copy(update={"threads": 2})
    for name, side in (("plain, 1 thread", settings), ("plain, 2 threads", two)):
        sides[name] = measured(open_index(store, side, folder), asked, hits, at_once=1)
    arrivals: list[dict[str, float]] = []
    for parts, replicas in LAYOUTS:
        pieces = divided(store, folder, usable_manifest(store, folder), settings, parts)
        servers = IndexServers(pieces, RaySettings(where="local", replicas=replicas))
        index = DividedIndex(store, pieces, servers.ask, elsewhere=True)
        sides[f"{len(pieces)} x {replicas}"] = found = measured(index, asked, hits, at_once=AT_ONCE)
        if (parts, replicas) == (1, 1):
            arrivals = [at_random(index, asked, found, share, seed) for share in LOADS]
        servers.close()
    return {"sides": sides, "arrivals": arrivals}


def measured(index: PageIndex, asked: Sequence[Query], hits: Sequence[Any], *, at_once: int) -> dict[str, float]:
    """Queries a second with some under way at one time, and seconds of one alone."""
    assert [index.search(query, K).hits for query in asked[: len(hits)]] == hits, "another side finds other pages"
    alone = [took(lambda query=query: index.search(query, K)) for query in asked[:100]]  # type: ignore[misc]
    with ThreadPoolExecutor(at_once) as pool:
        spent = took(lambda: list(pool.map(lambda query: index.search(query, K), asked)))
    return {
        "most_per_s": round(len(asked) / spent, 2),
        "alone_p50_s": float(np.median(alone)),
        "alone_p95_s": float(np.quantile(alone, 0.95)),
    }


def at_random(
    index: PageIndex, asked: Sequence[Query], found: dict[str, float], share: float, seed: int
) -> dict[str, float]:
    """Queries that come at random to one part with one replica, and what the simulation says of them."""
    rate = share / found["alone_p50_s"]
    pauses = np.random.default_rng(seed).exponential(1 / rate, len(asked))
    waits: list[float] = []
    lock = threading.Lock()

    def one(query: Query, due: float) -> None:
        index.search(query, K)
        with lock:
            waits.append(time.perf_counter() - due)

    due = time.perf_counter() + 0.1
    with ThreadPoolExecutor(64) as pool:
        for query, pause in zip(asked, pauses, strict=True):
            due += pause
            time.sleep(max(0.0, due - time.perf_counter()))
            pool.submit(one, query, due)
    counted = waits[len(waits) // 10 :]
    fleet = Fleet(parts=1, median_s=found["alone_p50_s"], tail=max(1.0, found["alone_p95_s"] / found["alone_p50_s"]))
    told = simulate(fleet, rate)
    return {
        "share": share,
        "queries_per_s": round(rate, 2),
        "waited_p50_s": float(np.median(counted)),
        "waited_p95_s": float(np.quantile(counted, 0.95)),
        "simulated_p50_s": told.p50_s,
        "simulated_p95_s": told.p95_s,
    }


def took(work: Callable[[], Any]) -> float:
    """Seconds."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def summary(rounds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Medians over rounds, and ratios of them."""
    names = list(rounds[0]["sides"])
    most = {name: statistics.median(one["sides"][name]["most_per_s"] for one in rounds) for name in names}
    alone = {name: statistics.median(one["sides"][name]["alone_p50_s"] for one in rounds) for name in names}
    return {
        "most_per_s": most,
        "alone_p50_s": alone,
        "second replica (ideal: 2)": round(most["1 x 2"] / most["1 x 1"], 2),
        "two parts, one query alone (ideal: 2)": round(alone["1 x 1"] / alone["2 x 1"], 2),
        "an actor by this process, one query alone": round(alone["1 x 1"] / alone["plain, 1 thread"], 2),
        "waited by simulated": {
            f"load {share:.0%}": {
                which: round(
                    statistics.median(
                        one["arrivals"][place][f"waited_{which}_s"] / one["arrivals"][place][f"simulated_{which}_s"]
                        for one in rounds
                    ),
                    2,
                )
                for which in ("p50", "p95")
            }
            for place, share in enumerate(LOADS)
        },
    }


if __name__ == "__main__":
    main()
