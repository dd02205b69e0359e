"""The three scorers side by side on one run, so that a gap between them is seen and not argued about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pydantic import Field

from medvrag_core.evaluation.endings import Answered, Ending, last_reply
from medvrag_core.evaluation.scorers.base import (
    SCORERS,
    UNFINISHED,
    ReplyToScore,
    ScoredReply,
    could_not_read,
    score_reply,
)
from medvrag_core.evaluation.scoring import accuracy_report
from medvrag_core.evaluation.statistics.proportions import wilson
from medvrag_core.records import Record


class ScorerColumn(Record):
    """One scorer on one run. Rates are shares of all ``n`` questions, so unreadable replies and errors are wrong."""

    correct: int
    accuracy: float
    low: float = Field(description="lower end of the 95% Wilson interval of `accuracy`")
    high: float
    unparsed: int = Field(description="whole replies in which the scorer found no option, also where it gave a letter")
    unparsed_rate: float
    unfinished: int = Field(description="replies that were cut or refused, and have no label for that")
    correct_by_fallback: int = Field(description="right answers that are handed-out letters; 0 but for `mirage`")
    reasons: dict[str, int] = Field(description="questions by reason code, plain readings left out")


class ScorersReport(Record):
    """Accuracy of one run under each scorer; ``strict`` is the headline (paper section 3.4)."""

    system: str
    profile: str
    n: int = Field(description="questions with a stored outcome")
    expected: int = Field(description="questions asked")
    complete: bool = Field(description="every question asked has an outcome and none is an error")
    error_rate: float = Field(description="questions that a fault ended before a reply; wrong under every scorer")
    strict: ScorerColumn
    mirage: ScorerColumn
    lenient: ScorerColumn
    mirage_gap: float = Field(description="accuracy of mirage minus that of strict")
    lenient_gap: float = Field(description="accuracy of lenient minus that of strict")
    read_anew_differently: tuple[str, ...] = Field(
        description="questions whose stored label is not the one that the strict scorer reads today"
    )


def scorers_report(traces: Sequence[Answered], *, expected: int | None = None) -> ScorersReport:
    """Score the last reply of every trace three times.

    Parameters
    ----------
    traces : one trace (or ending) a question, all of one system and profile
    expected : number of questions the run was asked to answer; ``None``: as many as there are traces

    Raises
    ------
    InputError, MedvragError : what :func:`~medvrag_core.evaluation.scoring.accuracy_report` raises
    """
    stored = accuracy_report(traces, expected=expected)
    replies = [reply_of(trace) for trace in traces]
    columns = {name: [score_reply(reply, name) for reply in replies] for name in SCORERS}
    strict, mirage, lenient = (_column(columns[name]) for name in SCORERS)
    return ScorersReport(
        system=stored.system,
        profile=stored.profile,
        n=stored.n,
        expected=stored.expected,
        complete=stored.complete,
        error_rate=stored.error_rate,
        strict=strict,
        mirage=mirage,
        lenient=lenient,
        mirage_gap=mirage.accuracy - strict.accuracy,
        lenient_gap=lenient.accuracy - strict.accuracy,
        read_anew_differently=tuple(
            trace.question.id
            for trace, scored in zip(traces, columns["strict"], strict=True)
            if trace.label != scored.label
        ),
    )


def reply_of(answered: Answered) -> ReplyToScore:
    """The reply that ended a question, as scorers take it; null where a fault ended the question."""
    if isinstance(answered, Ending):
        reply, finish = answered.reply, answered.finish_reason
    else:
        last = last_reply(answered)
        reply, finish = (None, None) if last is None else (last.text, last.finish_reason)
    question = answered.question
    return ReplyToScore(
        id=question.id, reply=reply, options=question.options, gold=question.answer, finish_reason=finish
    )


def _column(scored: Sequence[ScoredReply]) -> ScorerColumn:
    n = len(scored)
    correct = sum(one.correct is True for one in scored)
    unparsed = sum(map(could_not_read, scored))
    low, high = wilson(correct, n)
    return ScorerColumn(
        correct=correct,
        accuracy=correct / n,
        low=low,
        high=high,
        unparsed=unparsed,
        unparsed_rate=unparsed / n,
        unfinished=sum(one.reason in UNFINISHED for one in scored),
        correct_by_fallback=sum(one.correct is True and one.reason == "fallback" for one in scored),
        reasons=dict(sorted(Counter(one.reason for one in scored if one.reason).items())),
    )
