"""Whether a confidence of 70% is right 70% of the time, with what chance alone would show at this number of questions.

Bins hold about equally many questions. An ECE is never zero, not even for a perfectly calibrated system, and the less
so the fewer questions there are; so it stands beside what a calibrated system of the same confidences would show.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from medvrag_core.errors import InputError
from medvrag_core.evaluation.calibration.confidence import Confidences, Source
from medvrag_core.evaluation.statistics.means import resampled_means
from medvrag_core.evaluation.statistics.proportions import wilson
from medvrag_core.evaluation.statistics.resampling import percentile_interval
from medvrag_core.records import Record
from medvrag_core.settings import EvaluationSettings

BINS = 10
RESAMPLES = 2_000
"""Resamples and simulated outcomes at most; the smallest p-value is a 2,000th."""


class ReliabilityBin(Record):
    """Questions of similar confidence; ``low`` and ``high`` bound the share of right answers (Wilson)."""

    n: int
    correct: int
    least: float = Field(description="lowest confidence in the bin")
    most: float
    confidence: float = Field(description="mean confidence")
    accuracy: float
    low: float
    high: float


class Brier(Record):
    """Mean squared error of the confidence, and its parts: ``score = reliability - resolution + uncertainty + within``.

    The three-part decomposition of Murphy (1973) holds for one confidence a bin; ``within`` is what is left when they
    vary in the bins (Stephenson et al. 2008).
    """

    score: float
    reliability: float = Field(description="squared distance of confidence and accuracy; 0 is best")
    resolution: float = Field(description="squared distance of the bins' accuracies from the mean; more is better")
    uncertainty: float = Field(description="that of the outcomes themselves, whatever the confidence")
    within: float


class CalibrationReport(Record):
    """Confidence against outcomes of one arm."""

    system: str
    source: Source
    n: int
    unanswered: int = Field(description="questions without an answer, in no measure")
    accuracy: float
    mean_confidence: float
    gap: float = Field(description="mean confidence minus accuracy; above zero the system is too sure")
    gap_low: float = Field(description="bootstrap interval over questions; from Wilson's where all outcomes are equal")
    gap_high: float
    bins: tuple[ReliabilityBin, ...]
    ece: float = Field(description="mean distance of confidence and accuracy over bins of equal mass")
    ece_low: float = Field(
        description="bootstrap interval in the same bins, which lies high since resampling adds noise; from Wilson's "
        "interval of the accuracy where all outcomes are equal"
    )
    ece_high: float
    ece_by_chance: float = Field(description="mean ECE of simulated outcomes that are right as often as stated")
    ece_by_chance_high: float = Field(description="what 95% of these stay below (at confidence 0.95)")
    ece_beyond_chance: float = Field(description="the ECE less the mean by chance, not below zero")
    ece_p: float = Field(description="share of simulated calibrated outcomes with an ECE at least as large")
    brier: Brier
    log_loss: float | None = Field(description="in nats; null (infinite) where a wrong answer had the confidence 1")


def calibration_report(
    given: Confidences, settings: EvaluationSettings | None = None, *, bins: int = BINS
) -> CalibrationReport:
    """All measures of one arm; raises :class:`InputError` for fewer than one bin."""
    settings = settings or EvaluationSettings()
    confidence, right = given.confidence, given.right.astype(float)
    place = equal_mass_bins(confidence, bins)
    found = bin_ece(confidence, right, place)
    chance = _calibrated_eces(confidence, place, settings)
    # Resampled in the bins that were found: confidence minus outcome, a column a bin.
    by_bin = np.eye(place.max() + 1)[place] * (confidence - right)[:, None]
    drawn = resampled_means(by_bin, samples=min(RESAMPLES, settings.bootstrap_samples), seed=settings.seed)
    gap_low, gap_high = percentile_interval(drawn.sum(axis=1), settings.confidence)
    ece_low, ece_high = percentile_interval(np.abs(drawn).sum(axis=1), settings.confidence)
    if right.all() or not right.any():
        # No resample has another outcome than these, which proves no certainty: the accuracy can lie anywhere in its
        # Wilson interval.
        bounds = np.array(wilson(int(right.sum()), given.n, confidence=settings.confidence))
        said, share = np.bincount(place, weights=confidence) / np.bincount(place), np.bincount(place) / given.n
        gap_low, gap_high = min(gap_low, said @ share - bounds[1]), max(gap_high, said @ share - bounds[0])
        ece_low = min(ece_low, share @ np.abs(said - np.clip(said, *bounds)))
        ece_high = max(ece_high, share @ np.abs(said - bounds[:, None]).max(axis=0))
    return CalibrationReport(
        system=given.system,
        source=given.source,
        n=given.n,
        unanswered=given.unanswered,
        accuracy=float(right.mean()),
        mean_confidence=float(confidence.mean()),
        gap=float((confidence - right).mean()),
        gap_low=gap_low,
        gap_high=gap_high,
        bins=tuple(_bin(confidence[place == b], given.right[place == b], settings) for b in range(place.max() + 1)),
        ece=found,
        ece_low=ece_low,
        ece_high=ece_high,
        ece_by_chance=float(chance.mean()),
        ece_by_chance_high=float(np.quantile(chance, settings.confidence)),
        ece_beyond_chance=max(0.0, found - float(chance.mean())),
        ece_p=float((1 + (chance >= found - 1e-12).sum()) / (1 + len(chance))),
        brier=brier(confidence, right, place),
        log_loss=_log_loss(confidence, given.right),
    )


def equal_mass_bins(confidence: NDArray[np.float64], bins: int = BINS) -> NDArray[np.intp]:
    """The bin of every question, shape (n,); equal confidences always share a bin.

    Bins hold about ``n / bins`` questions; there are fewer of them where many confidences are equal.

    >>> equal_mass_bins(np.array([0.9, 0.1, 0.5, 0.5]), 2).tolist()
    [1, 0, 0, 0]
    """
    if bins < 1:
        raise InputError(f"{bins} bins", way_out="use one bin at least")
    ordered = np.sort(confidence)
    ends = np.ceil(len(ordered) * np.arange(1, bins) / bins).astype(int) - 1
    edges = np.unique(ordered[ends[ends >= 0]])
    # A confidence that equals an edge belongs below it; an edge at the top would leave an empty bin.
    return np.searchsorted(edges[edges < ordered[-1]], confidence, side="left").astype(np.intp)


def bin_ece(confidence: NDArray[np.float64], right: NDArray[np.float64], place: NDArray[np.intp]) -> float:
    """Expected calibration error: mean distance of accuracy and confidence over bins, weighted by questions."""
    return float(np.abs(np.bincount(place, weights=right - confidence)).sum() / len(confidence))


def brier(confidence: NDArray[np.float64], right: NDArray[np.float64], place: NDArray[np.intp]) -> Brier:
    """Brier score of "the answer is right" with its decomposition over the bins ``place``."""
    n, base = np.bincount(place), float(right.mean())
    said, happened = (np.bincount(place, weights=values) / n for values in (confidence, right))
    share = n / len(right)
    score = float(((confidence - right) ** 2).mean())
    reliability = float(share @ (said - happened) ** 2)
    resolution = float(share @ (happened - base) ** 2)
    uncertainty = base * (1 - base)
    return Brier(
        score=score,
        reliability=reliability,
        resolution=resolution,
        uncertainty=uncertainty,
        within=score - (reliability - resolution + uncertainty),
    )


def _log_loss(confidence: NDArray[np.float64], right: NDArray[np.bool_]) -> float | None:
    of_outcome = np.where(right, confidence, 1 - confidence)
    return float(-np.log(of_outcome).mean()) if (of_outcome > 0).all() else None


def _bin(confidence: NDArray[np.float64], right: NDArray[np.bool_], settings: EvaluationSettings) -> ReliabilityBin:
    n, correct = len(right), int(right.sum())
    low, high = wilson(correct, n, confidence=settings.confidence)
    return ReliabilityBin(
        n=n,
        correct=correct,
        least=float(confidence.min()),
        most=float(confidence.max()),
        confidence=float(confidence.mean()),
        accuracy=correct / n,
        low=low,
        high=high,
    )


def _calibrated_eces(
    confidence: NDArray[np.float64], place: NDArray[np.intp], settings: EvaluationSettings
) -> NDArray[np.float64]:
    """ECEs of outcomes drawn to be right exactly as often as stated, shape (samples,)."""
    rng = np.random.default_rng(settings.seed)
    members = np.eye(place.max() + 1)[place]
    eces = []
    for _ in range(min(RESAMPLES, settings.bootstrap_samples)):
        drawn = rng.random(len(confidence)) < confidence
        eces.append(np.abs((drawn - confidence) @ members).sum() / len(confidence))
    return np.array(eces)
