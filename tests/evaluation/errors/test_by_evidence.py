from __future__ import annotations

from medvrag_core.evaluation.errors.by_evidence import accuracy_by_evidence
from medvrag_core.records import Question, Trace


def trace(number: int, right: bool, evidence: str | None, hops: int | None) -> Trace:
    question = Question(
        id=f"q{number}", question="?", options={"A": "1", "B": "2"}, answer="A", evidence=evidence, hops=hops
    )
    label = "A" if right else "B"
    return Trace(
        system="s", profile="p", fingerprint="f", question=question, rounds=(), outcome="answered", label=label,
        correct=right, seconds=0.1,
    )  # fmt: skip


def test_every_question_counts_once_in_each_grouping() -> None:
    traces = [
        trace(1, True, "table", 1),
        trace(2, False, "table", 2),
        trace(3, True, "figure", 2),
        trace(4, True, None, None),
    ]
    rows = {row.group: (row.correct, row.n) for row in accuracy_by_evidence(traces)}
    assert rows == {
        "evidence: figure": (1, 1),
        "evidence: not labeled": (1, 1),
        "evidence: table": (1, 2),
        "pages needed: 1": (1, 1),
        "pages needed: 2": (1, 2),
        "pages needed: not labeled": (1, 1),
    }
