"""Risk and coverage: the AURC against all orders of ties, and thresholds that never see the half they are tried on."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from medvrag_core.errors import InputError
from medvrag_core.evaluation.calibration.confidence import Confidences
from medvrag_core.evaluation.calibration.selective import (
    COVERAGES,
    LEAST_ANSWERED,
    aurc,
    selective_report,
    threshold_for,
)
from medvrag_core.evaluation.statistics.folds import folds_of
from medvrag_core.settings import EvaluationSettings

QUICK = EvaluationSettings(bootstrap_samples=200)
ANSWERS = st.lists(st.tuples(st.integers(0, 3).map(lambda k: k / 3), st.booleans()), min_size=1, max_size=6)


def arrays(cases: list[tuple[float, bool]]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    return np.array([c for c, _ in cases]), np.array([r for _, r in cases], dtype=bool)


def made(n: int, seed: int, *, informative: bool = True) -> Confidences:
    rng = np.random.default_rng(seed)
    confidence = rng.random(n)
    right = rng.random(n) < (confidence if informative else 0.5)
    return Confidences("medvrag", "option_scores", tuple(f"q{i:04d}" for i in range(n)), confidence, right, 0)


@settings(deadline=None)
@given(ANSWERS)
def test_aurc_is_the_mean_over_all_orders_of_equal_confidences(cases: list[tuple[float, bool]]) -> None:
    values = []
    for order in permutations(cases):
        if [c for c, _ in order] == sorted((c for c, _ in cases), reverse=True):
            wrong = np.cumsum([not right for _, right in order])
            values.append(float(np.mean(wrong / np.arange(1, len(order) + 1))))
    assert aurc(*arrays(cases)) == pytest.approx(np.mean(values))


@given(st.lists(st.tuples(st.integers(0, 1000), st.booleans()), min_size=1, max_size=60))
def test_a_monotone_change_of_the_confidence_leaves_the_aurc(cases: list[tuple[int, bool]]) -> None:
    confidence, right = np.array([c for c, _ in cases]) / 1000, np.array([r for _, r in cases], dtype=bool)
    for change in (np.exp, lambda x: x / 7 - 3, lambda x: x**3 + x):
        assert aurc(change(confidence), right) == pytest.approx(aurc(confidence, right))


@given(st.lists(st.tuples(st.integers(0, 20), st.booleans()), min_size=1, max_size=60))
def test_aurc_lies_between_the_best_and_the_worst_order(cases: list[tuple[int, bool]]) -> None:
    confidence, right = np.array([float(c) for c, _ in cases]), np.array([r for _, r in cases], dtype=bool)
    best, worst = aurc(right.astype(float), right), aurc(-right.astype(float), right)
    assert best - 1e-12 <= aurc(confidence, right) <= worst + 1e-12
    assert aurc(np.zeros(len(right)), right) == pytest.approx(1 - right.mean())


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 8).map(lambda k: k / 8), st.booleans()), min_size=2, max_size=50))
def test_points_count_the_surest_questions(cases: list[tuple[float, bool]]) -> None:
    confidence, right = arrays(cases)
    ids = tuple(f"q{i}" for i in range(len(cases)))
    report = selective_report(Confidences("m", "vote_share", ids, confidence, right, 0), QUICK)
    assert [p.asked for p in report.points] == list(COVERAGES)
    for point in report.points:
        kept = [r for c, r in cases if c >= point.threshold]
        assert (point.n, point.correct) == (len(kept), sum(kept))
        assert point.coverage >= point.asked - 1e-12
        fewer = [r for c, r in cases if c > point.threshold]
        assert len(fewer) < np.ceil(point.asked * len(cases)), "no higher threshold answers enough"
    assert report.points[-1].coverage == 1.0 and report.points[-1].correct == right.sum()


def test_a_threshold_is_the_lowest_that_reaches_the_target_and_answers_enough() -> None:
    confidence = np.arange(20) / 20
    right = confidence >= 0.5
    assert threshold_for(confidence, right, 1.0) == 0.5
    assert threshold_for(confidence, right, 0.5) == 0.0
    lucky = np.zeros(20, dtype=bool)
    lucky[-1] = True
    assert threshold_for(confidence, lucky, 1.0) is None, "one question is less than a tenth"
    assert threshold_for(confidence, lucky, 0.5) == confidence[-2] and LEAST_ANSWERED == 0.1


def test_a_threshold_never_sees_the_half_it_is_tried_on() -> None:
    given_ = made(200, 3)
    before = selective_report(given_, QUICK, target=0.75)
    half = folds_of(given_.ids, 2)
    for number in (0, 1):
        right = given_.right.copy()
        right[half != number] = ~right[half != number]
        changed = Confidences("m", "option_scores", given_.ids, given_.confidence, right, 0)
        after = selective_report(changed, QUICK, target=0.75).abstention[number]
        assert after.threshold == before.abstention[number].threshold is not None
        assert after.chosen_accuracy == before.abstention[number].chosen_accuracy
        assert after.answered_correct != before.abstention[number].answered_correct


def test_halves_are_tested_crosswise_and_counts_add_up() -> None:
    given_ = made(300, 1)
    report = selective_report(given_, QUICK, target=0.7)
    half = folds_of(given_.ids, 2)
    for found in report.abstention:
        other = half != found.half
        assert found.tested_n == other.sum() and found.chosen_n == (~other).sum()
        assert found.answered_correct is not None and found.refused_correct is not None
        assert found.answered_correct + found.refused_correct == given_.right[other].sum()
        assert found.chosen_accuracy is not None and found.chosen_accuracy >= 0.7
        assert found.p_value is not None and found.p_value < 0.01
        assert found.accuracy is not None and found.accuracy > given_.right[other].mean()


def test_a_confidence_that_tells_nothing_is_shown_as_such() -> None:
    reports = [selective_report(made(100, seed, informative=False), QUICK) for seed in range(40)]
    covered = sum(r.aurc_low <= r.aurc_by_chance <= r.aurc_high for r in reports)
    assert covered >= 32
    telling = [selective_report(made(100, seed), QUICK) for seed in range(10)]
    assert all(r.aurc_high < r.aurc_by_chance for r in telling)


def test_a_target_that_is_no_accuracy_is_refused() -> None:
    with pytest.raises(InputError, match="no accuracy"):
        selective_report(made(10, 0), QUICK, target=1.5)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3).map(lambda k: k / 3), st.booleans()), min_size=2, max_size=6))
def test_the_ranking_test_agrees_with_all_permutations(cases: list[tuple[float, bool]]) -> None:
    confidence, right = arrays(cases)
    ids = tuple(f"q{i}" for i in range(len(cases)))
    many = EvaluationSettings(bootstrap_samples=2_000)
    found = selective_report(Confidences("m", "vote_share", ids, confidence, right, 0), many)
    away = [abs(aurc(confidence, np.array(order)) - (1 - right.mean())) for order in permutations(right)]
    exact = np.mean([value >= abs(found.aurc - found.aurc_by_chance) - 1e-12 for value in away])
    assert found.p_value == pytest.approx(exact, abs=0.06)


@pytest.mark.parametrize("right", [True, False])
@pytest.mark.parametrize("n", [1, 8])
def test_equal_outcomes_leave_the_error_rate_open(right: bool, n: int) -> None:
    ids = tuple(f"q{i}" for i in range(n))
    found = selective_report(Confidences("m", "vote_share", ids, np.linspace(0.2, 0.9, n), np.full(n, right), 0), QUICK)
    assert found.p_value == 1.0
    assert found.aurc_low <= found.aurc <= found.aurc_high and found.aurc_high - found.aurc_low > 0.3


def test_a_point_answers_no_more_than_it_must() -> None:
    report = selective_report(made(100, 4), QUICK)
    assert [p.n for p in report.points] == [5 * k for k in range(1, 21)]
