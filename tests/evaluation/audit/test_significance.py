from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medvrag_core.evaluation.audit.averages import steps
from medvrag_core.evaluation.audit.paper import load_paper
from medvrag_core.evaluation.audit.significance import largest_discordance, mcnemar_at, step_tests
from medvrag_core.evaluation.statistics.proportions import mcnemar

SHOWN = (0.04, 0.06, 0.08, 0.10, 0.15, 0.20)


@pytest.mark.parametrize(
    ("net", "n", "expected"),
    [
        (13, 1273, (0.092, 0.171, 0.237, 0.287, 0.385, 0.452)),
        (33, 4183, (0.013, 0.043, 0.080, 0.118, 0.201, 0.269)),
        (10, 500, (0.041, 0.099, 0.154, 0.203, 0.302, 0.368)),
        (17, 1089, (0.016, 0.046, 0.086, 0.125, 0.210, 0.280)),
    ],
)
def test_exact_p_values_are_those_worked_out_apart(net: int, n: int, expected: tuple[float, ...]) -> None:
    assert [mcnemar_at(net, n, psi) for psi in SHOWN] == pytest.approx(expected, abs=6e-4)
    assert [mcnemar_at(-net, n, psi) for psi in SHOWN] == [mcnemar_at(net, n, psi) for psi in SHOWN]


@given(st.integers(0, 60), st.integers(61, 900))
@settings(max_examples=60)
def test_the_largest_discordance_is_where_significance_ends(net: int, n: int) -> None:
    lost = [m for m in range((n - net) // 2 + 1) if mcnemar(net + m, m) < 0.05]
    found = largest_discordance(net, n)
    assert found == ((net + 2 * max(lost)) / n if lost else None)


def test_a_discordance_smaller_than_the_difference_has_no_p_value() -> None:
    assert mcnemar_at(50, 500, 0.04) is None
    assert mcnemar_at(0, 500, 0.04) == pytest.approx(1.0)


def test_p_values_of_the_means_are_those_worked_out_apart() -> None:
    paper = load_paper()
    tests = step_tests(paper.table, steps(paper.table, list(paper.sequence[1:])))
    at = {(t.second, t.discordance): t for t in tests}
    for arm, plain, weighted in (
        ("page images", 0.044, 0.022),
        ("iteration", 0.002, 0.007),
        ("memory (full)", 0.049, 0),
    ):
        assert at[arm, 0.10].plain == pytest.approx(plain, abs=6e-4)
        assert at[arm, 0.10].weighted == pytest.approx(weighted, abs=6e-4)
    adjusted = [t.plain_holm for t in tests if t.discordance == 0.08]
    assert adjusted == pytest.approx([0.048, 0.002, 0.048], abs=6e-4)


def test_the_test_of_the_mean_of_sets_agrees_with_simulated_tables() -> None:
    """Under no difference, a mean of sets as large as the one seen is as rare as its p-value says."""
    paper = load_paper()
    made = steps(paper.table, list(paper.sequence[1:3]))
    test = step_tests(paper.table, made, discordances=(0.10,))[0]
    rng = np.random.default_rng(7)
    means = np.zeros(40_000)
    for n in paper.table.sizes.values():
        differing = rng.binomial(n, 0.10, size=means.size)
        means += (2 * rng.binomial(differing, 0.5) - differing) / n / len(paper.table.sizes)
    seen = (made[0].plain or 0) / 100
    assert test.plain == pytest.approx(float(np.mean(np.abs(means) >= seen)), abs=0.006)


def test_a_family_with_an_untestable_member_is_not_adjusted() -> None:
    paper = load_paper().with_cell("page images", "PubMedQA", "95.0")
    tests = step_tests(paper.table, steps(paper.table, list(paper.sequence[1:])), discordances=(0.04,))
    assert tests[0].by_set["PubMedQA"] is None
    assert [t.plain_holm for t in tests] == [None, None, None]
