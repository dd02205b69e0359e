from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import bootstrap

from medvrag_core.evaluation.statistics.proportions import wilson
from medvrag_core.evaluation.statistics.shares import ratio_of, share_of
from medvrag_core.settings import EvaluationSettings

pairs = st.integers(1, 6).flatmap(lambda total: st.tuples(st.integers(0, total), st.just(total)))


@settings(deadline=None)
@given(st.lists(pairs, min_size=1, max_size=30))
def test_a_ratio_lies_in_its_interval_and_does_not_depend_on_the_order(drawn: list[tuple[int, int]]) -> None:
    found = ratio_of(*zip(*drawn, strict=True))
    assert (found.hits, found.total, found.n) == (sum(h for h, _ in drawn), sum(t for _, t in drawn), len(drawn))
    assert 0 <= found.low <= found.ratio <= found.high <= 1
    assert ratio_of(*zip(*sorted(drawn), strict=True)) == found


def test_the_interval_is_that_of_resampling_questions_one_by_one() -> None:
    rng = np.random.default_rng(1)
    totals = rng.integers(1, 5, size=120)
    hits = rng.binomial(totals, 0.4)
    found = ratio_of(hits.tolist(), totals.tolist(), EvaluationSettings(bootstrap_samples=20_000))
    ratio = bootstrap(
        (hits, totals), lambda h, t, axis: h.sum(axis) / t.sum(axis), paired=True, n_resamples=20_000, batch=500,
        method="percentile", vectorized=True,
    ).confidence_interval  # fmt: skip
    assert (found.low, found.high) == pytest.approx((ratio.low, ratio.high), abs=0.01)


def test_questions_that_are_all_alike_lend_no_certainty() -> None:
    assert (ratio_of([1] * 5, [1] * 5).low, ratio_of([1] * 5, [1] * 5).high) == pytest.approx(wilson(5, 5))
    assert ratio_of([1, 1], [3, 3]).low < 1 / 3 < ratio_of([1, 1], [3, 3]).high
    assert (ratio_of([], []).ratio, ratio_of([], []).low, ratio_of([], []).high) == (0.0, 0.0, 1.0)
    assert (share_of(0, 0).share, share_of(0, 0).low, share_of(0, 0).high) == (0.0, 0.0, 1.0)
