"""A published run beside one's own: replayed where the pages are the same, explained where it cannot be."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from medvrag_core.errors import InputError
from medvrag_core.filter import llm_ranker
from medvrag_core.profiles.load import load_profile
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.answering import read_traces
from medvrag_core.systems.archive import export_calls
from medvrag_core.systems.canonical import canonical_export
from medvrag_core.systems.prepare import prepare
from medvrag_core.systems.recorded import replay_recorded
from medvrag_core.views.call_tables import recorded_table


@pytest.fixture
def archive(paid_run: Workspace, tmp_path: Path) -> Path:
    path = tmp_path / "run.jsonl.xz"
    export_calls(paid_run, path)
    return path


def test_on_the_same_pages_it_replays_to_the_byte(archive: Path, paid_run: Workspace, made_run: Workspace) -> None:
    profile = load_profile(str(paid_run.profile))
    recorded = replay_recorded(archive, made_run, profile, "medvrag")
    stored = read_traces(paid_run, "medvrag", made_by="x")
    assert canonical_export(recorded.traces) == canonical_export(stored)
    assert recorded.report is not None and recorded.problem == ""
    assert recorded.report.identical == recorded.report.same_outcome == recorded.report.questions == len(stored)
    assert recorded.outcomes == {"complete": sum(group.calls for group in recorded.calls)}
    assert recorded.trace(stored[0].question.id).question == stored[0].question
    assert f"{len(stored)} of {len(stored)}" in recorded_table(recorded).html
    assert not made_run.calls.exists(), "nothing is written to the run beside which it is replayed"


def test_on_other_pages_it_says_so(archive: Path, paid_run: Workspace, made_pdfs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "pdfs"
    folder.mkdir()
    shutil.copy(made_pdfs / "gout.pdf", folder)
    other = Workspace(tmp_path / "other")
    prepare(other, folder, load_profile("test"), progress=False)
    recorded = replay_recorded(archive, other, load_profile(str(paid_run.profile)), "medvrag")
    assert recorded.report is None and "are not in this run" in recorded.problem
    assert recorded.traces and recorded.problem in recorded_table(recorded).html


def test_after_a_changed_prompt_it_says_so(
    archive: Path, paid_run: Workspace, made_run: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(llm_ranker, "prompt_version", lambda: "0" * 12)
    recorded = replay_recorded(archive, made_run, load_profile(str(paid_run.profile)), "medvrag")
    assert recorded.report is None and "prompt of 'filter_map'" in recorded.problem


def test_a_missing_archive_is_an_error(made_run: Workspace, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such archive"):
        replay_recorded(tmp_path / "none.xz", made_run, load_profile("test"), "medvrag")
