"""Resampling by counts against enumeration, scipy and statsmodels, question by question."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.regression.linear_model import OLS
from statsmodels.stats.weightstats import ttost_paired

from medvrag_core.evaluation.statistics.estimands import ESTIMANDS, Pairs, set_weights
from medvrag_core.evaluation.statistics.proportions import mcnemar
from medvrag_core.evaluation.statistics.resampling import (
    bca_interval,
    bootstrap_set_means,
    equivalence_p_value,
    percentile_interval,
    set_means,
    sign_flip_p_values,
    standard_error,
    t_interval,
)


def pairs_of(sizes: list[int], runs: int, rng: np.random.Generator, shift: float = 0.0) -> Pairs:
    of = np.repeat(np.arange(len(sizes)), sizes)
    a = rng.binomial(runs, 0.6, len(of)) / runs
    b = rng.binomial(runs, 0.6 + shift, len(of)) / runs
    return Pairs(tuple(f"s{i}" for i in range(len(sizes))), of, a, b)


def both_weights(pairs: Pairs) -> np.ndarray:
    return np.vstack([set_weights(pairs.sizes, e) for e in ESTIMANDS])


@settings(max_examples=25, deadline=None)
@given(sizes=st.lists(st.integers(1, 5), min_size=1, max_size=2), runs=st.integers(1, 3), seed=st.integers(0, 9_999))
def test_sign_flips_agree_with_all_flips_enumerated(sizes: list[int], runs: int, seed: int) -> None:
    pairs = pairs_of(sizes, runs, np.random.default_rng(seed))
    weights, samples = both_weights(pairs), 20_000
    signs = np.array(list(itertools.product((1, -1), repeat=sum(sizes))))
    effects = (weights / pairs.sizes)[:, pairs.of] * pairs.differences
    every = np.abs(signs @ effects.T)
    exact = (every >= np.abs(effects.sum(axis=1)) - 1e-9).mean(axis=0)
    found = sign_flip_p_values(pairs, weights, samples=samples, seed=seed)
    assert found == pytest.approx(exact, abs=6 * 0.5 / samples**0.5)


def test_sign_flips_of_one_set_agree_with_scipy_and_with_mcnemar() -> None:
    rng = np.random.default_rng(3)
    single = pairs_of([400], 1, rng, shift=0.06)
    found = float(sign_flip_p_values(single, np.ones((1, 1)))[0])
    d = single.differences
    assert found == pytest.approx(mcnemar(int((d > 0).sum()), int((d < 0).sum())), abs=0.01)
    seeds = pairs_of([300], 4, rng, shift=0.03)
    reference = stats.permutation_test(
        (seeds.a, seeds.b),
        lambda a, b, axis: np.mean(b - a, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=9_999,
        rng=np.random.default_rng(1),
    )
    found = float(sign_flip_p_values(seeds, np.ones((1, 1)))[0])
    assert found == pytest.approx(float(reference.pvalue), abs=0.03)


def test_arms_without_a_difference_have_p_1_and_no_p_is_0() -> None:
    same = Pairs(("s",), np.zeros(5, np.intp), np.ones(5), np.ones(5))
    assert sign_flip_p_values(same, np.ones((1, 1)), samples=100).tolist() == [1.0]
    apart = Pairs(("s",), np.zeros(80, np.intp), np.zeros(80), np.ones(80))
    assert sign_flip_p_values(apart, np.ones((1, 1)), samples=999).tolist() == [1 / 1000]


@pytest.mark.parametrize("runs", [1, 3])
def test_bca_agrees_with_scipy_on_one_set(runs: int) -> None:
    pairs = pairs_of([300], runs, np.random.default_rng(5), shift=0.1)
    draws = bootstrap_set_means(pairs, samples=20_000)[:, 0]
    for method, found in (
        ("BCa", bca_interval(draws, pairs, np.ones(1), 0.95)),
        ("percentile", percentile_interval(draws, 0.95)),
    ):
        reference = stats.bootstrap(
            (pairs.differences,), np.mean, n_resamples=9_999, method=method, rng=np.random.default_rng(2)
        ).confidence_interval
        assert found == pytest.approx((reference.low, reference.high), abs=0.006)


def test_bca_of_a_lopsided_set_leans_away_from_the_percentile_interval() -> None:
    pairs = Pairs(("s",), np.zeros(200, np.intp), np.zeros(200), (np.arange(200) < 6).astype(float))
    draws = bootstrap_set_means(pairs, samples=20_000)[:, 0]
    low, high = bca_interval(draws, pairs, np.ones(1), 0.95)
    plain_low, plain_high = percentile_interval(draws, 0.95)
    assert low >= plain_low and high > plain_high


def test_bootstrap_within_sets_keeps_each_set_apart() -> None:
    # One set has no spread at all: a bootstrap that mixed the sets would show some.
    of = np.array([0] * 50 + [1] * 400)
    b = np.concatenate([np.ones(50), np.tile([0.0, 1.0], 200)])
    pairs = Pairs(("a", "b"), of, np.zeros(450), b)
    draws = bootstrap_set_means(pairs, samples=4_000)
    assert (draws[:, 0] == 1).all()
    assert draws[:, 1].std() == pytest.approx(0.5 / 400**0.5, rel=0.1)


def test_spread_of_the_bootstrap_is_the_stratified_standard_error() -> None:
    pairs = pairs_of([500, 1500, 250], 2, np.random.default_rng(8), shift=0.02)
    draws = bootstrap_set_means(pairs, samples=10_000)
    for weights in both_weights(pairs):
        assert (draws @ weights).std() == pytest.approx(standard_error(pairs, weights).value, rel=0.05)


@settings(max_examples=40, deadline=None)
@given(n=st.integers(5, 400), runs=st.integers(1, 4), seed=st.integers(0, 9_999), margin=st.floats(0.005, 0.2))
def test_tost_agrees_with_statsmodels_on_random_tables(n: int, runs: int, seed: int, margin: float) -> None:
    pairs = pairs_of([n], runs, np.random.default_rng(seed), shift=0.05)
    if np.ptp(pairs.differences) == 0:
        return
    error = standard_error(pairs, np.ones(1))
    assert error.df == pytest.approx(n - 1)
    estimate = float(set_means(pairs)[0])
    p = equivalence_p_value(estimate, error, margin)
    assert p == pytest.approx(ttost_paired(pairs.b, pairs.a, -margin, margin)[0], abs=1e-9)
    low, high = t_interval(estimate, error, 0.90)
    if abs(p - 0.05) > 1e-6:
        assert (p < 0.05) == (-margin < low and high < margin)


def test_a_few_questions_without_any_difference_prove_no_equivalence() -> None:
    for n, proven in ((50, False), (1273, True)):
        pairs = Pairs(("s",), np.zeros(n, np.intp), np.ones(n), np.ones(n))
        assert (equivalence_p_value(0.0, standard_error(pairs, np.ones(1)), 0.01) < 0.05) == proven


def clustered(pairs: Pairs, rng: np.random.Generator, clusters: int) -> Pairs:
    return replace(pairs, cluster=rng.integers(0, clusters, len(pairs.of)))


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=2), clusters=st.integers(1, 6), seed=st.integers(0, 9_999)
)
def test_signs_of_a_cluster_flip_together(sizes: list[int], clusters: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    pairs = clustered(pairs_of(sizes, 2, rng), rng, clusters)
    weights, samples = both_weights(pairs), 20_000
    signs = np.array(list(itertools.product((1, -1), repeat=clusters)))[:, pairs.cluster]
    effects = (weights / pairs.sizes)[:, pairs.of] * pairs.differences
    exact = (np.abs(signs @ effects.T) >= np.abs(effects.sum(axis=1)) - 1e-9).mean(axis=0)
    found = sign_flip_p_values(pairs, weights, samples=samples, seed=seed)
    assert found == pytest.approx(exact, abs=6 * 0.5 / samples**0.5)


def test_clusters_of_one_change_nothing() -> None:
    pairs = pairs_of([60, 90], 2, np.random.default_rng(2), shift=0.1)
    single = replace(pairs, cluster=np.random.default_rng(0).permutation(150))
    for weights in both_weights(pairs):
        assert standard_error(single, weights).value == pytest.approx(standard_error(pairs, weights).value)
        assert standard_error(single, weights).df == pytest.approx(standard_error(pairs, weights).df)
    assert (bootstrap_set_means(single, samples=50) == bootstrap_set_means(pairs, samples=50)).all()
    flips = [sign_flip_p_values(p, both_weights(pairs), samples=500) for p in (pairs, single)]
    assert flips[0].tolist() == flips[1].tolist()


def test_standard_error_of_clusters_agrees_with_statsmodels() -> None:
    rng = np.random.default_rng(6)
    pairs = clustered(pairs_of([400], 3, rng), rng, 90)
    model = OLS(pairs.differences, np.ones(400))
    fit = model.fit(cov_type="cluster", cov_kwds={"groups": pairs.cluster})
    # statsmodels multiplies by (n - 1) / (n - 1) * G / (G - 1) here, as we do.
    assert standard_error(pairs, np.ones(1)).value == pytest.approx(float(fit.bse[0]), rel=1e-9)


def test_copies_of_a_question_are_one_question() -> None:
    rng = np.random.default_rng(7)
    once = pairs_of([120, 60], 1, rng, shift=0.1)
    order = np.repeat(np.arange(180), 3)
    copies = Pairs(once.names, once.of[order], once.a[order], once.b[order], cluster=order)
    for weights in both_weights(once):
        draws = [bootstrap_set_means(p, samples=4_000) @ weights for p in (once, copies)]
        assert draws[0].tolist() == pytest.approx(draws[1].tolist())
        found = [bca_interval(d, p, weights, 0.95) for d, p in zip(draws, (once, copies), strict=True)]
        assert found[0] == pytest.approx(found[1])
        assert standard_error(copies, weights).value == pytest.approx(standard_error(once, weights).value)
    p_values = [sign_flip_p_values(p, both_weights(once), samples=20_000) for p in (once, copies)]
    assert p_values[0] == pytest.approx(p_values[1], abs=0.015)
    # Taken for 540 questions they would look like more evidence than there is.
    blind = replace(copies, cluster=None)
    assert standard_error(blind, np.ones(2) / 2).value < 0.7 * standard_error(copies, np.ones(2) / 2).value
