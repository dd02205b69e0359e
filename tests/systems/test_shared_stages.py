"""A run that asks other questions on the pages of another one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from medvrag_core.errors import InputError, NotBuiltError
from medvrag_core.profiles.load import load_profile
from medvrag_core.records import Question
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.answering import answer_all
from medvrag_core.systems.resources import Resources
from medvrag_core.systems.shared_stages import share_stages


def test_a_copy_of_both_runs_needs_the_first_no_more(made_run: Workspace, tmp_path: Path) -> None:
    shutil.copytree(made_run.root, tmp_path / "here" / "run")
    share_stages(Workspace(tmp_path / "here" / "run" / "own"), Workspace(tmp_path / "here" / "run"))
    shutil.copytree(tmp_path / "here", tmp_path / "there", symlinks=True)
    shutil.rmtree(tmp_path / "here")
    moved = Workspace(tmp_path / "there" / "run")
    share_stages(Workspace(moved.root / "own"), moved)
    assert Workspace(moved.root / "own").index.resolve() == moved.index.resolve()


def test_it_answers_as_the_other_run_and_leaves_no_trace_there(
    made_run: Workspace, made_questions: list[Question], tmp_path: Path
) -> None:
    before = sorted(path for path in made_run.root.rglob("*") if "systems" in path.parts)
    own = Workspace(tmp_path / "own")
    share_stages(own, made_run)
    share_stages(own, made_run)
    traces = answer_all("page_single", Resources(own, load_profile("test")), made_questions[:1], progress=False)
    assert traces[0].rounds[0].shown
    assert sorted(path for path in made_run.root.rglob("*") if "systems" in path.parts) == before
    assert own.profile.read_bytes() == made_run.profile.read_bytes()


def test_a_run_with_pages_of_its_own_is_left_alone(made_run: Workspace, tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    with pytest.raises(InputError, match="stages of its own"):
        share_stages(Workspace(tmp_path), made_run)
    with pytest.raises(NotBuiltError):
        share_stages(Workspace(tmp_path / "own"), Workspace(tmp_path / "nothing"))
