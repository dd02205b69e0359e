"""Chapter 15 on three questions, and its file on the command line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from medvrag_core.evaluation.questions import write_questions
from medvrag_core.profiles.load import load_profile
from medvrag_core.records import Question
from medvrag_core.runs.stage import begin_stage, read_stage
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems import base, retrievers
from medvrag_core.systems.prepare import save_profile
from medvrag_core.views.publishing.runner import run_chapters

NAME = "15_extend"
REPO = Path(__file__).resolve().parents[2]
OWN = REPO / "book" / "examples" / "own_system.py"


@pytest.mark.notebook
def test_it_passes_and_shows_what_is_refused(
    made_run: Workspace, made_questions: list[Question], tmp_path: Path
) -> None:
    run = Workspace(shutil.copytree(made_run.root, tmp_path / "runs" / "small"))
    write_questions(tmp_path / "questions.jsonl", made_questions)
    begin_stage(run.root, "indexing", load_profile("test")).finish()
    for folder in ("notebooks", "examples"):
        (tmp_path / folder).mkdir()
    shutil.copy(REPO / "notebooks" / f"{NAME}.ipynb", tmp_path / "notebooks")
    shutil.copy(OWN, tmp_path / "examples")
    (tmp_path / "pyproject.toml").write_text("")
    done = run_chapters(
        tmp_path / "notebooks",
        run.root,
        profile="test",
        parameters={"questions_file": "questions.jsonl", "example_file": "examples/own_system.py"},
        progress=lambda _: None,
    )
    assert done == [NAME]
    metrics = read_stage(run.root, "extend", made_by="this test").metrics
    assert metrics["refused"].startswith("stage Present needs 'decision', which no stage before it makes")
    assert "Filter" in metrics["refused"] and "KeepBest" in metrics["refused"]
    assert metrics["speechless"].startswith("the end of the pipeline needs 'given'")
    arms = {report["system"]: report for report in metrics["arms"]}
    assert list(arms) == ["medvrag", "page_single", "titles", "titles_spread", "titles_counted"]
    assert arms["titles_counted"]["n"] == 3 and arms["titles_counted"]["correct"] >= 2
    assert {(row["a"], row["b"]) for row in metrics["retrieval_paired"]} >= {("stage1", "title_words")}


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file under a path of the test's own, since a file runs once; whatever it registers is gone after the test."""
    base.catalog()
    monkeypatch.setattr(base, "_BASES", dict(base._BASES))
    monkeypatch.setattr(retrievers, "RETRIEVERS", dict(retrievers.RETRIEVERS))
    return Path(shutil.copy(OWN, tmp_path))


@pytest.fixture
def own_run(made_run: Workspace, tmp_path: Path) -> Workspace:
    """A finished run that may be written to."""
    run = Workspace(shutil.copytree(made_run.root, tmp_path / "run"))
    save_profile(run, load_profile("test"))
    return run


def test_the_file_runs_from_the_command_line(
    medvrag: Callable[..., SimpleNamespace],
    own: Path,
    own_run: Workspace,
    made_questions: list[Question],
    tmp_path: Path,
) -> None:
    write_questions(questions := tmp_path / "questions.jsonl", made_questions)
    told = medvrag("systems", "titles_counted", "--module", own, "--run", own_run.root)
    assert told.code == 0 and "Retrieve > OneOfEachArticle > Present > Read, 1 round at most" in told.out, told.err
    given = ("--module", own, "--questions", questions, "--out", own_run.root, "--json")
    ran = medvrag("run", "--system", "titles_counted", *given)
    report = json.loads(ran.out)
    assert ran.code == 0 and report["system"] == "titles_counted" and report["rounds"] == {"1": 3}, ran.err
    (trace, *_) = sorted(own_run.traces("titles_counted").glob("*.json"))
    (round_,) = json.loads(trace.read_text(encoding="utf-8"))["rounds"]
    articles = [page.partition("#")[0] for page in round_["shown"]]
    assert len(articles) == len(set(articles)) == 3, "the best page of each of three articles"
    assert round_["reply"]["model"] == "counting-1" and sum(round_["reply"]["option_scores"].values()) == 1


def test_titles_help_to_find_a_page_that_does_not_repeat_them(
    medvrag: Callable[..., SimpleNamespace], own: Path, own_run: Workspace, tmp_path: Path
) -> None:
    articles = own_run.corpus / "articles.jsonl"
    rows = [json.loads(line) for line in articles.read_text(encoding="utf-8").splitlines()]
    rows = [{**row, "title": "Podagra" if row["article_id"] == "gout" else ""} for row in rows]
    articles.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    queries = tmp_path / "queries.jsonl"
    queries.write_text(json.dumps({"id": "q", "text": "podagra monthly"}) + "\n", encoding="utf-8")
    given = ("--queries", queries, "--run", own_run.root, "--out", tmp_path / "out.trec", "-k", "2")
    done = medvrag("retrieve", "--module", own, "--retriever", "title_words", *given)
    assert done.code == 0, done.err
    lines = [line.split() for line in (tmp_path / "out.trec").read_text(encoding="utf-8").splitlines()]
    assert [line[2] for line in lines] == ["gout#p2", "gout#p1"]
