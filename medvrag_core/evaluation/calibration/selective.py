"""Answering only where the confidence is high: risk against coverage, and a threshold tested on other questions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from medvrag_core.errors import InputError
from medvrag_core.evaluation.calibration.confidence import Confidences, Source
from medvrag_core.evaluation.calibration.reliability import RESAMPLES, CalibrationReport
from medvrag_core.evaluation.statistics.folds import folds_of
from medvrag_core.evaluation.statistics.proportions import wilson
from medvrag_core.evaluation.statistics.resampling import percentile_interval
from medvrag_core.records import Record
from medvrag_core.settings import EvaluationSettings

COVERAGES = tuple(round(0.05 * step, 2) for step in range(1, 21))
LEAST_ANSWERED = 0.1
"""Share of a half that a threshold must answer; a handful of questions reaches any target by luck."""


class SelectivePoint(Record):
    """Accuracy on the surest questions; ``low`` and ``high`` bound it (Wilson)."""

    asked: float = Field(description="share of questions that should be answered at least")
    coverage: float = Field(description="share that is; equal confidences are answered together")
    threshold: float = Field(description="lowest confidence that is answered")
    n: int
    correct: int
    accuracy: float
    low: float
    high: float


class Abstention(Record):
    """A threshold chosen on one half of the questions and tried on the other.

    All but the first four fields are about the test half, and null where no threshold reached the target.
    """

    half: int = Field(description="the half it was chosen on, 0 or 1")
    chosen_n: int = Field(description="questions of that half")
    threshold: float | None = Field(
        description=f"lowest that reached the target there and answers {LEAST_ANSWERED:.0%} of it; null where none did"
    )
    chosen_accuracy: float | None = Field(description="accuracy above it on the half it was chosen on: too good")
    tested_n: int = Field(description="questions of the other half")
    answered: int | None = None
    answered_correct: int | None = None
    accuracy: float | None = Field(None, description="of the answered ones; null where none was")
    low: float | None = None
    high: float | None = None
    refused_correct: int | None = Field(None, description="right answers that the threshold holds back")
    p_value: float | None = Field(None, description="Fisher's exact test: answered and refused are right as often")


class SelectiveReport(Record):
    """Risk and coverage of one arm; ``aurc`` is the mean risk over all coverages, lower is better."""

    system: str
    source: Source
    n: int
    aurc: float
    aurc_low: float = Field(
        description="bootstrap interval over questions; Wilson's of the error rate where all outcomes are equal"
    )
    aurc_high: float
    aurc_by_chance: float = Field(description="expected for a confidence that tells nothing: the error rate")
    p_value: float = Field(
        description="permutation test, two-sided: the confidence says nothing about which answers are right"
    )
    aurc_best: float = Field(description="of an order with all right answers first")
    points: tuple[SelectivePoint, ...]
    target: float = Field(description="accuracy that the thresholds were chosen for")
    abstention: tuple[Abstention, Abstention]


class ConfidenceReport(Record):
    """What ``medvrag calibration --json`` prints."""

    calibration: CalibrationReport
    selective: SelectiveReport


def selective_report(
    given: Confidences, settings: EvaluationSettings | None = None, *, target: float = 0.8
) -> SelectiveReport:
    """Selective accuracy, AURC, and the two halves' thresholds for ``target``; the halves go by the hash of the id.

    Raises
    ------
    InputError : a target outside of 0 to 1
    """
    if not 0 < target <= 1:
        raise InputError(f"target {target:g} is no accuracy", way_out="choose one above 0 and up to 1, such as 0.8")
    settings = settings or EvaluationSettings()
    half = folds_of(given.ids, 2)
    found = aurc(given.confidence, given.right)
    low, high = percentile_interval(_resampled_aurc(given, settings), settings.confidence)
    if given.right.all() or not given.right.any():
        # Every order has the same errors, and so has every resample: what is unknown is the error rate.
        low, high = wilson(int((~given.right).sum()), given.n, confidence=settings.confidence)
    return SelectiveReport(
        system=given.system,
        source=given.source,
        n=given.n,
        aurc=found,
        aurc_low=low,
        aurc_high=high,
        aurc_by_chance=float(1 - given.right.mean()),
        p_value=_ranking_p_value(given, settings),
        aurc_best=aurc(given.right.astype(float), given.right),
        points=tuple(_point(given, share, settings) for share in COVERAGES),
        target=target,
        abstention=(
            _abstention(given, half == 0, 0, target, settings),
            _abstention(given, half == 1, 1, target, settings),
        ),
    )


def aurc(confidence: NDArray[np.float64], right: NDArray[np.bool_]) -> float:
    """Mean over k of the error rate among the k surest questions (Geifman et al. 2019).

    Equal confidences stand in no order, so the expectation over all of their orders is taken; a strictly increasing
    change of the confidence leaves the result as it is.

    >>> round(9 * aurc(np.array([0.9, 0.8, 0.7]), np.array([True, True, False])), 9)  # (0 + 0 + 1/3) / 3
    1.0
    """
    return float(_weights(confidence) @ ~right)


def _weights(confidence: NDArray[np.float64]) -> NDArray[np.float64]:
    """What an error of each question adds to the AURC, shape (n,)."""
    n = len(confidence)
    _, group, size = np.unique(-confidence, return_inverse=True, return_counts=True)
    # An error at place j counts in the rates of all k >= j; equal confidences share the mean of their places.
    by_place = np.cumsum(1 / np.arange(n, 0, -1))[::-1] / n
    ends = np.cumsum(size)
    sums = np.r_[0.0, np.cumsum(by_place)]
    return np.asarray(((sums[ends] - sums[ends - size]) / size)[group], dtype=np.float64)


def threshold_for(confidence: NDArray[np.float64], right: NDArray[np.bool_], target: float) -> float | None:
    """The lowest confidence from which on at least ``target`` of the answers are right; None where there is none.

    A threshold that answers less than :data:`LEAST_ANSWERED` of the questions is not considered.
    """
    for level in np.unique(confidence):
        kept = confidence >= level
        if kept.mean() < LEAST_ANSWERED:
            return None
        if right[kept].mean() >= target:
            return float(level)
    return None


def _point(given: Confidences, share: float, settings: EvaluationSettings) -> SelectivePoint:
    ordered = np.sort(given.confidence)[::-1]
    # Rounded first: 0.55 * 100 is a little more than 55 in floating point.
    threshold = float(ordered[int(np.ceil(round(share * given.n, 9))) - 1])
    kept = given.confidence >= threshold
    n, correct = int(kept.sum()), int(given.right[kept].sum())
    low, high = wilson(correct, n, confidence=settings.confidence)
    return SelectivePoint(
        asked=share,
        coverage=n / given.n,
        threshold=threshold,
        n=n,
        correct=correct,
        accuracy=correct / n,
        low=low,
        high=high,
    )


def _abstention(
    given: Confidences, chosen: NDArray[np.bool_], half: int, target: float, settings: EvaluationSettings
) -> Abstention:
    here, there = int(chosen.sum()), int((~chosen).sum())
    threshold = threshold_for(given.confidence[chosen], given.right[chosen], target)
    if threshold is None:
        return Abstention(half=half, chosen_n=here, threshold=None, chosen_accuracy=None, tested_n=there)
    from scipy.stats import fisher_exact

    right = given.right[~chosen]
    kept = given.confidence[~chosen] >= threshold
    answered, good, held = int(kept.sum()), int(right[kept].sum()), int(right[~kept].sum())
    low, high = wilson(good, answered, confidence=settings.confidence)
    refused = there - answered
    return Abstention(
        half=half,
        chosen_n=here,
        threshold=threshold,
        chosen_accuracy=float(given.right[chosen & (given.confidence >= threshold)].mean()),
        tested_n=there,
        answered=answered,
        answered_correct=good,
        accuracy=good / answered if answered else None,
        low=low,
        high=high,
        refused_correct=held,
        p_value=float(fisher_exact([[good, answered - good], [held, refused - held]]).pvalue),
    )


def _ranking_p_value(given: Confidences, settings: EvaluationSettings) -> float:
    rng = np.random.default_rng(settings.seed)
    weights, wrong = _weights(given.confidence), ~given.right
    # The mean over all orders is the error rate.
    expected = float(wrong.mean())
    seen = abs(float(weights @ wrong) - expected)
    samples = min(RESAMPLES, settings.bootstrap_samples)
    drawn = np.array([weights @ rng.permutation(wrong) for _ in range(samples)])
    return float((1 + (np.abs(drawn - expected) >= seen - 1e-12).sum()) / (1 + samples))


def _resampled_aurc(given: Confidences, settings: EvaluationSettings) -> NDArray[np.float64]:
    rng = np.random.default_rng(settings.seed)
    draws = (rng.integers(0, given.n, given.n) for _ in range(min(RESAMPLES, settings.bootstrap_samples)))
    return np.array([aurc(given.confidence[drawn], given.right[drawn]) for drawn in draws])
