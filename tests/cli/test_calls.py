"""The verbs about model calls, through the console script's own entry point."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from medvrag_core.evaluation.questions import write_questions
from medvrag_core.filter import llm_ranker
from medvrag_core.models.store import CallStore
from medvrag_core.records import Question
from medvrag_core.runs.lock import only_writer
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.answering import read_traces, trace_path
from medvrag_core.systems.canonical import export_digest

Run = Callable[..., SimpleNamespace]


@pytest.fixture
def question_file(made_questions: list[Question], tmp_path: Path) -> Path:
    write_questions(tmp_path / "questions.jsonl", made_questions)
    return tmp_path / "questions.jsonl"


def fails(done: SimpleNamespace, code: int, *words: str) -> None:
    assert done.code == code, (done.out, done.err)
    assert all(word in done.err for word in words), done.err
    assert "Traceback" not in done.err and len(done.err.strip().splitlines()) == 1
    assert done.out == ""


def digest(run: Workspace) -> str:
    return export_digest(read_traces(run, "medvrag", made_by="the run"))


def test_the_console_script_knows_the_verbs(paid_run: Workspace, tmp_path: Path) -> None:
    def started(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "medvrag_core.cli", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    done = started("replay", "--run", paid_run.root, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["identical"] == 3
    done = started("calls", "status", "--run", tmp_path / "nothing")
    assert done.returncode == 2 and done.stderr.startswith("medvrag: ") and "Traceback" not in done.stderr


def test_status_counts(medvrag: Run, paid_run: Workspace, tmp_path: Path, made_run: Workspace) -> None:
    done = medvrag("calls", "status", "--run", paid_run.root)
    told = json.loads(medvrag("calls", "status", "--run", paid_run.root, "--json").out)
    assert done.code == 0 and f"{told['calls']} calls (complete {told['calls']})" in done.out
    assert sum(group["calls"] for group in told["prompts"]) == told["calls"] > 0
    fails(medvrag("calls", "status", "--run", made_run.root), 2, "has made no model calls", "run it with a profile")
    fails(medvrag("calls", "status", "--run", tmp_path / "no"), 2, "no' has made no model calls")
    (tmp_path / "calls.sqlite").write_text("no database, but long enough to be looked at" * 9)
    fails(medvrag("calls", "status", "--run", tmp_path), 2, "cannot be used as a call store", "restore it")
    assert medvrag("calls", "status").code == 2
    assert medvrag("calls").code == 2


def test_export_and_import(
    medvrag: Run, paid_run: Workspace, made_run: Workspace, question_file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "calls.xz"
    done = medvrag("calls", "export", "--run", paid_run.root, "--out", out)
    assert done.code == 0 and "systems medvrag" in done.out and out.is_file()
    run = Workspace(shutil.copytree(made_run.root, tmp_path / "run"))
    done = medvrag("calls", "import", out, "--run", run.root)
    assert done.code == 0 and done.out.count("calls") == 1 and "of them new" in done.out
    assert ", 0 of them new" in medvrag("calls", "import", out, "--run", run.root).out
    # The imported calls alone answer the questions, and come to the same.
    shutil.copy(paid_run.profile, run.profile)
    done = medvrag("run", "--questions", question_file, "--out", run.root, "--calls", "only-cache", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["complete"] is True
    assert digest(run) == digest(paid_run)
    done = medvrag("replay", "--run", run.root)
    assert done.code == 0 and "3 of 3 questions identical" in done.out


def test_another_reply_of_this_run_is_kept_and_told(
    medvrag: Run, paid_run: Workspace, paid_copy: Workspace, tmp_path: Path
) -> None:
    medvrag("calls", "export", "--run", paid_run.root, "--out", tmp_path / "calls.xz")
    with CallStore(paid_copy.calls) as store:
        call = next(store.calls())
        store.put(call.model_copy(update={"reply": call.reply.model_copy(update={"text": "mine"})}))
    done = medvrag("calls", "import", tmp_path / "calls.xz", "--run", paid_copy.root)
    assert done.code == 0 and "; 1 have another reply in this run, which was kept" in done.out


def test_an_import_that_is_refused(medvrag: Run, paid_run: Workspace, tmp_path: Path) -> None:
    fails(medvrag("calls", "import", tmp_path / "no.xz", "--run", tmp_path / "r"), 2, "no.xz: no such archive")
    assert not Workspace(tmp_path / "r").calls.exists()
    medvrag("calls", "export", "--run", paid_run.root, "--out", tmp_path / "calls.xz")
    data = (tmp_path / "calls.xz").read_bytes()
    (tmp_path / "calls.xz").write_bytes(data[: len(data) // 2])
    done = medvrag("calls", "import", tmp_path / "calls.xz", "--run", tmp_path / "r")
    fails(done, 2, "calls.xz: is cut off", "fetch the file again")
    assert not Workspace(tmp_path / "r").calls.exists()


def test_a_run_that_is_being_written_is_left_alone(medvrag: Run, paid_copy: Workspace, tmp_path: Path) -> None:
    out = tmp_path / "calls.xz"
    medvrag("calls", "export", "--run", paid_copy.root, "--out", out)
    with only_writer(paid_copy.root):
        for arguments in (("export", "--run", paid_copy.root, "--out", out), ("import", out, "--run", paid_copy.root)):
            fails(medvrag("calls", *arguments), 2, "another process is writing", "wait for it")


def test_a_replay_that_differs_exits_with_one(medvrag: Run, paid_copy: Workspace) -> None:
    trace = read_traces(paid_copy, "medvrag", made_by="the run")[0]
    with sqlite3.connect(paid_copy.calls) as db:
        db.execute("DELETE FROM calls WHERE key = ?", (trace.rounds[0].reply.call,))
    done = medvrag("replay", "--run", paid_copy.root)
    assert done.code == 1 and "2 of 3 questions identical" in done.out
    assert f"different: {trace.question.id}\n" in done.out
    assert json.loads(medvrag("replay", "--run", paid_copy.root, "--json").out)["different"] == [trace.question.id]


def test_a_replay_needs_traces_and_a_profile(medvrag: Run, paid_copy: Workspace, tmp_path: Path) -> None:
    fails(medvrag("replay", "--run", tmp_path / "no"), 2, "no trace of system 'medvrag'", "medvrag run")
    fails(medvrag("replay", "--run", paid_copy.root, "--system", "no_rag"), 2, "no trace of system 'no_rag'")
    paid_copy.profile.unlink()
    fails(medvrag("replay", "--run", paid_copy.root), 2, "has no saved profile", "medvrag run")


def test_a_question_id_cannot_steer_the_terminal(
    medvrag: Run, paid_copy: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    evil = "\x1b[2Jgout"
    trace = read_traces(paid_copy, "medvrag", made_by="the run")[0]
    odd = trace.model_copy(
        update={"question": trace.question.model_copy(update={"id": evil, "question": "What\x1b[31m?"})}
    )
    trace_path(paid_copy, "medvrag", evil).write_text(odd.to_json())
    done = medvrag("replay", "--run", paid_copy.root)
    assert done.code == 1 and "\x1b" not in done.out + done.err and "[2Jgout" in done.out
    path = trace_path(paid_copy, "medvrag", "copy")
    path.write_text(odd.to_json())
    done = medvrag("replay", "--run", paid_copy.root)
    assert done.code == 2 and "\x1b" not in done.err and "[2Jgout" in done.err


def test_diff_of_a_run_and_its_export(medvrag: Run, paid_run: Workspace, tmp_path: Path) -> None:
    out = tmp_path / "calls.xz"
    medvrag("calls", "export", "--run", paid_run.root, "--out", out)
    for pair in ((paid_run.root, out), (out, paid_run.root), (out, out)):
        done = medvrag("diff", *pair)
        assert done.code == 0, done.err
        assert "3 questions in both: 3 identical in every detail, 3 same outcome" in done.out
        assert json.loads(medvrag("diff", *pair, "--json").out)["identical"] == 3


def test_diff_of_two_runs_names_settings_and_places(
    medvrag: Run, paid_run: Workspace, paid_copy: Workspace, question_file: Path
) -> None:
    profile = yaml.safe_load(paid_copy.profile.read_text())
    profile["filter"]["ranker"] = profile["filter"]["ranker"].replace("llm", "embedded")
    profile["reader"]["name"] = "evidence"
    paid_copy.profile.write_text(yaml.safe_dump(profile))
    shutil.rmtree(paid_copy.root / "systems")
    done = medvrag("run", "--questions", question_file, "--out", paid_copy.root)
    assert done.code == 0, done.err
    done = medvrag("diff", paid_run.root, paid_copy.root)
    assert done.code == 0 and "3 questions in both: 0 identical" in done.out
    assert "setting filter.ranker: llm -> embedded" in done.out and "gout-1: " in done.out
    assert "exact McNemar p = " in done.out
    paid_copy.profile.unlink()
    done = medvrag("diff", paid_run.root, paid_copy.root)
    assert done.code == 0 and "setting" not in done.out, "traces can be compared without settings"


def test_diff_that_cannot_be_made(medvrag: Run, paid_run: Workspace, made_run: Workspace, tmp_path: Path) -> None:
    fails(medvrag("diff", paid_run.root, made_run.root), 2, "no trace of system 'medvrag'", "medvrag run")
    fails(medvrag("diff", paid_run.root, tmp_path / "no.xz"), 2, "no.xz: no such archive")
    medvrag("calls", "export", "--run", paid_run.root, "--out", tmp_path / "calls.xz")
    done = medvrag("diff", paid_run.root, tmp_path / "calls.xz", "--other", "no_rag")
    fails(done, 2, "calls.xz: holds no trace of system 'no_rag'")
    assert medvrag("diff", paid_run.root).code == 2


def test_report_says_what_is_missing(medvrag: Run, paid_copy: Workspace) -> None:
    whole = json.loads(medvrag("report", "--run", paid_copy.root, "--json").out)
    assert whole["complete"] and whole["outcomes"]["missing"] == 0
    trace_path(paid_copy, "medvrag", "gout-1").unlink()
    told = json.loads(medvrag("report", "--run", paid_copy.root, "--json").out)
    assert (told["n"], told["expected"], told["complete"], told["outcomes"]["missing"]) == (2, 3, False, 1)
    assert sum(told["outcomes"].values()) == 3
    shutil.copy(trace_path(paid_copy, "medvrag", "asthma-1"), paid_copy.traces("medvrag") / "again.json")
    fails(medvrag("report", "--run", paid_copy.root), 2, "again.json", "delete the copy")


def test_a_changed_prompt_is_refused_by_run(
    medvrag: Run, paid_copy: Workspace, question_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = llm_ranker._template()
    monkeypatch.setattr(llm_ranker, "_template", lambda: before + "!")
    done = medvrag("run", "--questions", question_file, "--out", paid_copy.root)
    fails(done, 2, "prompt of 'filter_map'", "gout-1", "--set calls.accept_changed_prompts=true")


def test_a_run_with_questions_in_error_exits_with_three(
    medvrag: Run,
    made_run: Workspace,
    question_file: Path,
    tmp_path: Path,
    chaos: Any,
    model_settings: Callable[..., dict[str, Any]],
) -> None:
    run = shutil.copytree(made_run.root, tmp_path / "run")
    more = {"filter.ranker": "embedded", "loop.max_rounds": 1, "calls.attempts": 1}
    sets = [f"--set={key}={value}" for key, value in model_settings(chaos.url, **more).items()]
    command = ("run", "--questions", question_file, "--out", run, "--profile", "test", *sets)
    chaos.control(faults=["", "400"])
    done = medvrag(*command, "--json")
    assert done.code == 3 and json.loads(done.out)["outcomes"]["errors"] == 1
    chaos.control(faults=["401"])
    done = medvrag(*command)
    assert done.code == 3 and "[denied]" in done.err and "set the environment variable" in done.err
    done = medvrag(*command, "--json")
    assert done.code == 0 and json.loads(done.out)["complete"]
    fails(medvrag(*command, "--calls", "sometimes"), 2, "'calls.policy'", "only-cache")
