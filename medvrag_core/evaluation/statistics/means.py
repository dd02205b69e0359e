"""A mean over questions with its interval."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from medvrag_core.errors import InputError
from medvrag_core.evaluation.statistics.estimands import ONE_SET, Pairs
from medvrag_core.evaluation.statistics.proportions import wilson
from medvrag_core.evaluation.statistics.resampling import bootstrap_set_means, percentile_interval
from medvrag_core.records import Record
from medvrag_core.settings import EvaluationSettings

_SAME = 1e-12
_BLOCK = 200
"""Resamples that are drawn at one time; bounds the memory."""


class Estimate(Record):
    """A number with its interval."""

    value: float
    low: float
    high: float


def paired_values(a: ArrayLike, b: ArrayLike) -> Pairs:
    """Two values a question as one set of pairs; positive differences favor ``b``."""
    first, second = (np.asarray(side, dtype=np.float64) for side in (a, b))
    return Pairs((ONE_SET,), np.zeros(len(first), np.intp), first, second)


def mean_of(values: ArrayLike, settings: EvaluationSettings) -> Estimate:
    """Mean with the percentile bootstrap interval over questions.

    Where all questions have one value no resample shows any uncertainty; the interval is then Wilson's for that share
    of as many questions, so that ten of ten do not look like certainty. A single question shows nothing: 0 to 1.

    Parameters
    ----------
    values : between 0 and 1, shape (questions,)

    Raises
    ------
    InputError : there is no value, or one lies outside of 0 to 1

    >>> from medvrag_core.settings import EvaluationSettings
    >>> mean = mean_of([1.0, 1.0, 1.0], EvaluationSettings())
    >>> mean.value, round(mean.low, 2), mean.high
    (1.0, 0.44, 1.0)
    """
    found = np.asarray(values, dtype=np.float64)
    if found.size == 0 or not ((found >= 0) & (found <= 1)).all():
        raise InputError("a mean over questions needs values between 0 and 1, one a question at least")
    pairs = paired_values(np.zeros(len(found)), found)
    draws = bootstrap_set_means(pairs, samples=settings.bootstrap_samples, seed=settings.seed)
    return interval_around(float(found.mean()), draws[:, 0], len(found), settings)


def interval_around(
    value: float, draws: NDArray[np.float64], questions: int, settings: EvaluationSettings, *, lowest: float = 0.0
) -> Estimate:
    """Percentile interval of bootstrap draws around an estimate.

    Where no draw differs it is Wilson's for that share of as many questions, since agreement on a few questions is no
    certainty; below two questions nothing is known. Kappa (``lowest`` -1) keeps the interval of its draws.
    """
    if questions < 2 or not len(draws):
        low, high = lowest, 1.0
    elif np.ptp(draws) < _SAME and lowest == 0.0:
        low, high = wilson(round(value * questions), questions, confidence=settings.confidence)
    else:
        low, high = percentile_interval(draws, settings.confidence)
    return Estimate(value=value, low=min(low, value), high=max(high, value))


def resampled_sums(counts: NDArray[np.float64], settings: EvaluationSettings) -> NDArray[np.float64]:
    """Sums over questions drawn with replacement, shape (samples, columns).

    For pages of one question, which are not independent: the question is what is drawn. Questions with equal counts
    are drawn together, so that the work does not grow with their number.

    Parameters
    ----------
    counts : whatever is counted, a row a question, shape (questions, columns)
    """
    rows, times = np.unique(counts, axis=0, return_counts=True)
    rng = np.random.default_rng(settings.seed)
    drawn = rng.multinomial(len(counts), times / len(counts), size=settings.bootstrap_samples)
    return np.asarray(drawn @ rows, dtype=np.float64)


def resampled_means(values: NDArray[np.float64], *, samples: int, seed: int) -> NDArray[np.float64]:
    """Column means of rows drawn with replacement, shape (samples, columns); rows are questions.

    For values that nearly all differ, such as seconds; counts go faster through :func:`resampled_sums`. The columns of
    a question are drawn together.
    """
    rng = np.random.default_rng(seed)
    n = len(values)
    means = np.empty((samples, values.shape[1]))
    for start in range(0, samples, _BLOCK):
        rows = min(_BLOCK, samples - start)
        drawn = rng.integers(n, size=(rows, n)) + n * np.arange(rows)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=rows * n).reshape(rows, n)
        means[start : start + rows] = counts @ values / n
    return means
