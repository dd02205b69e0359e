"""The cost of an extra right answer: against brute force, and never a number where nothing was shown."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from medvrag_core.errors import InputError
from medvrag_core.evaluation.cost.bill import cost_report
from medvrag_core.evaluation.cost.extra_right import ExtraRight, extra_right, fieller_interval
from medvrag_core.evaluation.cost.prices import PriceTable
from medvrag_core.records import Trace
from medvrag_core.settings import EvaluationSettings
from medvrag_core.views.cost_view import difference

MakeTrace = Callable[..., Trace]
SETTINGS = EvaluationSettings(bootstrap_samples=500)
seeds = st.integers(0, 2**32 - 1)


def compared(make_trace: MakeTrace, a: list[tuple[bool, float]], b: list[tuple[bool, float]]) -> ExtraRight:
    """Arms from (right, seconds) a question."""
    arms = {
        name: [
            make_trace(f"q{i:04}", "A" if right else "B", system=name, seconds=seconds)
            for i, (right, seconds) in enumerate(rows)
        ]
        for name, rows in (("a", a), ("b", b))
    }
    costs = {name: cost_report(traces) for name, traces in arms.items()}
    return extra_right(arms, costs, {"": ("a", "b")}, SETTINGS, family="f")[0]


@settings(deadline=None, max_examples=40)
@given(seeds, st.integers(10, 60), st.floats(0.1, 0.9))
def test_fieller_is_the_set_of_ratios_that_a_t_test_accepts(seed: int, n: int, share: float) -> None:
    from scipy.stats import ttest_1samp

    rng = np.random.default_rng(seed)
    right = (rng.random(n) < share).astype(float) - (rng.random(n) < 0.1)
    costs = 3 * right + rng.normal(1, 1, n)
    assume(right.std() > 0)
    found = fieller_interval(costs, right, 0.95)
    rejects_zero = ttest_1samp(right, 0).pvalue < 0.05
    assert (found is not None) == bool(rejects_zero)
    if found is None:
        return
    low, high = found
    width = high - low
    for ratio, inside in ((low + width / 50, True), (high - width / 50, True), ((low + high) / 2, True),
                          (low - width / 50, False), (high + width / 50, False)):  # fmt: skip
        assert (ttest_1samp(costs - ratio * right, 0).pvalue >= 0.05) == inside
    assert low <= costs.mean() / right.mean() <= high


def test_a_clear_gain_has_a_price(make_trace: MakeTrace) -> None:
    a = [(i >= 30, 1.0) for i in range(100)]
    b = [(i >= 5, 3.0 if i < 50 else 2.0) for i in range(100)]
    found = compared(make_trace, a, b)
    assert (found.right.won, found.right.lost, found.shown) == (25, 0, "more right")
    row = found.rows[0]
    assert (row.quantity, row.mean_a, row.mean_b, row.difference) == ("seconds", 1.0, 2.5, 1.5)
    assert row.per_extra == pytest.approx(1.5 / 0.25)
    assert row.per_extra_low is not None and row.per_extra_high is not None
    assert row.per_extra_low < 6.0 < row.per_extra_high
    assert row.low < 1.5 < row.high


@pytest.mark.parametrize(("won", "lost"), [(6, 4), (0, 0), (4, 6), (3, 0)])
def test_without_a_shown_gain_there_is_no_price(make_trace: MakeTrace, won: int, lost: int) -> None:
    a = [(i >= won, 1.0) for i in range(100)]
    b = [(not won <= i < won + lost, 2.0) for i in range(100)]
    found = compared(make_trace, a, b)
    assert (found.right.won, found.right.lost, found.shown) == (won, lost, "not shown")
    assert found.rows[0].difference == 1.0
    assert (found.rows[0].per_extra, found.rows[0].per_extra_low, found.rows[0].per_extra_high) == (None, None, None)


def test_an_arm_that_is_right_less_often_is_called_so(make_trace: MakeTrace) -> None:
    found = compared(make_trace, [(True, 1.0)] * 60, [(i > 25, 0.5) for i in range(60)])
    assert found.shown == "fewer right"
    assert found.rows[0].per_extra is None and found.rows[0].difference == -0.5


@settings(deadline=None, max_examples=12)
@given(seeds, st.integers(5, 60))
@example(seed=38, n=38)  # interval above zero, exact p = 0.08
def test_a_price_only_where_interval_and_test_agree(make_trace: MakeTrace, seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    a = [(bool(x < 0.4), float(s)) for x, s in zip(rng.random(n), rng.random(n), strict=True)]
    b = [(bool(x < 0.7), float(s)) for x, s in zip(rng.random(n), 2 * rng.random(n), strict=True)]
    found = compared(make_trace, a, b)
    assert (found.rows[0].per_extra is not None) == (found.shown == "more right")
    if found.shown == "more right":
        assert found.right.low > 0 and found.right.p_adjusted < 0.05
    if found.shown == "fewer right":
        assert found.right.high < 0


def test_order_of_traces_does_not_matter_and_other_questions_are_refused(make_trace: MakeTrace) -> None:
    a = [make_trace(f"q{i}", "A" if i % 2 else "B", system="a", seconds=float(i)) for i in range(12)]
    b = [make_trace(f"q{i}", "A", system="b", seconds=2.0 * i) for i in range(12)]
    costs = {"a": cost_report(a), "b": cost_report(b)}
    pairs = {"": ("a", "b")}
    first = extra_right({"a": a, "b": b}, costs, pairs, SETTINGS, family="f")
    back = {"a": cost_report(a[::-1]), "b": cost_report(b)}
    assert extra_right({"a": a[::-1], "b": b}, back, pairs, SETTINGS, family="f") == first
    with pytest.raises(InputError, match="only 'a' answered"):
        extra_right({"a": a, "b": b[1:]}, costs, pairs, SETTINGS, family="f")


def test_contrasts_do_not_see_each_other(make_trace: MakeTrace) -> None:
    """Resamples are drawn once for all contrasts of one size; every contrast is as if it were alone."""

    def arm(name: str, n: int, seconds: float) -> list[Trace]:
        rng = np.random.default_rng(len(name) + n)
        return [make_trace(f"q{i}", "A", system=name, seconds=seconds * float(rng.random())) for i in range(n)]

    arms = {
        "a": arm("a", 30, 1),
        "b": arm("b", 30, 2),
        "c": arm("c", 30, 5),
        "d": arm("d", 20, 1),
        "e": arm("e", 20, 9),
    }
    costs = {name: cost_report(traces) for name, traces in arms.items()}
    pairs = {"1": ("a", "b"), "2": ("d", "e"), "3": ("b", "c")}
    together = extra_right(arms, costs, pairs, SETTINGS, family="f")
    alone = [extra_right(arms, costs, {name: pair}, SETTINGS, family="f")[0] for name, pair in pairs.items()]
    assert [found.rows for found in together] == [found.rows for found in alone]
    assert len({found.rows[0].low for found in together}) == 3


def test_money_needs_the_prices_of_both_arms(make_trace: MakeTrace) -> None:
    table = PriceTable.model_validate({"currency": "X", "date": "2026-01-01", "source": "s", "gpu_hour": 3600})
    arms = {
        name: [make_trace(f"q{i}", system=name, seconds=place) for i in range(9)] for place, name in enumerate("ab")
    }
    priced = {name: cost_report(traces, prices=table) for name, traces in arms.items()}
    (found,) = extra_right(arms, priced, {"": ("a", "b")}, SETTINGS, family="f")
    assert [(row.quantity, row.difference) for row in found.rows] == [("seconds", 1.0), ("money", 1.0)]
    mixed = {"a": cost_report(arms["a"]), "b": priced["b"]}
    (found,) = extra_right(arms, mixed, {"": ("a", "b")}, SETTINGS, family="f")
    assert [row.quantity for row in found.rows] == ["seconds"]


def test_one_question_shows_no_spread_of_cost(make_trace: MakeTrace) -> None:
    row = compared(make_trace, [(False, 1.0)], [(True, 3.0)]).rows[0]
    assert (row.difference, row.low, row.high, row.per_extra) == (2.0, None, None, None)
    assert difference(row, "") == "2.0 s [–, –]"
