"""Accuracy by the kind of evidence a question needs, and by the number of pages it needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from medvrag_core.evaluation.scoring import require_one_arm, score
from medvrag_core.evaluation.statistics.proportions import wilson
from medvrag_core.records import Question, Record, Trace


class GroupRow(Record):
    """Questions that share one property, with the Wilson interval of their accuracy."""

    group: str
    n: int
    correct: int
    accuracy: float
    low: float
    high: float


def accuracy_by_evidence(traces: Sequence[Trace], *, confidence: float = 0.95) -> list[GroupRow]:
    """Rows for text, table, figure and layout, then for one, two, ... pages needed.

    Questions that do not say what they need stand in a group of their own, ``not labeled``.
    """
    require_one_arm(traces)

    def kind(q: Question) -> str:
        return f"evidence: {q.evidence or 'not labeled'}"

    def hops(q: Question) -> str:
        return "pages needed: " + (str(q.hops) if q.hops is not None else "not labeled")

    return [*_rows(traces, kind, confidence), *_rows(traces, hops, confidence)]


def _rows(traces: Sequence[Trace], group: Callable[[Question], str], confidence: float) -> list[GroupRow]:
    groups: dict[str, list[bool]] = {}
    for trace in traces:
        groups.setdefault(group(trace.question), []).append(score(trace))
    rows = []
    for name, results in sorted(groups.items()):
        n, correct = len(results), sum(results)
        low, high = wilson(correct, n, confidence=confidence)
        rows.append(GroupRow(group=name, n=n, correct=correct, accuracy=correct / n, low=low, high=high))
    return rows
