"""Tables and figure of controls, and chapter 12 on a handful of questions."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from medvrag_core.evaluation.questions import write_questions
from medvrag_core.evaluation.statistics.controls import CONTROLS, Control, control_results
from medvrag_core.profiles.load import load_profile
from medvrag_core.records import Question, Trace
from medvrag_core.runs.stage import begin_stage, read_stage
from medvrag_core.runs.workspace import Workspace
from medvrag_core.settings import EvaluationSettings
from medvrag_core.views.control_view import controls_figure, controls_table, questions_table
from medvrag_core.views.publishing.runner import run_chapters

NAME = "12_controls"
NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"


def trace(system: str, number: int, label: str) -> Trace:
    question = Question(id=f"q{number}", question="?", options={"A": "x", "B": "y", "C": "z"}, answer="A")
    return Trace(
        system=system,
        profile="test",
        fingerprint=system,
        question=question,
        rounds=(),
        outcome="answered",
        label=label,
        correct=label == "A",
        seconds=0.0,
    )


def test_a_row_holds_all_that_is_needed_to_judge_a_comparison() -> None:
    arms = {
        "medvrag": [trace("medvrag", n, label) for n, label in enumerate("AAAABBBB")],
        "<i>": [trace("<i>", n, label) for n, label in enumerate("AABBBBCA")],
    }
    control = Control(arm="<i>", reference="medvrag", asks="<b>Why?", if_equal="=")
    results = control_results(arms, [control], EvaluationSettings(bootstrap_samples=300))
    table = controls_table(results, caption="profile test")
    assert {"n", "won / lost", "95% interval", "p", "adjusted p"} <= set(table.columns)
    cells = dict(zip(table.columns, map(str, table.rows[0]), strict=True))
    assert cells["comparison"] == "<i> over medvrag"
    assert (cells["n"], cells["won / lost"], cells["points"], cells["p"]) == ("8", "1 / 2", "-12.5", "1.0000")
    assert cells["other answers"].startswith("50.0% ["), "two to wrong, one to right, one from wrong to wrong"
    assert "Holm over family 'controls' of 1 contrast" in table.caption
    assert "<i> over" not in table.html and "<b>" not in questions_table([control]).html
    (points,) = [d for d in controls_figure(results).data if d.x is not None]
    assert list(points.x) == [-12.5]


def test_every_comparison_has_its_row() -> None:
    assert [row[0] for row in questions_table(CONTROLS).rows] == [c.arm for c in CONTROLS]
    assert controls_table([]).rows == ()


@pytest.mark.notebook
def test_the_chapter_passes_on_a_handful_of_questions(
    made_run: Workspace, made_questions: list[Question], tmp_path: Path
) -> None:
    run = Workspace(shutil.copytree(made_run.root, tmp_path / "runs" / "small"))
    unsure = {"A": "Warfarin", "B": "Heparin"}
    asked = [*made_questions, Question(id="nowhere", question="Which drug is older?", options=unsure, answer="A")]
    write_questions(tmp_path / "questions.jsonl", asked)
    profile = tmp_path / "few.yaml"
    profile.write_text("extends: test\nloop: {pages_shown: 2, summaries_shown: 2}\n")
    begin_stage(run.root, "indexing", load_profile("test")).finish()
    (tmp_path / "notebooks").mkdir()
    shutil.copy(NOTEBOOKS / f"{NAME}.ipynb", tmp_path / "notebooks")
    (tmp_path / "pyproject.toml").write_text("")
    done = run_chapters(
        tmp_path / "notebooks",
        run.root,
        profile=str(profile),
        parameters={"questions_file": "questions.jsonl"},
        progress=lambda _: None,
    )
    assert done == [NAME]
    metrics = read_stage(run.root, "controls", made_by="this test").metrics
    assert len(metrics["controls"]) == len(CONTROLS)
    by_arm = {(c["control"]["arm"], c["control"]["reference"]): c for c in metrics["controls"]}
    assert by_arm["single_on_iterated", "medvrag"]["contrast"]["n"] == 1
    assert by_arm["page_text", "medvrag"]["changed"]["count"] == 0, "the embedded reader reads the same words"
    assert "placebo_other_question" in (run.notebooks / f"{NAME}.ipynb").read_text(encoding="utf-8")
