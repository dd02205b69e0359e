"""Chapter 07 on a run of three questions, with files of doubts and of classes given by hand."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from medvrag_core.evaluation.errors.by_hand import ErrorLabel, SuspectGold
from medvrag_core.profiles.load import load_profile
from medvrag_core.records import Question
from medvrag_core.runs.stage import begin_stage, read_stage
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.answering import answer_all
from medvrag_core.systems.resources import Resources
from medvrag_core.views.publishing.runner import run_chapters

NAME = "07_error_analysis"
NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"


@pytest.mark.notebook
def test_it_passes_on_a_handful_of_questions(
    made_run: Workspace, made_questions: list[Question], tmp_path: Path
) -> None:
    run = Workspace(tmp_path / "runs" / "small")
    shutil.copytree(made_run.root, run.root)
    profile = load_profile("test")
    # Gold answers moved by one, so that there are wrong answers to classify.
    questions = [q.model_copy(update={"answer": list(q.options)[-1]}) for q in made_questions]
    resources = Resources(run, profile)
    for arm in ("page_single", "medvrag"):
        traces = answer_all(arm, resources, questions, progress=False)
    resources.close()
    wrong = [trace.question.id for trace in traces if not trace.correct]
    doubts, labels = tmp_path / "doubts.jsonl", tmp_path / "labels.jsonl"
    doubts.write_text(SuspectGold(id=wrong[0], reason="moved: on purpose").to_json(), encoding="utf-8")
    labels.write_text(ErrorLabel(id=wrong[0], error_class="suspect_gold", rater="ana").to_json(), encoding="utf-8")
    begin_stage(run.root, "ablations", profile).finish()
    (tmp_path / "notebooks").mkdir()
    shutil.copy(NOTEBOOKS / f"{NAME}.ipynb", tmp_path / "notebooks")
    (tmp_path / "pyproject.toml").write_text("")
    done = run_chapters(
        tmp_path / "notebooks", run.root, profile="test", progress=lambda _: None,
        parameters={"suspect_file": str(doubts), "labels_file": str(labels)},
    )  # fmt: skip
    assert done == [NAME]
    metrics = read_stage(run.root, "error_analysis", made_by="this test").metrics
    counts = {row["error_class"]: row["count"] for row in metrics["taxonomy"]["rows"]}
    assert (counts["suspect_gold"], sum(counts.values())) == (1, len(wrong))
    assert metrics["taxonomy"]["suspect_reasons"] == {"moved": 1}
    assert sum(row["right"]["n"] for row in metrics["evidence_flow"]["rows"]) == len(questions)
    executed = json.loads((run.notebooks / f"{NAME}.ipynb").read_text(encoding="utf-8"))
    assert "1 of 1: 100.0%" in json.dumps(executed)
