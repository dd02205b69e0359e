"""Calibration against slow references, and against data whose calibration is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from medvrag_core.errors import InputError
from medvrag_core.evaluation.calibration.confidence import Confidences
from medvrag_core.evaluation.calibration.reliability import bin_ece, brier, calibration_report, equal_mass_bins
from medvrag_core.evaluation.statistics.proportions import wilson
from medvrag_core.settings import EvaluationSettings

QUICK = EvaluationSettings(bootstrap_samples=300)

ANSWERS = st.lists(st.tuples(st.integers(0, 12).map(lambda k: k / 12), st.booleans()), min_size=1, max_size=60)


def given_(confidence: NDArray[np.float64], right: NDArray[np.bool_], unanswered: int = 0) -> Confidences:
    ids = tuple(f"q{number:05d}" for number in range(len(right)))
    return Confidences("medvrag", "option_scores", ids, confidence, right, unanswered)


def drawn(n: int, seed: int, *, bias: float = 0.0) -> Confidences:
    """Answers that are right as often as stated, or ``bias`` less often."""
    rng = np.random.default_rng(seed)
    confidence = rng.uniform(0.25, 1.0, n)
    return given_(confidence, rng.random(n) < confidence - bias)


@given(ANSWERS, st.integers(1, 12))
def test_bins_hold_equal_confidences_together_and_about_equal_numbers(cases: list[tuple[float, bool]], k: int) -> None:
    confidence = np.array([c for c, _ in cases])
    place = equal_mass_bins(confidence, k)
    assert set(place) == set(range(place.max() + 1)) and place.max() < k
    order = np.argsort(confidence, kind="stable")
    assert (np.diff(place[order]) >= 0).all(), "bins are in the order of the confidence"
    for value in np.unique(confidence):
        assert len(set(place[confidence == value])) == 1
    biggest_tie = np.unique(confidence, return_counts=True)[1].max()
    assert np.bincount(place).max() <= math.ceil(len(cases) / k) + biggest_tie


@given(st.permutations(range(40)))
def test_bins_of_different_confidences_are_equal_in_size(order: list[int]) -> None:
    assert np.bincount(equal_mass_bins(np.array(order) / 40, 8)).tolist() == [5] * 8


@given(ANSWERS, st.integers(1, 6))
def test_ece_and_brier_agree_with_a_slow_reference(cases: list[tuple[float, bool]], k: int) -> None:
    confidence, right = np.array([c for c, _ in cases]), np.array([float(r) for _, r in cases])
    place = equal_mass_bins(confidence, k)
    ece = reliability = resolution = 0.0
    for b in set(place.tolist()):
        mine = [case for case, where in zip(cases, place, strict=True) if where == b]
        said, happened = sum(c for c, _ in mine) / len(mine), sum(r for _, r in mine) / len(mine)
        ece += len(mine) / len(cases) * abs(happened - said)
        reliability += len(mine) / len(cases) * (happened - said) ** 2
        resolution += len(mine) / len(cases) * (happened - right.mean()) ** 2
    assert bin_ece(confidence, right, place) == pytest.approx(ece, abs=1e-12)
    parts = brier(confidence, right, place)
    assert parts.score == pytest.approx(sum((c - r) ** 2 for c, r in cases) / len(cases))
    assert (parts.reliability, parts.resolution) == pytest.approx((reliability, resolution), abs=1e-12)
    assert parts.score == pytest.approx(parts.reliability - parts.resolution + parts.uncertainty + parts.within)


@given(ANSWERS)
def test_one_confidence_a_bin_leaves_nothing_within(cases: list[tuple[float, bool]]) -> None:
    confidence, right = np.array([c for c, _ in cases]), np.array([float(r) for _, r in cases])
    place = np.unique(confidence, return_inverse=True)[1]
    assert brier(confidence, right, place).within == pytest.approx(0.0, abs=1e-12)


@settings(max_examples=20, deadline=None)
@given(ANSWERS)
def test_bins_of_a_report_add_up(cases: list[tuple[float, bool]]) -> None:
    confidence, right = np.array([c for c, _ in cases]), np.array([r for _, r in cases])
    report = calibration_report(given_(confidence, right, 2), EvaluationSettings(bootstrap_samples=20))
    assert sum(b.n for b in report.bins) == report.n == len(cases) and report.unanswered == 2
    assert sum(b.correct for b in report.bins) == right.sum()
    assert sum(b.n * b.confidence for b in report.bins) == pytest.approx(confidence.sum())
    assert all(b.least <= b.confidence + 1e-12 and b.confidence <= b.most + 1e-12 for b in report.bins)
    assert all(b.low <= b.accuracy <= b.high for b in report.bins)
    assert report.gap == pytest.approx(confidence.mean() - right.mean(), abs=1e-12)
    assert report.gap_low <= report.gap + 1e-9 and report.gap - 1e-9 <= report.gap_high


def test_a_calibrated_system_lies_within_what_chance_shows() -> None:
    """Of 60 calibrated sets of 100 answers about 5% lie above the limit, though all have an ECE well above zero."""
    reports = [calibration_report(drawn(100, seed), QUICK) for seed in range(60)]
    assert all(r.ece > 0.02 for r in reports)
    assert sum(r.ece > r.ece_by_chance_high for r in reports) <= 8
    p_values = np.array([r.ece_p for r in reports])
    assert 0.3 < p_values.mean() < 0.7 and (p_values < 0.05).sum() <= 8
    assert np.mean([r.ece for r in reports]) == pytest.approx(np.mean([r.ece_by_chance for r in reports]), rel=0.1)


def test_too_sure_a_system_is_found_out() -> None:
    reports = [calibration_report(drawn(100, seed, bias=0.25), QUICK) for seed in range(10)]
    assert all(r.ece > r.ece_by_chance_high and r.ece_p < 0.05 and r.gap_low > 0 for r in reports)
    assert np.mean([r.ece_beyond_chance for r in reports]) > 0.1


def test_the_interval_of_the_gap_covers_it() -> None:
    hits = [r.gap_low <= 0 <= r.gap_high for r in (calibration_report(drawn(200, s), QUICK) for s in range(60))]
    assert sum(hits) >= 51


def test_log_loss_is_that_of_the_outcomes_and_has_no_value_for_a_certain_error() -> None:
    confidence, right = np.array([0.9, 0.6, 0.5]), np.array([True, False, True])
    report = calibration_report(given_(confidence, right), QUICK)
    assert report.log_loss == pytest.approx(-(math.log(0.9) + math.log(0.4) + math.log(0.5)) / 3)
    certain = calibration_report(given_(np.array([1.0, 0.6]), np.array([False, True])), QUICK)
    assert certain.log_loss is None


def test_the_order_of_questions_does_not_matter_where_nothing_is_drawn() -> None:
    made = drawn(80, 5)
    turned = given_(made.confidence[::-1], made.right[::-1])
    a, b = (calibration_report(m, QUICK) for m in (made, turned))
    assert a.ece == pytest.approx(b.ece) and a.brier.score == pytest.approx(b.brier.score)
    assert [x.n for x in a.bins] == [x.n for x in b.bins]


def test_no_bins_are_refused() -> None:
    with pytest.raises(InputError, match="one bin at least"):
        calibration_report(drawn(10, 0), QUICK, bins=0)


@pytest.mark.parametrize(("n", "right"), [(1, True), (1, False), (10, True), (10, False)])
def test_equal_outcomes_are_no_certainty(n: int, right: bool) -> None:
    """No resample shows another outcome, so the interval must come from elsewhere."""
    report = calibration_report(given_(np.linspace(0.6, 0.8, n), np.full(n, right)), QUICK)
    low, high = wilson(n * right, n)
    assert report.gap_low <= report.mean_confidence - high + 1e-12
    assert report.gap_high >= report.mean_confidence - low - 1e-12
    assert report.ece_low <= report.ece <= report.ece_high and report.ece_high - report.ece_low > 0.2
