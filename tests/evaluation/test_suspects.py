"""Reports with and without questions whose text stands in the corpus."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from medvrag_core.corpus.contamination import QuestionHit, text_digest
from medvrag_core.corpus.screening import Screening, write_screening
from medvrag_core.evaluation.questions import write_questions
from medvrag_core.evaluation.report import run_report
from medvrag_core.records import Question
from medvrag_core.runs.workspace import Workspace
from medvrag_core.settings import ExclusionSettings

Run = Callable[..., SimpleNamespace]


@pytest.fixture
def answered(made_run: Workspace, made_questions: list[Question], tmp_path: Path, medvrag: Run) -> Workspace:
    shutil.copytree(made_run.root, tmp_path / "run")
    write_questions(tmp_path / "q.jsonl", made_questions)
    assert medvrag("run", "--questions", tmp_path / "q.jsonl", "--out", tmp_path / "run").code == 0
    return Workspace(tmp_path / "run")


def screened(run: Workspace, questions: list[Question], *hits: tuple[Question, str]) -> None:
    found = tuple(
        QuestionHit(question=f"other/{q.id}", text=text_digest(q.question), page_id=page, how="verbatim", share=1.0)
        for q, page in hits
    )
    sought = tuple(sorted(text_digest(q.question) for q in questions))
    write_screening(run.corpus, Screening(settings=ExclusionSettings(questions=("q",)), sought=sought, hits=found))


def test_suspect_questions_are_left_out_of_one_report_and_stay_in_the_other(
    answered: Workspace, made_questions: list[Question], medvrag: Run
) -> None:
    _, second, third = made_questions
    # The second stands on a page that is in the corpus, the third on one that was left out.
    screened(answered, [second, third], (second, "gout#p1"), (third, "elsewhere#p1"))
    done = medvrag("report", "--run", answered.root, "--suspects", "--json")
    assert done.code == 0, done.err
    both = json.loads(done.out)
    assert (both["suspect"], both["unchecked"]) == ([second.id], 1)
    plain = json.loads(medvrag("report", "--run", answered.root, "--json").out)
    assert both["all"] == plain
    from medvrag_core.evaluation.outcomes import read_asked_endings

    endings = read_asked_endings(answered, "medvrag", made_by="x")[0]
    rest = run_report([ending for ending in endings if ending.question.id != second.id], 2)
    assert both["without"] == json.loads(rest.model_dump_json())
    text = medvrag("report", "--run", answered.root, "--suspects").out
    assert "without suspects" in text
    assert f"suspect: 1 question whose text stands in the corpus: {second.id}" in text
    assert "not checked: 1 question" in text


def test_where_every_question_is_suspect_there_is_one_report(
    answered: Workspace, made_questions: list[Question], medvrag: Run
) -> None:
    screened(answered, made_questions, *((question, "gout#p1") for question in made_questions))
    assert json.loads(medvrag("report", "--run", answered.root, "--suspects", "--json").out)["without"] is None
    assert "without suspects" not in medvrag("report", "--run", answered.root, "--suspects").out


def test_a_corpus_that_was_checked_against_no_question_has_no_such_report(answered: Workspace, medvrag: Run) -> None:
    refused = medvrag("report", "--run", answered.root, "--suspects")
    assert refused.code == 2
    assert "checked against no question" in refused.err
