"""Stage 1 beside its peers: every engine on the same made page vectors, against exact search in float32.

    python benchmarks/stage1.py --pages 5000 20000 --queries 40 --peers light --kernel --json stage1.json

Peers are no dependency of this project. Give them an environment of their own, and name its Python:

    python -m venv peers && peers/bin/pip install -r benchmarks/requirements-peers.txt
    python benchmarks/stage1.py … --peers all --python peers/bin/python

fast-plaid and xtr-warp-rs pin an older torch; ``requirements-peers-plaid.txt`` is for a second environment, the Python
of which is named after the first. ``--peers light`` leaves out what needs torch. A peer that is asked for and missing
stands in the result as "not installed", one that would take too much memory or time as "skipped", each with the reason.

Each engine runs in a process of its own, started anew for each round and number of threads, with the thread pools of
its libraries pinned; it reads the vectors by memory map. A round goes over all engines and begins with another one than
the last, so that other work on the machine meets all alike. Every query is asked once before it is timed, for five
seconds at most: kernels are compiled and files are in memory, as in a server that has been up for a while. CPU
milliseconds count all threads of the process; other work moves them little, so compare these. Times by the clock are
those of the machine as it was; its load stands beside.

- ``recall@n``: share of the best n pages of exact search among the first n found; pages that tie with the last count.
  Engines that score one way are compared with exact one-way search, and two-way with two-way.
- ``floor_ms``: bytes that a search cannot do without, by the read bandwidth that as many threads reached in this run; 0
  where it cannot be told.
- ``build_cpu_ms_per_page``: with reading the vectors; a mode of ours tells what the whole index up to it took.
- "ours fast, tuned" has an R, and maybe fewer pages scored anew, chosen on queries of its own for recall 0.99 of the
  best ``-k``; they are told.
- ``bytes_per_page``: what the engine keeps. Ours reads the vectors of a few pages from the store besides; the paper's
  design in FAISS has no codes, so the float16 vectors count as its own.

``--kernel`` compares scoring alone: 2,000 pages, queries of 20 rows, one thread.
``--work DIR`` keeps vectors and indexes, so that the next run goes on from there; it takes some three times the size of
the float16 vectors, more with peers that keep files. ``--set shortlist=8000 rescore=512`` changes settings of ours.

Where torch finds a GPU, "ours exact" searches there (``device`` tells), unless ``--set device=cpu`` keeps it off. So
this is also the command for a GPU node, on which it has not run yet:

    python benchmarks/stage1.py --pages 20000 100000 350000 --threads 1 16 --peers all --json gpu.json
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from page_vectors import DIM, PageMaker
from stage1_data import Collection, collect
from stage1_engines import ENGINES, ColbanditFull, Engine, MaxsimCpu, Numkong, Numpy, NumpyBlocks, Torch
from stage1_machine import facts, load, memory_gb, pinned, versions
from stage1_ours import OURS, Ours, OursKernel, write_ours
from stage1_paper import PaperInFaiss
from stage1_stores import STORES
from stage1_table import Round, figures, table
from stage1_worker import Seen, Task

KERNEL_PAGES, KERNEL_ROWS = 2_000, 20
KERNELS: tuple[type[Engine], ...] = (OursKernel, Numpy, Torch, MaxsimCpu, ColbanditFull, Numkong)
_GRACE_S = 60


@dataclass(frozen=True)
class Plan:
    """How a collection is searched.

    Attributes
    ----------
    kinds, threads : every engine with every number of threads
    pythons : interpreters that engines are looked for in, that of this process first
    rounds, k : processes of each; pages asked for
    limit_s : longest build, and longest search of all queries in one round
    memory_gb : most that an engine may need
    changed : settings of ours
    """

    kinds: Sequence[type[Engine]]
    threads: Sequence[int]
    pythons: Sequence[str]
    rounds: int
    k: int
    limit_s: float
    memory_gb: float
    changed: dict[str, Any]


@dataclass
class Bench:
    """Runs a plan on collections of growing size; what an engine took on one tells whether it can do the next."""

    plan: Plan
    homes: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, tuple[int, float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = sorted({kind.package for kind in self.plan.kinds if kind.package and not issubclass(kind, Ours)})
        for python in self.plan.pythons:
            for name, version in versions(python, names).items():
                self.homes.setdefault(name, python)
                self.versions.setdefault(name, version)

    def measure(self, collection: Collection) -> tuple[dict[int, float], list[dict[str, Any]]]:
        """Bytes a second that memory is read at, and figures of each engine, or why there are none, by threads."""
        keys = [(kind, count) for kind in self.plan.kinds for count in self.plan.threads]
        reasons = {key: reason for key in keys if (reason := self._reason(key[0], collection))}
        rounds: dict[tuple[type[Engine], int], list[Round]] = {key: [] for key in keys}
        for number in range(self.plan.rounds):
            # Each round begins with another engine.
            turn = number * len(keys) // self.plan.rounds
            for key in [*keys[turn:], *keys[:turn]]:
                if key in reasons:
                    continue
                done = self._round(*key, collection)
                if isinstance(done, Round):
                    rounds[key].append(done)
                else:
                    reasons[key] = done
        bandwidth = self._bandwidth(rounds)
        return bandwidth, [self._told(*key, rounds[key], reasons.get(key), collection, bandwidth) for key in keys]

    def _told(
        self,
        kind: type[Engine],
        threads: int,
        rounds: Sequence[Round],
        reason: tuple[str, str] | None,
        collection: Collection,
        bandwidth: dict[int, float],
    ) -> dict[str, Any]:
        about = {
            "name": kind.name,
            "package": kind.package,
            "version": self.versions.get(kind.package, ""),
            "ways": kind.ways,
            "compared_with": "exact two-way" if kind.ways == 2 else "exact one-way",
            "threads": threads,
        }
        if reason is not None:
            return {**about, "status": reason[0], "reason": reason[1]}
        return {**about, **figures(rounds, collection, kind.ways, bandwidth[threads])}

    def _bandwidth(self, rounds: dict[tuple[type[Engine], int], list[Round]]) -> dict[int, float]:
        """Bytes a second by number of threads, the most that any process with as many or fewer reached."""
        return {
            most: max((one.seen.bandwidth for key in rounds if key[1] <= most for one in rounds[key]), default=0.0)
            for most in self.plan.threads
        }

    def _reason(self, kind: type[Engine], collection: Collection) -> tuple[str, str] | None:
        """Why an engine is not tried."""
        if kind.package and not issubclass(kind, Ours) and kind.package not in self.homes:
            return "not installed", f"no Python that was named has {kind.package}"
        needed = kind.memory_factor * (collection.home / "rows.f16").stat().st_size / 1e9
        if needed > self.plan.memory_gb:
            return "skipped", f"needs about {needed:.1f} GB of memory, {self.plan.memory_gb:.1f} GB may be used"
        if kind.name in self.seconds and not issubclass(kind, Ours):
            pages, build, search = self.seconds[kind.name]
            for what, spent in (("build", build), ("a search", search)):
                foretold = spent * collection.pages / pages
                if foretold > self.plan.limit_s:
                    return "skipped", f"{what} would take {foretold:.0f} s by the {pages} pages before"
        return None

    def _round(self, kind: type[Engine], threads: int, collection: Collection) -> Round | tuple[str, str]:
        """One process, or why it came to nothing."""
        folder = collection.home / ("ours" if issubclass(kind, Ours) else kind.__name__)
        folder.mkdir(exist_ok=True)
        if issubclass(kind, Ours):
            write_ours(folder, collection.store, self.plan.changed, seed=collection.seed, k=self.plan.k)
        task = Task(
            module=kind.__module__,
            engine=kind.__name__,
            data=str(collection.home),
            folder=str(folder),
            threads=threads,
            k=self.plan.k,
            search_s=self.plan.limit_s,
            out=str(collection.home / "seen.json"),
        )
        (collection.home / "task.json").write_text(json.dumps(asdict(task)), encoding="utf-8")
        begun = load()
        command = [self.homes.get(kind.package, sys.executable), str(Path(__file__).with_name("stage1_worker.py"))]
        try:
            subprocess.run(
                [*command, str(collection.home / "task.json")],
                env=pinned(threads),
                timeout=2 * self.plan.limit_s + _GRACE_S,
                capture_output=True,
                text=True,
                check=True,
            )
        except subprocess.TimeoutExpired as error:
            return "skipped", f"not done after {error.timeout:.0f} s"
        except subprocess.CalledProcessError as error:
            last = ["", *error.stderr.strip().splitlines()][-1].replace(str(collection.home), collection.home.name)
            return "failed", f"{last[:300]} (exit code {error.returncode})"
        seen = Seen(**json.loads((collection.home / "seen.json").read_text(encoding="utf-8")))
        self.seconds[kind.name] = collection.pages, seen.build_wall_s, float(np.median(seen.wall_ms)) / 1e3
        return Round(seen, np.load(collection.home / "found.npy"), begun)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, nargs="*", default=[], help="sizes of collections, 20000 100000 350000")
    parser.add_argument("--kernel", action="store_true", help=f"scoring alone, {KERNEL_PAGES} pages")
    parser.add_argument("--queries", type=int, default=40)
    parser.add_argument("--peers", choices=("all", "light", "none"), default="light")
    parser.add_argument("--engines", nargs="+", default=[""], help="only those with one of these words in their name")
    parser.add_argument("--python", nargs="+", default=[], help="further interpreters, in which peers are installed")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("-k", type=int, default=2_000, help="pages asked for; the filter takes 2,000")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit-s", type=float, default=600, help="longest build, and longest search in a round")
    parser.add_argument("--memory-gb", type=float, default=round(0.7 * memory_gb("MemAvailable"), 1))
    parser.add_argument("--set", nargs="+", default=[], metavar="FIELD=VALUE", help="settings of ours")
    parser.add_argument("--work", type=Path, help="keeps vectors and indexes; else they are removed")
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_args()
    if not options.pages and not options.kernel:
        parser.error("nothing to do: give --pages or --kernel")
    peers: tuple[type[Engine], ...] = (PaperInFaiss, *ENGINES, *STORES)
    light = tuple(kind for kind in peers if kind.light)
    alone: tuple[type[Engine], ...] = (Numpy, NumpyBlocks)
    wanted = {"all": peers, "light": light, "none": alone}[options.peers]
    pairs = [one.partition("=") for one in options.set]
    changed = {name: int(value) if value.isdecimal() else value for name, _, value in pairs}
    shared = {
        "pythons": [sys.executable, *options.python],
        "rounds": options.rounds,
        "k": options.k,
        "limit_s": options.limit_s,
        "memory_gb": options.memory_gb,
        "changed": changed,
    }
    maker = PageMaker(options.seed)
    report: dict[str, Any] = {
        # Results are published: names of folders on this machine are not.
        "command": [Path(word).name if "/" in word else word for word in sys.argv[1:]],
        "machine": facts(),
        "generator": {"seed": options.seed, "dim": DIM, **asdict(maker.mixture)},
        "settings": {name: value for name, value in shared.items() if name != "pythons"},
        "sizes": [],
        "kernel": None,
    }
    with tempfile.TemporaryDirectory() as temporary:
        work = options.work or Path(temporary)
        if options.kernel:
            kinds = [kind for kind in KERNELS if kind in (OursKernel, *wanted)]
            collection = collect(work, maker, KERNEL_PAGES, options.queries, KERNEL_ROWS)
            report["kernel"] = measured(Bench(Plan(kinds=kinds, threads=[1], **shared)), collection, OursKernel.name)
            options.json.write_text(json.dumps(report, indent=1), encoding="utf-8")
        every = [kind for kind in (*OURS, *wanted) if any(word in kind.name for word in options.engines)]
        bench = Bench(Plan(kinds=every, threads=options.threads, **shared))
        for pages in sorted(options.pages):
            collection = collect(work, maker, pages, options.queries)
            report["sizes"].append(measured(bench, collection, OURS[0].name))
            options.json.write_text(json.dumps(report, indent=1), encoding="utf-8")


def measured(bench: Bench, collection: Collection, beside: str) -> dict[str, Any]:
    """What the report tells of a collection; printed as a table besides."""
    bandwidth, engines = bench.measure(collection)
    query_rows = float(np.mean([len(query) for query in collection.queries]))
    rows = (collection.home / "rows.f16").stat().st_size // (2 * DIM)
    speeds = ", ".join(f"{speed / 1e9:.1f} GB/s with {count} threads" for count, speed in bandwidth.items())
    print(
        f"\n{collection.pages} pages of {rows / collection.pages:.1f} rows, {len(collection.queries)} queries of "
        f"{query_rows:.1f}; memory is read at {speeds}\n{table(engines, beside)}",
        flush=True,
    )
    return {
        "pages": collection.pages,
        "rows": rows,
        "queries": len(collection.queries),
        "query_rows": query_rows,
        "difficulty": collection.difficulty(),
        "read_bytes_per_s": {str(count): round(speed) for count, speed in bandwidth.items()},
        "beside": beside,
        "engines": engines,
    }


if __name__ == "__main__":
    main()
