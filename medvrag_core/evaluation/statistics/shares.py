"""Shares of questions and ratios of what belongs to questions, each with its interval."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from medvrag_core.evaluation.statistics.means import resampled_sums
from medvrag_core.evaluation.statistics.proportions import wilson
from medvrag_core.evaluation.statistics.resampling import percentile_interval
from medvrag_core.records import Record
from medvrag_core.settings import EvaluationSettings


class Share(Record):
    """``count`` of ``n`` with the Wilson interval; ``share`` is 0 and the interval 0 to 1 where ``n`` is 0."""

    count: int
    n: int
    share: float
    low: float
    high: float


def share_of(count: int, n: int, *, confidence: float = 0.95) -> Share:
    """The share of ``count`` in ``n``.

    >>> found = share_of(3, 4)
    >>> found.share, round(found.low, 2), round(found.high, 2)
    (0.75, 0.3, 0.95)
    """
    low, high = wilson(count, n, confidence=confidence)
    return Share(count=count, n=n, share=count / n if n else 0.0, low=low, high=high)


class Ratio(Record):
    """``hits`` of ``total`` things that belong to ``n`` questions; the interval resamples questions, not things."""

    hits: int
    total: int
    n: int
    ratio: float
    low: float
    high: float


def ratio_of(hits: Sequence[int], totals: Sequence[int], settings: EvaluationSettings | None = None) -> Ratio:
    """Hits of all questions over the totals of all questions, with a percentile bootstrap over questions.

    Where all questions have the same ratio, resampling shows no uncertainty; the interval is then Wilson's of that
    ratio in as many questions. Without a question the ratio is 0 and the interval 0 to 1.

    Parameters
    ----------
    hits, totals : of every question, shape (n,); totals are at least 1, hits at most the total
    settings : confidence, samples and seed of the bootstrap

    >>> ratio_of([1, 0], [2, 1]).ratio
    0.3333333333333333
    """
    settings = settings or EvaluationSettings()
    n, hit, total = len(hits), sum(hits), sum(totals)
    ratio = hit / total if total else 0.0
    if len({h / t for h, t in zip(hits, totals, strict=True)}) < 2:
        low, high = wilson(round(ratio * n), n, confidence=settings.confidence)
    else:
        drawn = resampled_sums(np.array([hits, totals], dtype=np.float64).T, settings)
        low, high = percentile_interval(drawn[:, 0] / drawn[:, 1], settings.confidence)
    return Ratio(hits=hit, total=total, n=n, ratio=ratio, low=min(low, ratio), high=max(high, ratio))
