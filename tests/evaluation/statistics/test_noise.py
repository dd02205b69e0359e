"""Flip rates between two runs of the same arms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from medvrag_core.errors import InputError, MismatchError
from medvrag_core.evaluation.statistics import noise
from medvrag_core.evaluation.statistics.noise import flips_against
from medvrag_core.records import Trace
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.answering import trace_path

MakeTrace = Callable[..., Trace]


@pytest.fixture
def stored(make_trace: MakeTrace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Workspace]:
    monkeypatch.setattr(noise, "open_run", lambda run_id: Workspace(tmp_path / run_id))

    def store(run_id: str, labels: Sequence[str | None], fingerprint: str = "f") -> Workspace:
        workspace = Workspace(tmp_path / run_id)
        for number, label in enumerate(labels):
            trace = make_trace(f"q{number}", label).model_copy(update={"fingerprint": fingerprint})
            path = trace_path(workspace, "medvrag", trace.question.id)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(trace.to_json(), encoding="utf-8")
        return workspace

    return store


def test_answers_that_change_between_two_runs(stored: Callable[..., Workspace]) -> None:
    run = stored("one", ["A", "B", "A", None])
    stored("two", ["A", "C", "B", None])
    (rate,) = flips_against(run, "two", ["medvrag"])
    assert (rate.n, rate.runs, rate.right_or_wrong, rate.label) == (4, 2, 0.25, 0.5)
    assert flips_against(run, "", ["medvrag"]) == []


def test_runs_that_are_no_repetition_are_refused(stored: Callable[..., Workspace]) -> None:
    run = stored("one", ["A", "B"])
    stored("other", ["A", "B"], fingerprint="g")
    stored("short", ["A"])
    with pytest.raises(MismatchError, match="other settings in 'other'"):
        flips_against(run, "other", ["medvrag"])
    with pytest.raises(InputError, match="did not answer the questions of run 1"):
        flips_against(run, "short", ["medvrag"])
