"""Rankings compared question by question: won and lost, interval, sign-flip test, Holm over the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from pydantic import Field

from medvrag_core.errors import InputError
from medvrag_core.evaluation.retrieval.metrics import QuestionScores
from medvrag_core.evaluation.statistics.means import paired_values
from medvrag_core.evaluation.statistics.proportions import holm
from medvrag_core.evaluation.statistics.resampling import (
    bootstrap_set_means,
    has_a_set_without_spread,
    percentile_interval,
    sign_flip_p_values,
    standard_error,
    t_interval,
)
from medvrag_core.records import Record
from medvrag_core.settings import EvaluationSettings

METRICS = ("recall@10", "nDCG@10")
"""What is tested. Every further metric costs power, since Holm counts all rows of a table."""


class PairedRetrieval(Record):
    """Ranking ``b`` against ranking ``a`` in one metric on the same questions; positive differences favor ``b``."""

    a: str
    b: str
    metric: str
    n: int
    mean_a: float
    mean_b: float
    won: int = Field(description="questions with a higher value under b")
    lost: int = Field(description="questions with a higher value under a")
    difference: float
    low: float = Field(description="bootstrap interval over questions; widened by a t interval where nothing differs")
    high: float
    confidence: float
    p_value: float = Field(description="two-sided sign-flip permutation test")
    p_adjusted: float = Field(description="Holm over the family")
    family: int = Field(description="comparisons that were made together: all rows of the table")


def paired_retrieval(
    scores: Mapping[str, QuestionScores],
    baseline: str,
    settings: EvaluationSettings,
    *,
    metrics: Sequence[str] = METRICS,
) -> tuple[PairedRetrieval, ...]:
    """Every ranking against the baseline, as one family of tests.

    Raises
    ------
    InputError : the baseline or a metric is not there, or the rankings were scored on different questions
    """
    return paired_family(
        scores, [(baseline, other) for other in scores if other != baseline], settings, metrics=metrics
    )


def paired_family(
    scores: Mapping[str, QuestionScores],
    pairs: Sequence[tuple[str, str]],
    settings: EvaluationSettings,
    *,
    metrics: Sequence[str] = METRICS,
) -> tuple[PairedRetrieval, ...]:
    """Any pairs of rankings, the one that the other is held against first; one family, refused as above."""
    for name in [name for pair in pairs for name in pair if name not in scores]:
        raise InputError(f"there is no ranking '{name}' to compare with", way_out=f"choose of {', '.join(scores)}")
    rows = [_compared(a, b, scores, metric, settings) for metric in metrics for a, b in pairs]
    adjusted = holm([row.p_value for row in rows])
    return tuple(
        row.model_copy(update={"p_adjusted": p, "family": len(rows)}) for row, p in zip(rows, adjusted, strict=True)
    )


def _compared(
    a: str, b: str, scores: Mapping[str, QuestionScores], metric: str, settings: EvaluationSettings
) -> PairedRetrieval:
    first, second = scores[a], scores[b]
    if first.ids != second.ids:
        odd = sorted({*first.ids} ^ {*second.ids})
        raise InputError(
            f"'{a}' and '{b}' were scored on different questions ({len(odd)} differ, for example '{odd[0]}')",
            way_out="rank and score the same questions",
        )
    if metric not in first.values or metric not in second.values:
        raise InputError(f"'{metric}' was not measured", way_out=f"choose of {', '.join(first.values)}")
    pairs = paired_values(first.values[metric], second.values[metric])
    d, whole = pairs.differences, np.ones(1)
    draws = bootstrap_set_means(pairs, samples=settings.bootstrap_samples, seed=settings.seed)
    low, high = percentile_interval(draws[:, 0], settings.confidence)
    if has_a_set_without_spread(pairs):
        # As in contrasts.py: questions without any difference, of which no resample shows one, prove no equality.
        wider = t_interval(float(d.mean()), standard_error(pairs, whole), settings.confidence)
        low, high = max(-1.0, min(low, wider[0])), min(1.0, max(high, wider[1]))
    tested = sign_flip_p_values(pairs, whole[None, :], samples=settings.bootstrap_samples, seed=settings.seed)
    return PairedRetrieval(
        a=a,
        b=b,
        metric=metric,
        n=len(d),
        mean_a=float(pairs.a.mean()),
        mean_b=float(pairs.b.mean()),
        won=int((d > 0).sum()),
        lost=int((d < 0).sum()),
        difference=float(d.mean()),
        low=low,
        high=high,
        confidence=settings.confidence,
        p_value=float(tested[0]),
        p_adjusted=float(tested[0]),
        family=1,
    )
