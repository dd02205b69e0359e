"""Right, wrong, unparsed or error: the counts behind every accuracy in the book."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Self

from pydantic import Field, model_validator

from medvrag_core.errors import InputError, MedvragError, MismatchError
from medvrag_core.evaluation.endings import Answered
from medvrag_core.evaluation.statistics.proportions import wilson
from medvrag_core.records import Question, Record


class AccuracyReport(Record):
    """Outcome of one system on one set of questions.

    Every question asked is in exactly one state: ``correct``, ``wrong``, ``unparsed``, ``truncated``, ``refused``,
    ``errors`` or ``missing``; counts that do not add up make the report refuse. Every rate is a share of ``n``, so
    unparsed, cut and refused replies and errors count as wrong (paper section 3.4). ``low`` and ``high`` bound
    ``accuracy`` (Wilson).
    """

    system: str
    profile: str
    n: int = Field(ge=1, description="questions with a stored outcome")
    expected: int = Field(ge=1, description="questions that were asked to be answered")
    correct: int = Field(ge=0)
    wrong: int = Field(ge=0, description="answered, but not with the gold option")
    unparsed: int = Field(ge=0, description="replies from which no option could be read")
    truncated: int = Field(0, ge=0, description="replies that the token limit cut")
    refused: int = Field(0, ge=0, description="replies that the model or its filter refused")
    errors: int = Field(ge=0, description="questions that a fault ended before a reply")
    missing: int = Field(0, ge=0, description="questions asked that have no outcome yet")
    accuracy: float
    unparsed_rate: float
    error_rate: float
    low: float
    high: float
    complete: bool = Field(description="every expected question has an outcome and none is an error")

    @model_validator(mode="after")
    def _counts_add_up(self) -> Self:
        states = (self.correct, self.wrong, self.unparsed, self.truncated, self.refused, self.errors)
        if sum(states) != self.n:
            raise ValueError("the states of the questions do not add up to n")
        if self.n + self.missing != self.expected:
            raise ValueError("outcomes and missing questions do not add up to the questions asked")
        # An accuracy that is no fraction of n cannot come from n questions (GRIM).
        if self.accuracy != self.correct / self.n:
            raise ValueError("accuracy is not correct / n")
        return self


def is_correct(question: Question, label: str | None) -> bool:
    """Whether ``label`` is the gold option; no label is wrong.

    >>> q = Question(id="q", question="?", options={"A": "x", "B": "y"}, answer="B")
    >>> is_correct(q, "B"), is_correct(q, "A"), is_correct(q, None)
    (True, False, False)
    """
    if question.answer is None:
        raise InputError(f"question '{question.id}' has no gold answer", way_out="add the field 'answer' to score it")
    return label == question.answer


def score(trace: Answered) -> bool:
    """Whether a trace ends in the gold option.

    Raises :class:`MedvragError` when the trace contradicts itself, :class:`MismatchError` when its
    stored ``correct`` is not what its label and gold answer say.
    """
    where = f"trace of question '{trace.question.id}' ({trace.system})"
    if (trace.outcome == "answered") != (trace.label is not None):
        raise MedvragError(f"{where}: outcome '{trace.outcome}' does not go with label {trace.label!r}")
    if trace.label is not None and trace.label not in trace.question.options:
        raise MedvragError(f"{where}: label {trace.label!r} is not among the options")
    correct = is_correct(trace.question, trace.label)
    if trace.correct is not None and trace.correct != correct:
        raise MismatchError(f"{where}: stored as correct={trace.correct}, but its label says {correct}")
    return correct


def accuracy_report(
    traces: Sequence[Answered], *, expected: int | None = None, confidence: float = 0.95
) -> AccuracyReport:
    """Count the outcomes of one system.

    Parameters
    ----------
    traces : one trace (or ending) a question, all of one system and profile
    expected : number of questions the run was asked to answer; ``None``: as many as there are traces
    confidence : of the Wilson interval

    Raises
    ------
    InputError : no trace, a question twice, several systems, or a question without gold answer
    MedvragError : a trace contradicts itself, or there are more traces than questions
    """
    require_one_arm(traces)
    n = len(traces)
    if expected is not None and n > expected:
        raise MedvragError(f"{n} traces for {expected} questions", way_out="remove traces of other question files")
    states = Counter("correct" if score(t) else "wrong" if t.outcome == "answered" else t.outcome for t in traces)
    low, high = wilson(states["correct"], n, confidence=confidence)
    return AccuracyReport(
        system=traces[0].system,
        profile=traces[0].profile,
        n=n,
        expected=n if expected is None else expected,
        correct=states["correct"],
        wrong=states["wrong"],
        unparsed=states["unparsed"],
        truncated=states["truncated"],
        refused=states["refused"],
        errors=states["error"],
        missing=0 if expected is None else expected - n,
        accuracy=states["correct"] / n,
        unparsed_rate=states["unparsed"] / n,
        error_rate=states["error"] / n,
        low=low,
        high=high,
        complete=states["error"] == 0 and expected in (None, n),
    )


def require_one_arm(traces: Sequence[Answered]) -> None:
    """Refuse an empty list, a question that stands twice, and traces of several systems or settings."""
    if not traces:
        raise InputError("there is no trace to report on", way_out="answer questions first: medvrag run")
    arms = sorted({f"{t.system} ({t.profile}, {t.fingerprint})" for t in traces})
    if len(arms) > 1:
        raise InputError(f"traces of {len(arms)} arms in one report: {'; '.join(arms)}", way_out="report one at a time")
    repeated = [i for i, count in Counter(t.question.id for t in traces).items() if count > 1]
    if repeated:
        raise InputError(f"question '{repeated[0]}' has more than one trace in system '{traces[0].system}'")
