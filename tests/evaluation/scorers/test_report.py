"""Three accuracies of one run side by side (cases BC-11 and BC-12)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from medvrag_core.errors import InputError
from medvrag_core.evaluation.scorers.report import reply_of, scorers_report
from medvrag_core.evaluation.scoring import accuracy_report
from medvrag_core.records import Trace

MakeTrace = Callable[..., Trace]
Said = Callable[..., Trace]


@pytest.fixture
def said(make_trace: MakeTrace) -> Said:
    """A trace that ended in this reply, with the label that the loop would have stored."""

    def make(id: str, text: str, label: str | None, *, finish: str = "stop", outcome: str | None = None) -> Trace:
        trace = make_trace(id, label, outcome=outcome)
        last = trace.rounds[-1]
        reply = last.reply.model_copy(update={"text": text, "finish_reason": finish})
        return trace.model_copy(update={"rounds": (last.model_copy(update={"reply": reply}),)})

    return make


def test_bc11_the_gap_between_the_scorers_is_shown(said: Said) -> None:
    traces = [
        said("q1", "<answer>A</answer>", "A"),
        said("q2", "<answer>B</answer>", "B"),
        said("q3", "I cannot tell from these pages.", None),
        said("q4", "The answer is A.", None),
    ]
    report = scorers_report(traces)
    assert (report.strict.accuracy, report.mirage.accuracy, report.lenient.accuracy) == (1 / 4, 3 / 4, 2 / 4)
    assert (report.mirage_gap, report.lenient_gap) == (2 / 4, 1 / 4)
    assert (report.strict.unparsed_rate, report.mirage.unparsed_rate, report.lenient.unparsed_rate) == (0.5, 0.5, 0.25)
    assert (report.strict.correct_by_fallback, report.mirage.correct_by_fallback) == (0, 2)
    assert report.strict.reasons == {"no_tag": 2}
    assert report.lenient.reasons == {"from_statement": 1, "no_tag": 1}
    assert report.read_anew_differently == ()
    assert type(report).from_json(report.to_json()) == report


def test_bc12_rates_are_of_all_questions_and_errors_make_a_run_incomplete(said: Said, make_trace: MakeTrace) -> None:
    traces = [said(f"r{i}", "<answer>A</answer>", "A") for i in range(5)]
    traces += [said(f"w{i}", "<answer>B</answer>", "B") for i in range(2)]
    traces += [said("empty", "", None, finish="empty")]
    traces += [make_trace(f"e{i}", None, outcome="error") for i in range(2)]
    report = scorers_report(traces)
    assert (report.n, report.strict.accuracy, report.strict.unparsed_rate, report.error_rate) == (10, 0.5, 0.1, 0.2)
    assert not report.complete
    for column in (report.strict, report.mirage, report.lenient):
        assert column.reasons["no_reply"] == 2
        assert column.low <= column.accuracy <= column.high
    assert report.mirage.correct == 5 + 1, "no letter for a fault, but one for each text without a letter"


def test_strict_column_and_headline_report_tell_the_same(said: Said) -> None:
    traces = [
        said("q1", "<answer>A</answer>", "A"),
        said("q2", "<answer>A</answer>", None, finish="truncated", outcome="truncated"),
        said("q3", "No.", None, finish="refused", outcome="refused"),
        said("q4", "<answer>A or B</answer>", None),
    ]
    report, headline = scorers_report(traces, expected=5), accuracy_report(traces, expected=5)
    assert (report.strict.correct, report.strict.accuracy) == (headline.correct, headline.accuracy)
    assert (report.strict.low, report.strict.high) == (headline.low, headline.high)
    assert report.strict.unparsed == headline.unparsed
    assert report.strict.unfinished == headline.truncated + headline.refused
    assert (report.n, report.expected, report.complete) == (4, 5, False)


def test_a_stored_label_that_strict_does_not_read_is_named(said: Said) -> None:
    traces = [said("q1", "<answer>B</answer>", "A"), said("q2", "<answer>A</answer>", "A")]
    assert scorers_report(traces).read_anew_differently == ("q1",)


def test_the_last_round_decides(make_trace: MakeTrace) -> None:
    trace = make_trace("q", "A", rounds=(((), (), ()), ((), (), ())))
    first, last = trace.rounds
    first = first.model_copy(update={"reply": first.reply.model_copy(update={"text": "<answer>B</answer>"})})
    last = last.model_copy(update={"reply": last.reply.model_copy(update={"text": "<answer>A</answer>"})})
    assert reply_of(trace.model_copy(update={"rounds": (first, last)})).reply == "<answer>A</answer>"
    assert reply_of(make_trace("q", None, outcome="error")).reply is None
    assert reply_of(make_trace("q", None, outcome="error", rounds=())).reply is None


def test_reports_refuse_what_the_headline_refuses(make_trace: MakeTrace) -> None:
    for traces in ([], [make_trace("q1"), make_trace("q1")], [make_trace("q1"), make_trace("q2", system="no_rag")]):
        with pytest.raises(InputError):
            scorers_report(traces)
