"""The recorded labels of a small judge, which chapter 03 shows."""

from __future__ import annotations

from pathlib import Path

from medvrag_core.evaluation.labels.judge import JudgeReport, prompt_version
from medvrag_core.evaluation.labels.relevance import read_labels
from medvrag_core.evaluation.questions import read_questions

DEMO = Path(__file__).resolve().parents[2] / "data" / "demo"
LABELS = read_labels(DEMO / "recorded" / "judge_labels.jsonl")
REPORT = JudgeReport.from_json((DEMO / "recorded" / "judge_report.json").read_bytes())


def test_they_were_made_with_the_prompt_in_force() -> None:
    assert REPORT.prompt_version == prompt_version(), "the prompt changed: record anew with data/demo/record_judge.py"


def test_the_report_counts_the_labels() -> None:
    said = [label.label for label in LABELS]
    assert (said.count("relevant"), said.count("not_relevant")) == (REPORT.relevant, REPORT.not_relevant)
    assert said.count(None) == sum(REPORT.unread.values())
    assert (len(LABELS), REPORT.failed) == (REPORT.pairs, {})
    assert {label.rater for label in LABELS} == {REPORT.model}
    # Chapter 03 says so in words.
    assert REPORT.relevant == 0


def test_they_speak_of_one_question_an_article_of_the_demo(built: Path) -> None:
    questions = {q.id for q in read_questions(built / "questions.jsonl")}
    asked = {label.question_id for label in LABELS}
    assert asked <= {q for q in questions if q.endswith("-01")} and len(asked) == REPORT.questions
    articles = {path.stem for path in (built / "pdf").glob("*.pdf")}
    assert {label.page_id.split("#")[0] for label in LABELS} <= articles
