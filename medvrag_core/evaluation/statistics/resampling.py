"""Sign-flip permutation and bootstrap within sets, by drawing counts instead of questions.

A question enters through its set and its difference alone, and with few seeds there are few different values.
Flipping the signs of m questions with the same absolute difference is a binomial draw, resampling a set is a
multinomial draw; both have exactly the distribution of the question-wise procedure at a fraction of its work.

Where questions come in clusters (near-duplicates), a cluster takes the place of the question: its signs flip together,
it is drawn as a whole, and standard errors sum over it (Miller 2024, section 2.2).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from medvrag_core.evaluation.statistics.estimands import Pairs

PERMUTATIONS = 100_000
"""Draws of the sign-flip test; the smallest p-value it can give is about 1 / 100,000."""

_SAME = 1e-9
_TINY = 1e-13
_DIGITS = 14


def sign_flip_p_values(
    pairs: Pairs, weights: NDArray[np.float64], *, samples: int = PERMUTATIONS, seed: int = 42
) -> NDArray[np.float64]:
    """Two-sided p-values of "the arms are exchangeable within every question", shape (estimates,).

    The statistics are weighted sums of the sets' mean differences, all on the same flips. A p-value is
    ``(hits + 1) / (samples + 1)``, so never 0.

    Parameters
    ----------
    pairs : differences by set
    weights : weight of every set's mean in every estimate, shape (estimates, sets)
    """
    scale = (weights / pairs.sizes)[:, pairs.of] * pairs.differences
    if pairs.cluster is not None:
        scale = np.vstack([np.bincount(pairs.cluster, weights=row) for row in scale])
    scale = np.round(scale[:, (np.abs(scale) > _TINY).any(axis=0)], _DIGITS)
    # Units that move all estimates by the same amounts are one draw; the first amount that is not 0 gives the sign.
    leading = np.take_along_axis(scale, (scale != 0).argmax(axis=0)[None], axis=0)
    units, counts = np.unique(scale * np.sign(leading), axis=1, return_counts=True)
    ups = np.random.default_rng(seed).binomial(counts, 0.5, size=(samples, len(counts)))
    drawn = np.abs((2 * ups - counts) @ units.T)
    seen = np.abs(weights @ set_means(pairs))
    hits = (drawn >= seen - _SAME).sum(axis=0)
    return np.asarray((hits + 1) / (samples + 1), dtype=np.float64)


def bootstrap_set_means(pairs: Pairs, *, samples: int, seed: int = 42) -> NDArray[np.float64]:
    """Mean difference of every set in every resample, shape (samples, sets).

    Sets keep their number of questions, or of clusters where there are some; a cluster in two sets is drawn in each
    of them by itself.
    """
    rng = np.random.default_rng(seed)
    means = np.empty((samples, len(pairs.names)))
    pieces = _pieces(pairs)
    for number in range(len(pairs.names)):
        here = pieces.of == number
        (n, total), counts = np.unique(
            np.stack([pieces.n[here], np.round(pieces.total[here], 9)]), axis=1, return_counts=True
        )
        drawn = rng.multinomial(counts.sum(), counts / counts.sum(), size=samples)
        means[:, number] = (drawn @ total) / (drawn @ n)
    return means


def percentile_interval(draws: NDArray[np.float64], confidence: float) -> tuple[float, float]:
    """Percentile bootstrap interval of the draws, shape (samples,)."""
    tail = (1 - confidence) / 2
    low, high = np.quantile(draws, [tail, 1 - tail])
    return float(low), float(high)


def bca_interval(
    draws: NDArray[np.float64], pairs: Pairs, weights: NDArray[np.float64], confidence: float
) -> tuple[float, float]:
    """Bias-corrected and accelerated interval of a weighted mean of set means.

    The acceleration comes from the influence values of all questions (or clusters), set by set (Davison and Hinkley
    1997, section 5.4); the bias counts half of the draws that equal the estimate, since differences of counts are
    lattice values. Falls back to the percentile interval where either is undefined.

    Parameters
    ----------
    draws : the estimate in every resample, shape (samples,)
    """
    from scipy.stats import norm

    estimate = float((weights * set_means(pairs)).sum())
    below = ((draws < estimate - _SAME).sum() + (np.abs(draws - estimate) <= _SAME).sum() / 2) / len(draws)
    pieces = _pieces(pairs)
    influence = (weights / pairs.sizes)[pieces.of] * _residuals(pairs, pieces)
    spread = float((influence**2).sum())
    if spread == 0 or not 0 < below < 1:
        return percentile_interval(draws, confidence)
    acceleration = float((influence**3).sum()) / (6 * spread**1.5)
    bias = norm.ppf(below)
    z = bias + norm.ppf([(1 - confidence) / 2, (1 + confidence) / 2])
    low, high = np.quantile(draws, norm.cdf(bias + z / (1 - acceleration * z)))
    return float(low), float(high)


def set_means(pairs: Pairs) -> NDArray[np.float64]:
    """Mean difference of every set, shape (sets,)."""
    return np.bincount(pairs.of, weights=pairs.differences, minlength=len(pairs.names)) / pairs.sizes


@dataclass(frozen=True)
class StandardError:
    """Standard error of an estimate, with its degrees of freedom (Welch and Satterthwaite)."""

    value: float
    df: float


def standard_error(pairs: Pairs, weights: NDArray[np.float64]) -> StandardError:
    """Stratified standard error of a weighted mean of set means, the question (or the cluster) being the unit.

    A set without any difference would have no variance, which its size cannot prove; it gets that of one
    discordant question.
    """
    pieces = _pieces(pairs)
    variance = _variances(pairs, pieces)
    parts = weights**2 * np.where(variance <= _TINY, pairs.sizes.astype(float) ** -2, variance)
    df = parts.sum() ** 2 / (parts**2 / np.maximum(np.bincount(pieces.of) - 1, 1)).sum()
    return StandardError(float(np.sqrt(parts.sum())), float(df))


def has_a_set_without_spread(pairs: Pairs) -> bool:
    """Whether all questions of some set have one difference, so that resampling it shows no uncertainty."""
    return bool((_variances(pairs, _pieces(pairs)) <= _TINY).any())


@dataclass(frozen=True)
class _Pieces:
    """The parts of clusters that lie within one set each; single questions where there are no clusters.

    ``of``: the set; ``n``: questions; ``total``: sum of their differences; all of shape (pieces,).
    """

    of: NDArray[np.intp]
    n: NDArray[np.float64]
    total: NDArray[np.float64]


def _pieces(pairs: Pairs) -> _Pieces:
    if pairs.cluster is None:
        return _Pieces(pairs.of, np.ones(len(pairs.of)), pairs.differences)
    keys = pairs.of * (int(pairs.cluster.max()) + 1) + pairs.cluster
    _, first, place = np.unique(keys, return_index=True, return_inverse=True)
    n, total = np.bincount(place), np.bincount(place, weights=pairs.differences)
    return _Pieces(pairs.of[first], n.astype(np.float64), total.astype(np.float64))


def _residuals(pairs: Pairs, pieces: _Pieces) -> NDArray[np.float64]:
    """How far each piece's total is from what the mean of its set expects."""
    return np.asarray(pieces.total - pieces.n * set_means(pairs)[pieces.of], dtype=np.float64)


def _variances(pairs: Pairs, pieces: _Pieces) -> NDArray[np.float64]:
    """Estimated variance of every set's mean, shape (sets,)."""
    squares = np.bincount(pieces.of, weights=_residuals(pairs, pieces) ** 2, minlength=len(pairs.names))
    count = np.bincount(pieces.of, minlength=len(pairs.names))
    return np.asarray(count / np.maximum(count - 1, 1) * squares / pairs.sizes.astype(float) ** 2, dtype=np.float64)


def equivalence_p_value(difference: float, error: StandardError, margin: float) -> float:
    """TOST: p-value of "the true difference is at least ``margin`` away from zero" (all in the same unit).

    The larger of the two one-sided t tests, as in ``statsmodels.stats.weightstats.ttost_paired`` for one set.
    """
    from scipy.stats import t

    above = t.sf((difference + margin) / error.value, error.df)
    below = t.cdf((difference - margin) / error.value, error.df)
    return float(max(above, below))


def t_interval(difference: float, error: StandardError, confidence: float) -> tuple[float, float]:
    """Symmetric interval from the t distribution."""
    from scipy.stats import t

    half = float(t.ppf((1 + confidence) / 2, error.df)) * error.value
    return difference - half, difference + half
