"""Whole runs by the command on a cluster that loses workers, actors and a machine: their exports are the plain one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from same_files import digests_of

from medvrag_core.evaluation.questions import write_questions
from medvrag_core.records import Question
from medvrag_core.runs.workspace import Workspace

pytestmark = pytest.mark.slow
SETTINGS = {
    "corpus.summarizer": "model",
    "filter.ranker": "llm",
    "filter.shard_size": 4,
    "filter.map_keep": 2,
    "reader.name": "vlm",
    "calls.questions_at_once": 2,
    "calls.in_flight": 4,
    "calls.pause_s": 0.01,
    "workers": 2,
}
MODELS = ("serve.summary_model", "filter_model", "reader_model")
ROOMS = ("corpus", "vectors", "index")
QUESTIONS = [
    Question(
        id=f"q{n:02}",
        question=f"Which dose of drug {n % 6} lowers the pressure on day {n}?",
        options={label: f"{n}{label} mg" for label in "ABCD"},
        answer="ABCD"[n % 4],
    )
    for n in range(12)
]


class Command:
    """``medvrag run`` in a process of its own, and what is said of it."""

    def __init__(self, articles: Path, out: Path, url: str, *more: str) -> None:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_questions(out.parent / "q.jsonl", QUESTIONS)
        given = SETTINGS | {
            f"{model}.{field}": value
            for model in MODELS
            for field, value in {"model": "m", "base_url": url, "tokenizer": "estimate"}.items()
        }
        sets = [word for name, value in given.items() for word in ("--set", f"{name}={value}")]
        command = [sys.executable, "-m", "medvrag_core.cli", "run", "--profile", "test", *sets, *more]
        command += ["--source", str(articles), "--questions", str(out.parent / "q.jsonl"), "--out", str(out)]
        self.run = Workspace(out)
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def ended(self) -> tuple[int, str]:
        """Exit code, and all that was said on standard error."""
        _, said = self.process.communicate(timeout=300)
        return self.process.returncode, said

    def wait_until(self, so: Callable[[], bool]) -> None:
        while not so():
            assert self.process.poll() is None, self.ended()[1]
            time.sleep(0.02)

    def rendered(self) -> int:
        return len(list(self.run.corpus.glob("articles/[!.]*/outcome.json")))

    def encoded(self) -> int:
        return len(list(self.run.vectors.glob("shard-*")))

    def answered(self) -> int:
        return len(list(self.run.traces("medvrag").glob("*.json")))


def export_of(run: Workspace) -> bytes:
    out = run.root.parent / "export.jsonl.xz"
    command = [sys.executable, "-m", "medvrag_core.cli", "calls", "export", "--run", str(run.root), "--out", str(out)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return out.read_bytes()


def workers_of(kind: str) -> list[int]:
    """Processes in which Ray runs a kind of actor of ours, by the name that it gives them."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            title = (process / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if title.startswith(b"ray::") and kind.encode() in title:
            found.append(int(process.name))
    return found


@pytest.fixture(scope="module")
def plain(articles: Path, chaos_server: Any, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """The run on this machine alone; its folder has the name of the others, which exports tell."""
    server = chaos_server()
    made = Command(articles, tmp_path_factory.mktemp("plain") / "run", server.url)
    code, said = made.ended()
    server.close()
    assert code == 0, said
    return made.run


def require_same(run: Workspace, plain: Workspace) -> None:
    for room in ROOMS:
        assert digests_of(run.root / room) == digests_of(plain.root / room), room
    assert export_of(run) == export_of(plain)


def test_a_worker_an_actor_and_a_machine_are_lost_in_one_run(
    cluster: Any, articles: Path, plain: Workspace, tmp_path: Path, chaos: Any
) -> None:
    chaos.control(delay=0.05)
    servers = ("--set", "ray.index_servers=1")
    run = Command(articles, tmp_path / "run", chaos.url, "--ray", cluster.address, *servers)

    run.wait_until(lambda: run.rendered() >= 1)
    os.kill(workers_of("MapWorker")[0], signal.SIGKILL)
    assert not (run.run.corpus / "manifest.json").exists(), "killed while articles were rendered"

    run.wait_until(lambda: sum(chaos.log()["finished"].values()) >= 10)
    os.kill(workers_of("_Lender")[0], signal.SIGKILL)
    assert not (run.run.corpus / "summaries.jsonl").exists(), "killed while summaries were written"

    run.wait_until(lambda: run.encoded() >= 1)
    cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)
    assert not (run.run.vectors / "manifest.json").exists(), "lost while pages were encoded"

    run.wait_until(lambda: run.answered() >= 2)
    os.kill(workers_of("_Server")[0], signal.SIGKILL)
    assert run.answered() < len(QUESTIONS), "killed while questions were answered"

    code, said = run.ended()
    assert code == 0, said
    require_same(run.run, plain)
    cluster.add_node(num_cpus=1, object_store_memory=80_000_000, include_dashboard=False)


def test_the_command_itself_is_stopped_and_killed_and_goes_on(
    cluster: Any, articles: Path, plain: Workspace, tmp_path: Path, chaos: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    chaos.control(delay=0.02)
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)

    def begun() -> Command:
        return Command(articles, tmp_path / "run", chaos.url, "--ray", "auto")

    def nobody_works() -> bool:
        return not any(workers_of(kind) for kind in ("MapWorker", "_Lender", "_Tries"))

    run = begun()
    run.wait_until(lambda: run.rendered() >= 1)
    run.process.send_signal(signal.SIGTERM)
    code, said = run.ended()
    assert code == 130 and "the same command goes on from here" in said
    assert "Traceback" not in said
    wait_until(nobody_works)
    assert not (run.run.corpus / "manifest.json").exists(), "stopped while articles were rendered"

    run = begun()
    run.wait_until(lambda: sum(chaos.log()["finished"].values()) >= 10)
    run.process.send_signal(signal.SIGINT)
    code, said = run.ended()
    assert code == 130 and "Traceback" not in said
    wait_until(nobody_works)
    assert not (run.run.corpus / "summaries.jsonl").exists(), "stopped while summaries were written"
    paid_for = chaos.log()["finished"]

    run = begun()
    run.wait_until(lambda: run.encoded() >= 1)
    run.process.kill()
    run.process.wait()
    assert not (run.run.vectors / "manifest.json").exists(), "killed while pages were encoded"
    wait_until(nobody_works)
    # A reply that was sent to a worker that was just stopped is lost: one call a worker may be paid for again.
    again = sum(times > 1 for key, times in chaos.log()["finished"].items() if key in paid_for)
    assert again <= 4

    run = begun()
    code, said = run.ended()
    assert code == 0, said
    require_same(run.run, plain)


def wait_until(so: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not so():
        assert time.monotonic() < end, "in vain"
        time.sleep(0.1)
