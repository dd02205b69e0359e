"""The command: a run with --ray local and an index in an actor is the run without it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from same_files import answers_in, digests_of

from medvrag_core.evaluation.questions import write_questions
from medvrag_core.records import Question
from medvrag_core.runs.workspace import Workspace


@pytest.mark.slow
def test_a_whole_run(made_pdfs: Path, made_questions: list[Question], tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: python3 run.py setup --with ray")
    write_questions(tmp_path / "q.jsonl", made_questions)
    given = ["--profile", "test", "--set", "workers=2", "--source", str(made_pdfs), "--questions", "q.jsonl"]
    for out, more in (("plain", []), ("ray", ["--ray", "local", "--set", "ray.index_servers=1"])):
        command = [sys.executable, "-m", "medvrag_core.cli", "run", *given, "--out", out, *more]
        subprocess.run(command, cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)
    plain, spread = Workspace(tmp_path / "plain"), Workspace(tmp_path / "ray")
    for room in ("corpus", "vectors", "index"):
        assert digests_of(spread.root / room) == digests_of(plain.root / room), room
    answers = answers_in(spread.traces("medvrag"))
    assert len(answers) == len(made_questions)
    assert answers == answers_in(plain.traces("medvrag"))
