"""Policies: what is read off arms, mixtures, and the price of a right answer in seconds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from medvrag_core.errors import InputError
from medvrag_core.evaluation.scoring import accuracy_report
from medvrag_core.evaluation.statistics.contrasts import Rules
from medvrag_core.evaluation.statistics.proportions import mcnemar
from medvrag_core.evaluation.stopping.policies import mixed, policy_of, policy_row, policy_steps
from medvrag_core.records import Trace

MakeTrace = Callable[..., Trace]
ROUND = ((), (), ())
QUICK = Rules(resamples=400, permutations=200)

Cases = list[tuple[bool, bool, int]]
CASES = st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(1, 3)), min_size=2, max_size=30)


def arms(make_trace: MakeTrace, cases: Cases, *, per_round: float = 2.0) -> tuple[list[Trace], list[Trace]]:
    """A single-round arm and a loop; ``(right at once, right in the end, rounds)`` a question."""
    single = [
        make_trace(f"q{i:03d}", "A" if first else "B", system="single", seconds=per_round)
        for i, (first, _, _) in enumerate(cases)
    ]
    loop = [
        make_trace(f"q{i:03d}", "A" if last else "B", rounds=[ROUND] * k, seconds=per_round * k)
        for i, (_, last, k) in enumerate(cases)
    ]
    return single, loop


@settings(max_examples=40, deadline=None)
@given(CASES)
def test_a_policy_is_its_arm(make_trace: MakeTrace, cases: Cases) -> None:
    _, loop = arms(make_trace, cases)
    row, report = policy_row(policy_of(loop[::-1])), accuracy_report(loop)
    assert (row.n, row.correct, row.low, row.high) == (report.n, report.correct, report.low, report.high)
    assert row.mean_seconds == pytest.approx(np.mean([t.seconds for t in loop]))
    assert row.median_seconds == pytest.approx(np.median([t.seconds for t in loop]))
    assert row.mean_rounds == pytest.approx(np.mean([k for _, _, k in cases]))


@settings(max_examples=40, deadline=None)
@given(CASES, st.integers(0, 2**30))
def test_a_mixture_takes_each_question_from_one_side(make_trace: MakeTrace, cases: Cases, seed: int) -> None:
    stop, go = (policy_of(traces) for traces in arms(make_trace, cases))
    goes = np.random.default_rng(seed).random(len(cases)) < 0.5
    mix = mixed("mix", stop, go, goes)
    for place, further in enumerate(goes):
        side = go if further else stop
        assert mix.right[place] == side.right[place]
        assert mix.seconds[place] == side.seconds[place] and mix.rounds[place] == side.rounds[place]
        assert mix.arm.labels[0, place] == side.arm.labels[0, place]
    assert mix.arm.name == "mix" and stop.arm.name == "single"


@settings(max_examples=20, deadline=None)
@given(CASES)
def test_a_step_counts_what_the_extra_time_buys(make_trace: MakeTrace, cases: Cases) -> None:
    a, b = (policy_of(traces) for traces in arms(make_trace, cases))
    (step,) = policy_steps([a, b], {"s": ("single", "medvrag")}, QUICK, family="f")
    won = sum(last and not first for first, last, _ in cases)
    lost = sum(first and not last for first, last, _ in cases)
    extra = sum(2.0 * (k - 1) for _, _, k in cases)
    (effect,) = step.contrast.sets
    assert (effect.won, effect.lost, effect.n) == (won, lost, len(cases))
    assert effect.p_value == pytest.approx(mcnemar(won, lost))
    assert step.extra_right == pytest.approx(1000 * (won - lost) / len(cases))
    assert step.extra_seconds == pytest.approx(extra / len(cases))
    assert step.seconds_low is not None and step.seconds_high is not None
    assert step.seconds_low <= step.extra_seconds + 1e-9 and step.extra_seconds <= step.seconds_high + 1e-9
    if step.right_per_second is not None:
        assert step.right_per_second == pytest.approx((won - lost) / extra)


def test_a_policy_that_is_not_slower_has_no_rate(make_trace: MakeTrace) -> None:
    slow, fast = (
        policy_of(traces) for traces in arms(make_trace, [(True, True, 1)] * 6 + [(False, True, 2)] * 6)[::-1]
    )
    (step,) = policy_steps([slow, fast], {"s": ("medvrag", "single")}, QUICK, family="f")
    assert step.extra_seconds < 0 and step.right_per_second is None and step.rate_low is None


def test_the_rate_is_that_of_means_drawn_together(make_trace: MakeTrace) -> None:
    """Every question takes 2 s more and 40 of 100 are recovered: the rate is a binomial share over 2 s."""
    a, b = (policy_of(traces) for traces in arms(make_trace, [(False, i < 40, 2) for i in range(100)]))
    (step,) = policy_steps([a, b], {"s": ("single", "medvrag")}, Rules(resamples=4_000, permutations=200), family="f")
    assert step.right_per_second == pytest.approx(0.2) and step.seconds_low == step.seconds_high == pytest.approx(2)
    low, high = (binom(100, 0.4).ppf(q) / 100 / 2 for q in (0.025, 0.975))
    assert (step.rate_low, step.rate_high) == (pytest.approx(low, abs=0.011), pytest.approx(high, abs=0.011))


def test_policies_of_different_questions_are_refused(make_trace: MakeTrace) -> None:
    a, b = policy_of([make_trace("q1", system="a")]), policy_of([make_trace("q2", system="b")])
    with pytest.raises(InputError, match="different questions"):
        policy_steps([a, b], {"s": ("a", "b")}, QUICK, family="f")


def test_one_question_shows_no_spread_of_time(make_trace: MakeTrace) -> None:
    single, loop = (policy_of(traces) for traces in arms(make_trace, [(False, True, 3)]))
    (step,) = policy_steps([single, loop], {"s": ("single", "medvrag")}, QUICK, family="f")
    assert step.extra_seconds == pytest.approx(4)
    assert (step.seconds_low, step.seconds_high, step.right_per_second, step.rate_low) == (None, None, None, None)
