"""Paired statistics: every arm answers the same questions, so differences are taken question by question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from pydantic import Field

from medvrag_core.errors import InputError
from medvrag_core.evaluation.proportions import detectable_difference, holm, mcnemar, questions_needed, wilson
from medvrag_core.evaluation.scoring import require_one_arm, score
from medvrag_core.records import Record, Trace
from medvrag_core.settings import EvaluationSettings

__all__ = [
    "PairedComparison",
    "compare_arms",
    "compare_sequence",
    "detectable_difference",
    "holm",
    "mcnemar",
    "questions_needed",
    "wilson",
]


class PairedComparison(Record):
    """Arm ``b`` against arm ``a`` on the same questions; positive differences favor ``b``."""

    a: str
    b: str
    n: int
    correct_a: int
    correct_b: int
    accuracy_a: float
    accuracy_b: float
    won: int = Field(description="questions that only b answers right")
    lost: int = Field(description="questions that only a answers right")
    difference: float = Field(description="accuracy of b minus accuracy of a, in points of a hundred")
    low: float = Field(description="lower end of the paired percentile bootstrap interval, in points")
    high: float
    confidence: float
    p_value: float = Field(description="exact two-sided McNemar test")
    discordance: float = Field(description="share of questions on which the arms differ")
    detectable: float | None = Field(
        description="smallest true difference in points found with 80% power at this n and discordance; "
        "null when even a one-sided split of the discordant questions would be missed"
    )


def compare_arms(a: Sequence[Trace], b: Sequence[Trace], settings: EvaluationSettings) -> PairedComparison:
    """Compare two arms on the same questions.

    Unparsed replies and errors count as wrong in both arms. The interval resamples questions with
    replacement; since only wins, losses and ties matter, it draws their counts, so neither the
    order of the traces nor of the questions changes the result.

    Raises
    ------
    InputError : the arms did not answer the same questions (ids or gold answers differ)
    """
    require_one_arm(a)
    require_one_arm(b)
    right_a = {t.question.id: score(t) for t in a}
    right_b = {t.question.id: score(t) for t in b}
    _require_same_questions(a, b)
    n = len(right_a)
    won = sum(right_b[i] and not right_a[i] for i in right_a)
    lost = sum(right_a[i] and not right_b[i] for i in right_a)
    low, high = _bootstrap_interval(n, won, lost, settings)
    correct_a, correct_b = sum(right_a.values()), sum(right_b.values())
    return PairedComparison(
        a=a[0].system,
        b=b[0].system,
        n=n,
        correct_a=correct_a,
        correct_b=correct_b,
        accuracy_a=correct_a / n,
        accuracy_b=correct_b / n,
        won=won,
        lost=lost,
        difference=100 * (won - lost) / n,
        low=low,
        high=high,
        confidence=settings.confidence,
        p_value=mcnemar(won, lost),
        discordance=(won + lost) / n,
        detectable=detectable_difference(n, (won + lost) / n, alpha=1 - settings.confidence),
    )


def compare_sequence(arms: Mapping[str, Sequence[Trace]], settings: EvaluationSettings) -> list[PairedComparison]:
    """Each arm against the one before it, then the last against the first (the paper's Table 1 read downwards)."""
    ordered = list(arms.values())
    steps = [compare_arms(a, b, settings) for a, b in pairwise(ordered)]
    return [*steps, compare_arms(ordered[0], ordered[-1], settings)] if len(ordered) > 2 else steps


def _require_same_questions(a: Sequence[Trace], b: Sequence[Trace]) -> None:
    gold_a = {t.question.id: t.question.answer for t in a}
    gold_b = {t.question.id: t.question.answer for t in b}
    only_a, only_b = sorted(gold_a.keys() - gold_b.keys()), sorted(gold_b.keys() - gold_a.keys())
    if only_a or only_b:
        parts = [
            f"only '{arm}' answered {', '.join(ids[:5])}{f' and {len(ids) - 5} more' if len(ids) > 5 else ''}"
            for arm, ids in ((a[0].system, only_a), (b[0].system, only_b))
            if ids
        ]
        raise InputError(f"the arms answered different questions: {'; '.join(parts)}", way_out="run both on one file")
    changed = sorted(i for i in gold_a if gold_a[i] != gold_b[i])
    if changed:
        raise InputError(f"gold answer of question '{changed[0]}' differs between the arms")


def _bootstrap_interval(n: int, won: int, lost: int, settings: EvaluationSettings) -> tuple[float, float]:
    rng = np.random.default_rng(settings.seed)
    shares = np.array([won, lost, n - won - lost]) / n
    draws = rng.multinomial(n, shares, size=settings.bootstrap_samples)
    differences = 100 * (draws[:, 0] - draws[:, 1]) / n
    tail = (1 - settings.confidence) / 2
    low, high = np.quantile(differences, [tail, 1 - tail])
    return float(low), float(high)
