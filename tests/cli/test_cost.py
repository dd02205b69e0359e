"""`medvrag cost` through the entry point."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from medvrag_core.records import Question, Trace
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.answering import asked_path, trace_path

Run = Callable[..., SimpleNamespace]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two arms on 40 questions: ``loop`` takes twice as long and is right on 20 more."""
    workspace = Workspace(tmp_path / "run")
    for system, seconds, wrong in (("text", 1.0, 25), ("loop", 2.0, 5)):
        for number in range(40):
            label = "B" if number < wrong else "A"
            trace = Trace(
                system=system,
                profile="test",
                fingerprint="f",
                question=Question(id=f"q{number}", question="?", options={"A": "x", "B": "y"}, answer="A"),
                rounds=(),
                outcome="answered",
                label=label,
                correct=label == "A",
                seconds=seconds,
            )
            path = trace_path(workspace, system, trace.question.id)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(trace.to_json(), encoding="utf-8")
    return workspace.root


def test_the_price_of_an_extra_right_answer(medvrag: Run, run: Path, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("currency: EUR\ndate: 2026-11-30\nsource: s\ngpu_hour: 36\n")
    arguments = ("cost", run, "--system", "loop", "--against", "text", "--prices", tmp_path / "p.yaml")
    found = json.loads(medvrag(*arguments, "--json").out)
    assert found["cost"]["system"] == "loop" and found["against"]["system"] == "text"
    rows = {row["quantity"]: row for row in found["extra_right"]["rows"]}
    assert found["extra_right"]["shown"] == "more right"
    assert (rows["seconds"]["difference"], rows["seconds"]["per_extra"]) == (1.0, 2.0)
    assert rows["money"]["per_extra"] == pytest.approx(0.02)
    text = medvrag(*arguments).out
    for words in (
        "loop over text: n 40, won 20, lost 0",
        "one extra right answer: 2.0 s [",
        "0.02 EUR",
        "prices in EUR",
    ):
        assert words in text


def test_only_what_was_asked_last_counts(medvrag: Run, run: Path) -> None:
    asked_path(Workspace(run), "loop").write_text(json.dumps(["q1", "q2"]))
    found = json.loads(medvrag("cost", run, "--system", "loop", "--json").out)
    assert (found["cost"]["n"], found["against"], found["extra_right"]) == (2, None, None)


def test_the_template_comes_without_a_run(medvrag: Run) -> None:
    done = medvrag("cost", "--price-template")
    assert done.code == 0 and "gpu_hour:" in done.out


def test_faults_are_one_sentence(medvrag: Run, run: Path, tmp_path: Path) -> None:
    for arguments, words in (
        (("cost",), "no run is named"),
        (("cost", run, "--system", "none"), "no trace of system 'none'"),
        (("cost", run, "--system", "text", "--against", "text"), "compared with itself"),
        (("cost", run, "--system", "text", "--prices", tmp_path / "none.yaml"), "no such file"),
    ):
        done = medvrag(*arguments)
        assert done.code == 2 and words in done.err and len(done.err.strip().splitlines()) == 1, done.err
