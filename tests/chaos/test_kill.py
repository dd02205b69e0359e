"""A run killed at random points comes out as if nothing had happened (promises P1, P2, P12, P14, P17)."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from medvrag_core.models.outcomes import FINAL
from medvrag_core.models.store import CallStore
from medvrag_core.records import Trace
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.answering import read_traces
from medvrag_core.systems.canonical import canonical_export, export_digest

pytestmark = pytest.mark.slow

KILLS = 100
QUESTIONS = 24
SETTINGS = {
    "filter.ranker": "llm",
    "filter.shard_size": 2,
    "filter.map_keep": 1,
    "reader.name": "vlm",
    "filter_model.model": "m",
    "reader_model.model": "m",
    "calls.questions_at_once": 4,
    "calls.pause_s": 0.01,
}
MakeRun = Callable[[str], Workspace]


class Nursery:
    """Starts runs in forked children; see ``nursery.py``."""

    def __init__(self) -> None:
        script = Path(__file__).with_name("nursery.py")
        self.process = subprocess.Popen(
            [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._line() == "ready"

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def start(self, run: Workspace, url: str, **settings: Any) -> int:
        values = SETTINGS | {"filter_model.base_url": url, "reader_model.base_url": url} | settings
        order = {"run": str(run.root), "settings": values, "questions": QUESTIONS}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return int(self._line())

    def ended(self) -> int:
        return int(self._line())

    def run(self, run: Workspace, url: str, **settings: Any) -> int:
        self.start(run, url, **settings)
        return self.ended()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    started = Nursery()
    yield started
    started.close()


@pytest.fixture
def make_run(made_run: Workspace, tmp_path: Path) -> MakeRun:
    def make(name: str) -> Workspace:
        run = Workspace(tmp_path / name)
        run.root.mkdir()
        for part in ("corpus", "vectors", "index"):
            (run.root / part).symlink_to(getattr(made_run, part))
        return run

    return make


def traces(run: Workspace) -> list[Trace]:
    return read_traces(run, "medvrag", made_by="the run first")


def kill_later(pid: int, server: Any, requests: int, share: float, over: threading.Event) -> None:
    """Kill a run once it has sent some more requests, and a moment later; a slow machine only makes it take longer."""
    before = sum(server.log()["started"].values())
    while sum(server.log()["started"].values()) < before + requests:
        if over.wait(0.005):
            return
    if not over.wait(0.03 * share):
        os.kill(pid, signal.SIGKILL)


def request_identities(run: Workspace) -> set[str]:
    """Finished calls of a store, as the server names requests."""
    found = set()
    with CallStore(run.calls) as store:
        for call in store.calls():
            if call.outcome in FINAL:
                told = [[m["role"], m["text"], len(m["images"])] for m in json.loads(call.request)["messages"]]
                found.add(hashlib.sha256(json.dumps(told).encode()).hexdigest())
    return found


def test_p1_p2_killed_a_hundred_times_it_ends_the_same_and_pays_for_nothing_twice(
    nursery: Nursery, make_run: MakeRun, chaos_server: Any
) -> None:
    calm = chaos_server()
    whole = make_run("whole")
    assert nursery.run(whole, calm.url) == 0
    calm.close()
    expected = export_digest(traces(whole))

    kills = rounds = 0
    draw = random.Random(20261130)
    while kills < KILLS:
        rounds += 1
        run = make_run(f"killed-{rounds}")
        server = chaos_server("--chaos", str(rounds))
        server.control(delay=0.01)
        code, paid_for = None, {}
        while code != 0:
            pid = nursery.start(run, server.url)
            over = threading.Event()
            killer = threading.Thread(target=kill_later, args=(pid, server, draw.randint(0, 15), draw.random(), over))
            killer.start()
            code = nursery.ended()
            over.set()
            killer.join()
            assert code in {0, -signal.SIGKILL}
            kills += code != 0
            started = server.log()["started"]
            if run.calls.exists():
                finished = request_identities(run)
                for key, count in paid_for.items():
                    assert started[key] == count, "a finished call was sent again"
                paid_for = {key: started[key] for key in finished}
        assert export_digest(traces(run)) == expected
        assert canonical_export(traces(run)) == canonical_export(traces(whole))
        assert nursery.run(run, server.url) == 0
        assert sum(server.log()["started"].values()) == sum(started.values()), "a complete run asks nothing"
        server.close()
    assert kills >= KILLS and rounds >= 2


def test_p12_a_server_that_dies_stops_the_run_and_its_return_finishes_it(
    nursery: Nursery, make_run: MakeRun, chaos_server: Any
) -> None:
    calm = chaos_server()
    whole = make_run("whole")
    assert nursery.run(whole, calm.url) == 0
    run = make_run("interrupted")
    calm.control(delay=0.02)
    port = calm.port
    nursery.start(run, calm.url, **{"calls.attempts": 2, "calls.give_up_after": 4})
    time.sleep(1.0)
    calm.close()
    assert nursery.ended() == 3, "the run stops by itself when nothing answers any more"
    done = len(list(run.traces("medvrag").glob("*.json"))) if run.traces("medvrag").exists() else 0
    assert done < QUESTIONS
    back = chaos_server("--port", str(port))
    assert nursery.run(run, back.url) == 0
    back.close()
    assert export_digest(traces(run)) == export_digest(traces(whole))


@pytest.mark.parametrize("at_once", [1, 8, 32])
def test_p14_order_and_concurrency_do_not_change_the_outcome(
    nursery: Nursery, make_run: MakeRun, chaos_server: Any, at_once: int
) -> None:
    server = chaos_server()
    one, many = make_run("one"), make_run("many")
    assert nursery.run(one, server.url, **{"calls.questions_at_once": 1, "calls.in_flight": 1}) == 0
    server.control(delay=0.01)
    assert nursery.run(many, server.url, **{"calls.questions_at_once": at_once, "calls.in_flight": at_once}) == 0
    server.close()
    assert export_digest(traces(one)) == export_digest(traces(many))


def test_p17_ctrl_c_drains_and_the_run_goes_on(nursery: Nursery, make_run: MakeRun, chaos_server: Any) -> None:
    server = chaos_server()
    server.control(delay=0.05)
    run = make_run("stopped")
    pid = nursery.start(run, server.url)
    deadline = time.monotonic() + 60
    while sum(server.log()["started"].values()) < 5 and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(pid, signal.SIGINT)
    assert nursery.ended() != 0
    log = server.log()
    with CallStore(run.calls) as store:
        stored = len(store)
    assert stored == sum(log["finished"].values()) == sum(log["started"].values()), "calls in flight were kept"
    assert nursery.run(run, server.url) == 0
    assert max(server.log()["started"].values()) == 1, "nothing was asked twice"
    server.close()
