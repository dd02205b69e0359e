"""A run with answers of two arms, small enough to look at whole."""

from __future__ import annotations

import shutil

import pytest

from medvrag_core.profiles.load import load_profile
from medvrag_core.records import Question
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.answering import answer_all
from medvrag_core.systems.resources import Resources

ARMS = ("medvrag", "page_single")


@pytest.fixture(scope="session")
def answered(
    made_run: Workspace, made_questions: list[Question], tmp_path_factory: pytest.TempPathFactory
) -> Resources:
    """Three questions by two arms; one of them has a wrong gold option, so that one answer is wrong."""
    workspace = Workspace(tmp_path_factory.mktemp("answered") / "answered")
    shutil.copytree(made_run.root, workspace.root)
    resources = Resources(workspace, load_profile("test"))
    first, *others = made_questions
    for arm in ARMS:
        answer_all(arm, resources, [first.model_copy(update={"answer": "D"}), *others], progress=False)
    return resources
