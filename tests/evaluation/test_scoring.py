from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from medvrag_core.errors import InputError, MedvragError, MismatchError
from medvrag_core.evaluation.scoring import AccuracyReport, accuracy_report, score
from medvrag_core.records import Trace

MakeTrace = Callable[..., Trace]


def test_bc12_an_unreadable_run_does_not_look_like_a_bad_model(make_trace: MakeTrace) -> None:
    labels = ["A"] * 5 + ["B"] * 2 + [None]
    traces = [make_trace(f"q{i}", label) for i, label in enumerate(labels)]
    traces += [make_trace(f"e{i}", None, outcome="error") for i in range(2)]
    report = accuracy_report(traces)
    assert (report.n, report.correct, report.wrong) == (10, 5, 2)
    assert report.accuracy == 5 / 10
    assert report.unparsed_rate == 1 / 10
    assert report.error_rate == 2 / 10
    assert not report.complete


@given(states=st.lists(st.sampled_from(["A", "B", None, "error"]), min_size=1, max_size=40))
def test_every_question_ends_in_exactly_one_state(states: list[str | None], make_trace: MakeTrace) -> None:
    traces = [
        make_trace(str(i), None, outcome="error") if s == "error" else make_trace(str(i), s)
        for i, s in enumerate(states)
    ]
    report = accuracy_report(traces)
    assert report.correct + report.wrong + report.unparsed + report.errors == report.n == len(states)
    assert report.accuracy == states.count("A") / len(states)
    assert report.low <= report.accuracy <= report.high
    assert report.complete == ("error" not in states)
    assert accuracy_report(traces[::-1]) == report


def test_missing_questions_make_a_report_incomplete(make_trace: MakeTrace) -> None:
    assert not accuracy_report([make_trace("q1")], expected=2).complete
    with pytest.raises(MedvragError, match="2 traces for 1"):
        accuracy_report([make_trace("q1"), make_trace("q2")], expected=1)


def test_reports_refuse_mixed_repeated_and_absent_traces(make_trace: MakeTrace) -> None:
    with pytest.raises(InputError, match="no trace"):
        accuracy_report([])
    with pytest.raises(InputError, match="'q1' has more than one trace"):
        accuracy_report([make_trace("q1"), make_trace("q1")])
    with pytest.raises(InputError, match="2 arms"):
        accuracy_report([make_trace("q1"), make_trace("q2", system="no_rag")])


def test_a_trace_that_contradicts_itself_is_refused(make_trace: MakeTrace) -> None:
    with pytest.raises(MismatchError, match="correct=False"):
        score(make_trace("q", "A").model_copy(update={"correct": False}))
    with pytest.raises(MedvragError, match="does not go with label"):
        score(make_trace("q", "A", outcome="unparsed"))
    with pytest.raises(MedvragError, match="not among the options"):
        score(make_trace("q", "Z"))
    unscored = make_trace("q").model_copy(update={"correct": None})
    with pytest.raises(InputError, match="no gold answer"):
        score(unscored.model_copy(update={"question": unscored.question.model_copy(update={"answer": None})}))


@pytest.mark.parametrize("change", [{"accuracy": 0.737}, {"wrong": 1}, {"expected": 5}])
def test_a_report_whose_numbers_do_not_go_together_cannot_be_made(
    make_trace: MakeTrace, change: dict[str, float]
) -> None:
    report = accuracy_report([make_trace(f"q{i}", "A" if i < 7 else "B") for i in range(10)])
    with pytest.raises(ValidationError):
        AccuracyReport.model_validate(report.model_dump() | change)
