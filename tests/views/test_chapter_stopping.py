"""Chapter 13 on a run of three questions, with a reader that tells its shares and one that does not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from medvrag_core.profiles.load import load_profile
from medvrag_core.records import Question
from medvrag_core.runs.stage import begin_stage, read_stage
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.answering import answer_all
from medvrag_core.systems.resources import Resources
from medvrag_core.views.publishing.runner import run_chapters

NAME = "13_stopping_and_confidence"
NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"


@pytest.mark.notebook
@pytest.mark.parametrize("tells", [True, False])
def test_it_passes_on_a_handful_of_questions(
    made_run: Workspace, made_questions: list[Question], tmp_path: Path, tells: bool
) -> None:
    run = Workspace(tmp_path / "runs" / "small")
    shutil.copytree(made_run.root, run.root)
    profile = load_profile("test")
    resources = Resources(run, profile)
    for arm in ("page_single", "medvrag"):
        answer_all(arm, resources, made_questions, progress=False)
    resources.close()
    if not tells:
        for file in run.root.glob("systems/*/traces/*.json"):
            trace = json.loads(file.read_text(encoding="utf-8"))
            for round_ in trace["rounds"]:
                round_["reply"]["option_scores"] = {}
            file.write_text(json.dumps(trace), encoding="utf-8")
    begin_stage(run.root, "ablations", profile).finish()
    (tmp_path / "notebooks").mkdir()
    shutil.copy(NOTEBOOKS / f"{NAME}.ipynb", tmp_path / "notebooks")
    (tmp_path / "pyproject.toml").write_text("")
    assert run_chapters(tmp_path / "notebooks", run.root, profile="test", progress=lambda _: None) == [NAME]
    metrics = read_stage(run.root, "stopping_and_confidence", made_by="this test").metrics
    assert metrics["gain"]["n"] == metrics["stop_rule"]["n"] == len(made_questions)
    assert len(metrics["calibration"]) == len(metrics["selective"]) == (2 if tells else 0)
    executed = (run.notebooks / f"{NAME}.ipynb").read_text(encoding="utf-8")
    assert ("tells no share of its options" in executed) == (not tells)
