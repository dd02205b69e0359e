from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from medvrag_core.evaluation.statistics.folds import folds_of
from medvrag_core.profiles.load import load_profile
from medvrag_core.records import Question
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.answering import answer_all
from medvrag_core.systems.resources import Resources

ARMS = ("text_bm25", "text_dense", "page_single")


@pytest.fixture(scope="module")
def answered(made_run: Workspace, made_questions: list[Question], tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("best")
    for name in ("corpus", "vectors", "index"):
        (run / name).symlink_to(getattr(made_run, name))
    resources = Resources(Workspace(run), load_profile("test"))
    copies = [q.model_copy(update={"id": f"{q.id}-{k}"}) for q in made_questions for k in range(4)]
    for name in ARMS:
        answer_all(name, resources, copies, progress=False)
    return run


def test_the_text_arms_of_the_run_are_the_candidates(
    answered: Path, made_questions: list[Question], medvrag: Callable[..., SimpleNamespace]
) -> None:
    found = json.loads(medvrag("best", "--run", answered, "--json").out)
    ids = [f"{q.id}-{k}" for q in made_questions for k in range(4)]
    assert found["n_choosing"] == int((folds_of(ids, 2) == 0).sum())
    assert found["contrast"]["n"] == 12 - found["n_choosing"]
    assert {score["arm"] for score in found["choosing"]} == {"text_bm25", "text_dense"}
    assert (found["contrast"]["a"], found["contrast"]["b"]) == (found["chosen"], "page_single")


def test_candidates_can_be_named_and_the_text_says_what_flatters(
    answered: Path, medvrag: Callable[..., SimpleNamespace]
) -> None:
    done = medvrag("best", "--run", answered, "--among", "text_dense", "--against", "text_bm25")
    assert done.code == 0
    assert "text_dense\n" in done.out.splitlines(keepends=True)[0]
    assert "they flatter it" in done.out
    assert "B text_bm25" in done.out


def test_a_run_without_text_arms_says_what_to_run(tmp_path: Path, medvrag: Callable[..., SimpleNamespace]) -> None:
    done = medvrag("best", "--run", tmp_path)
    assert done.code == 2
    assert "medvrag run --system text_bm25" in done.err
