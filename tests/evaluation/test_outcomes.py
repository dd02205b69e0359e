from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from medvrag_core.errors import InputError, NotBuiltError
from medvrag_core.evaluation.outcomes import read_outcomes
from medvrag_core.records import Trace
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.answering import read_traces, trace_path

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


def test_outcomes_are_the_traces_without_their_rounds(workspace: Workspace) -> None:
    whole = read_traces(workspace, "medvrag", made_by="it")
    assert all(trace.rounds for trace in whole)
    assert read_outcomes(workspace, "medvrag", made_by="it") == [t.model_copy(update={"rounds": ()}) for t in whole]


def test_damaged_copied_and_missing_traces_are_refused(workspace: Workspace) -> None:
    with pytest.raises(NotBuiltError, match="no trace of system 'other'; run it"):
        read_outcomes(workspace, "other", made_by="it")
    path = trace_path(workspace, "medvrag", "set:0")
    copy = path.with_name("copy.json")
    shutil.copy(path, copy)
    with pytest.raises(InputError, match="delete the copy"):
        read_outcomes(workspace, "medvrag", made_by="it")
    copy.unlink()
    whole = path.read_bytes()
    for cut in (0, 1, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(InputError, match="set%3A0"):
            read_outcomes(workspace, "medvrag", made_by="it")
