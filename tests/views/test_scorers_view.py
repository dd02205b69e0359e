from __future__ import annotations

from pathlib import Path

import pytest

from medvrag_core.evaluation.endings import Ending
from medvrag_core.evaluation.report import run_report
from medvrag_core.evaluation.scorers.report import ScorersReport, scorers_report
from medvrag_core.records import Question
from medvrag_core.views.report_text import report_text
from medvrag_core.views.scorers_view import scorers_table, scorers_text

TEXTS = {"q1": "<answer>A</answer>", "q2": "The answer is A.", "q3": "<b>No</b>", "q4": "<answer>B</answer>"}


@pytest.fixture
def endings() -> list[Ending]:
    return [
        Ending(
            system="<arm>",
            profile="test",
            fingerprint="f",
            question=Question(id=id_, question="?", options={"A": "x", "B": "y"}, answer="A"),
            outcome="answered" if label else "unparsed",
            label=label,
            seconds=1.0,
            rounds_used=1,
            reply=text,
            finish_reason="stop",
            option_scores={},
        )
        for (id_, text), label in zip(TEXTS.items(), ("A", None, None, "B"), strict=True)
    ]


@pytest.fixture
def report(endings: list[Ending]) -> ScorersReport:
    return scorers_report(endings)


def test_every_arm_stands_under_each_scorer(report: ScorersReport) -> None:
    table = scorers_table([report, report])
    assert [row[1] for row in table.rows] == ["strict", "mirage", "lenient"] * 2
    assert [row[2:4] for row in table.rows[:3]] == [("1 of 4", "25.0%"), ("3 of 4", "75.0%"), ("2 of 4", "50.0%")]
    assert [row[5] for row in table.rows[:3]] == ["–", "+50.0", "+25.0"]
    assert [row[7] for row in table.rows[:3]] == ["0", "2", "0"]
    assert table.rows[0][8] == "no_tag 2" and table.rows[1][8] == "fallback 2"
    assert "<arm>" not in table.html


def test_text_of_a_run(report: ScorersReport, endings: list[Ending]) -> None:
    text = scorers_text(report)
    assert text.splitlines()[0] == "<arm> (test): 4 of 4 questions, errors 0.00%"
    assert "strict   1/4 = 25.00%" in text and "(no_tag 2)" in text and "+50.00 points  (fallback 2)" in text
    odd = report.model_copy(update={"read_anew_differently": ("q1",), "complete": False})
    assert "INCOMPLETE" in scorers_text(odd) and "1 stored label(s) differ" in scorers_text(odd)
    whole = report_text(run_report(endings), Path("runs/x"))
    assert "  accuracy                    0.25" in whole and text.splitlines()[1] in whole
    assert "scorers" not in whole.replace("three scorers", "")
