from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from medvrag_core.errors import InputError, NotBuiltError
from medvrag_core.evaluation.endings import Ending
from medvrag_core.evaluation.outcomes import ending_of, outcomes_path, read_asked_endings, read_endings
from medvrag_core.evaluation.report import run_report
from medvrag_core.evaluation.scorers.report import scorers_report
from medvrag_core.evaluation.scoring import accuracy_report
from medvrag_core.evaluation.statistics.estimands import arm_of
from medvrag_core.records import Trace
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.answering import asked_path, read_traces, trace_path

MakeTrace = Callable[..., Trace]


@pytest.fixture
def workspace(make_trace: MakeTrace, tmp_path: Path) -> Workspace:
    made = Workspace(tmp_path / "run")
    stages = (["p", "q"], ["p"], ["p"])
    for i, label in enumerate(["A", "B", None]):
        trace = make_trace(f"set:{i}", label, rounds=(stages, stages), gold_pages=("a#p1",))
        path = trace_path(made, "medvrag", trace.question.id)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(trace.to_json(), encoding="utf-8")
    return made


def endings(workspace: Workspace, system: str = "medvrag") -> list[Ending]:
    return read_endings(workspace, system, made_by="it")


def test_endings_tell_what_reports_and_scores_need(workspace: Workspace) -> None:
    traces = read_traces(workspace, "medvrag", made_by="it")
    found = endings(workspace)
    assert found == [ending_of(trace) for trace in traces] == [ending_of(ending) for ending in found]
    assert [e.rounds_used for e in found] == [2, 2, 2] and found[0].stage1 == ("p", "q") and found[0].kept == ("p",)
    assert run_report(found) == run_report(traces)
    assert scorers_report(found) == scorers_report(traces)
    assert accuracy_report(found) == accuracy_report(traces)
    first, second = arm_of([found]), arm_of([traces])
    assert (first.right == second.right).all() and (first.labels == second.labels).all()


def test_only_traces_that_changed_are_read_again(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = endings(workspace)
    read: list[str] = []

    def counting(text: bytes, *, source: str) -> Trace:
        read.append(Path(source).name)
        return Trace.model_validate_json(text)

    monkeypatch.setattr(Trace, "from_json", counting)
    assert endings(workspace) == whole and read == []
    path = trace_path(workspace, "medvrag", "set:1")
    path.write_bytes(path.read_bytes().replace(b'"seconds":1.0', b'"seconds":2.5'))
    assert [e.seconds for e in endings(workspace)] == [1.0, 2.5, 1.0] and read == ["set%3A1.json"]
    path.unlink()
    assert [e.question.id for e in endings(workspace)] == ["set:0", "set:2"] and len(read) == 1
    lines = outcomes_path(workspace, "medvrag").read_text().splitlines()
    assert len(lines) == 2 and all("rounds_used" in line for line in lines)


def test_a_damaged_copy_is_made_anew(workspace: Workspace) -> None:
    whole = endings(workspace)
    path = outcomes_path(workspace, "medvrag")
    stored = path.read_bytes()
    for damaged in (b"", stored[: len(stored) // 2], b"{}\n" + stored, stored.replace(b"rounds_used", b"x"), b"\xff"):
        path.write_bytes(damaged)
        assert endings(workspace) == whole
        assert path.read_bytes() in (stored, damaged)


def test_a_folder_that_cannot_be_written_is_read(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, *_: object, **__: object) -> int:
        raise PermissionError("read-only")

    monkeypatch.setattr(Path, "write_text", refuse)
    assert len(endings(workspace)) == 3 and not outcomes_path(workspace, "medvrag").exists()


def test_the_questions_asked_last(workspace: Workspace) -> None:
    found, asked = read_asked_endings(workspace, "medvrag", made_by="it")
    assert (len(found), asked) == (3, None)
    asked_path(workspace, "medvrag").write_text(json.dumps(["set:0", "set:2", "set:9"]))
    found, asked = read_asked_endings(workspace, "medvrag", made_by="it")
    assert ([e.question.id for e in found], asked) == (["set:0", "set:2"], 3)


def test_damaged_copied_and_missing_traces_are_refused(workspace: Workspace) -> None:
    with pytest.raises(NotBuiltError, match="no trace of system 'other'; run it"):
        endings(workspace, "other")
    path = trace_path(workspace, "medvrag", "set:0")
    copy = path.with_name("copy.json")
    shutil.copy(path, copy)
    with pytest.raises(InputError, match="delete the copy"):
        endings(workspace)
    copy.unlink()
    whole = path.read_bytes()
    for cut in (0, 1, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(InputError, match="set%3A0"):
            endings(workspace)
