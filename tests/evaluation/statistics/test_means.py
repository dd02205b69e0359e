from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medvrag_core.errors import InputError
from medvrag_core.evaluation.statistics.means import mean_of, resampled_means, resampled_sums
from medvrag_core.evaluation.statistics.proportions import wilson
from medvrag_core.settings import EvaluationSettings

SETTINGS = EvaluationSettings(bootstrap_samples=2_000)


@settings(deadline=None)
@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=30))
def test_an_interval_holds_its_mean_and_is_never_a_point(values: list[float]) -> None:
    found = mean_of(values, EvaluationSettings(bootstrap_samples=200))
    assert found.value == pytest.approx(np.mean(values))
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert found.low < found.high


def test_the_interval_is_that_of_a_plain_bootstrap() -> None:
    values = np.random.default_rng(0).choice([0.0, 1 / 3, 1.0], size=60)
    found = mean_of(values, SETTINGS)
    draws = np.random.default_rng(1).choice(values, size=(20_000, 60)).mean(axis=1)
    assert (found.low, found.high) == pytest.approx(np.quantile(draws, [0.025, 0.975]), abs=0.02)


def test_equal_values_get_the_interval_of_a_share() -> None:
    assert mean_of([1.0] * 20, SETTINGS).low == wilson(20, 20)[0]
    assert mean_of([0.0] * 20, SETTINGS).high == wilson(0, 20)[1]


@pytest.mark.parametrize("values", [[], [1.2], [-0.1]])
def test_what_is_no_value_is_refused(values: list[float]) -> None:
    with pytest.raises(InputError, match="between 0 and 1"):
        mean_of(values, SETTINGS)


def test_sums_are_resampled_by_question() -> None:
    counts = np.array([[3.0, 1.0], [0.0, 2.0], [0.0, 2.0], [5.0, 5.0]])
    drawn = resampled_sums(counts, SETTINGS)
    slow = counts[np.random.default_rng(3).integers(0, 4, size=(2_000, 4))].sum(axis=1)
    assert drawn.mean(axis=0) == pytest.approx(counts.sum(axis=0), rel=0.05)
    assert np.cov(drawn.T) == pytest.approx(np.cov(slow.T), rel=0.2)


@given(st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=10)
def test_resampled_means_are_those_of_drawn_rows(seed: int) -> None:
    """Columns move together, means stay within the data, and mean and spread are those of the bootstrap."""
    values = np.random.default_rng(seed).normal(size=(40, 2))
    values = np.column_stack([values, values[:, 0] * 2])
    draws = resampled_means(values, samples=3_000, seed=seed)
    assert draws.shape == (3_000, 3)
    assert draws[:, 2] == pytest.approx(2 * draws[:, 0])
    error = values.std(axis=0) / np.sqrt(40)
    assert (np.abs(draws.mean(axis=0) - values.mean(axis=0)) < 5 * error / np.sqrt(3_000)).all()
    assert draws.std(axis=0) == pytest.approx(error, rel=0.1)
    assert (draws == resampled_means(values, samples=3_000, seed=seed)).all()


def test_resamples_are_not_lost_between_blocks() -> None:
    assert (resampled_means(np.ones((3, 1)), samples=401, seed=1) == 1.0).all()
