"""The one-page result of a run, written as ``report.json``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median

from pydantic import Field

from medvrag_core.evaluation.endings import Answered
from medvrag_core.evaluation.outcomes import ending_of
from medvrag_core.evaluation.retrieval.metrics import RetrievalReport, retrieval_report
from medvrag_core.evaluation.scorers.report import ScorersReport, scorers_report
from medvrag_core.evaluation.scoring import accuracy_report
from medvrag_core.models.outcomes import worth_asking_again
from medvrag_core.records import Record
from medvrag_core.runs.publish import write_text

STATES = ("correct", "wrong", "unparsed", "truncated", "refused", "errors", "missing")


class RunReport(Record):
    """Accuracy, retrieval, time and rounds of one system on one question file.

    Retrieval figures average over the questions that have gold pages and are null when there are
    none, or when the system retrieves nothing. A question that ended in an error before retrieval
    counts as 0 in them, as it does in the accuracy.
    """

    system: str
    profile: str
    n: int = Field(description="questions with a stored outcome")
    expected: int = Field(description="questions asked")
    complete: bool = Field(
        description="every question asked has an outcome, none is an error, and none leans on a filter call that "
        "failed for a fault of the server"
    )
    accuracy: float = Field(description="share of n answered with the gold option; unparsed and errors are wrong")
    accuracy_low: float = Field(description="lower end of the 95% Wilson interval")
    accuracy_high: float
    chance: float = Field(description="expected accuracy of guessing: mean of 1 / number of options")
    unparsed_rate: float
    error_rate: float
    outcomes: dict[str, int] = Field(description="questions by final state; they add up to `expected`")
    unparsed_reasons: dict[str, int] = Field(
        {}, description="unparsed questions by reason; `insufficient` is a system that abstained (evisrag)"
    )
    filter_fallbacks: dict[str, int] = Field(
        {}, description="questions with a filter call that gave no ranking, by reason"
    )
    questions_with_gold_pages: int
    recall_at_10: float | None = Field(description="of gold pages, in the Stage-1 ranking of the first round")
    recall_at_100: float | None = Field(description="of gold pages, in the Stage-1 ranking of the first round")
    ndcg_at_10: float | None = Field(description="of the Stage-1 ranking of the first round")
    filtered_recall_at_10: float | None = Field(
        description="of gold pages, among the first 10 the filter kept, round 1"
    )
    filtered_recall_at_100: float | None = Field(
        description="of gold pages, among the first 100 the filter kept, round 1"
    )
    seconds_per_question: float = Field(description="median wall-clock seconds")
    seconds_per_question_mean: float
    rounds: dict[int, int] = Field(description="questions by number of rounds used")
    mean_rounds: float
    scorers: ScorersReport = Field(description="the same replies under all three scorers; `strict` is the headline")


def run_report(answers: Sequence[Answered], expected: int | None = None) -> RunReport:
    """Report on one system from its traces, or from their endings.

    ``expected`` is the number of questions asked; fewer traces make the report incomplete. Raises
    what :func:`~medvrag_core.evaluation.scoring.accuracy_report` raises.
    """
    endings = [ending_of(answered) for answered in answers]
    accuracy = accuracy_report(endings, expected=expected)
    gold = {e.question.id: dict.fromkeys(e.question.gold_pages, 1) for e in endings if e.question.gold_pages}
    stage1 = _retrieval({e.question.id: e.stage1 for e in endings}, gold)
    filtered = _retrieval({e.question.id: e.kept for e in endings}, gold)
    seconds = [e.seconds for e in endings]
    fallbacks = dict(sorted(Counter(reason for e in endings for reason in e.fallbacks).items()))
    counts = Counter(e.rounds_used for e in endings)
    return RunReport(
        system=accuracy.system,
        profile=accuracy.profile,
        n=accuracy.n,
        expected=accuracy.expected,
        complete=accuracy.complete and not any(map(worth_asking_again, fallbacks)),
        accuracy=accuracy.accuracy,
        accuracy_low=accuracy.low,
        accuracy_high=accuracy.high,
        chance=fmean(1 / len(e.question.options) for e in endings),
        unparsed_rate=accuracy.unparsed_rate,
        error_rate=accuracy.error_rate,
        outcomes={state: getattr(accuracy, state) for state in STATES},
        unparsed_reasons=dict(sorted(Counter(e.reason for e in endings if e.outcome == "unparsed").items())),
        filter_fallbacks=fallbacks,
        questions_with_gold_pages=len(gold),
        recall_at_10=stage1.recall[10] if stage1 else None,
        recall_at_100=stage1.recall[100] if stage1 else None,
        ndcg_at_10=stage1.ndcg_at_10 if stage1 else None,
        filtered_recall_at_10=filtered.recall[10] if filtered else None,
        filtered_recall_at_100=filtered.recall[100] if filtered else None,
        seconds_per_question=median(seconds),
        seconds_per_question_mean=fmean(seconds),
        rounds=dict(sorted(counts.items())),
        mean_rounds=fmean(e.rounds_used for e in endings),
        scorers=scorers_report(endings, expected=expected),
    )


def write_report(path: Path, report: RunReport) -> None:
    """Publish a report as indented JSON."""
    write_text(path, report.model_dump_json(indent=1) + "\n")


def _retrieval(rankings: dict[str, tuple[str, ...]], gold: dict[str, dict[str, int]]) -> RetrievalReport | None:
    return retrieval_report(rankings, gold) if gold and any(rankings.values()) else None
