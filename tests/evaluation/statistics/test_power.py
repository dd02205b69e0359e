from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.power import normal_sample_size_one_tail

from medvrag_core.errors import InputError
from medvrag_core.evaluation.benchmarks.load import MIRAGE_SIZES
from medvrag_core.evaluation.statistics.estimands import Arm
from medvrag_core.evaluation.statistics.power import discordance_of_seeds, flip_rate, plan_power, power_of
from medvrag_core.evaluation.statistics.proportions import detectable_difference, questions_needed


@pytest.mark.parametrize(
    ("psi", "power", "needed", "detectable"),
    [
        (0.06, (0.93, 0.74), 4706, (0.8, 1.1, 1.9, 1.1, 3.1, 2.1)),
        (0.10, (0.76, 0.52), 7846, (1.1, 1.4, 2.5, 1.4, 4.0, 2.7)),
        (0.15, (0.58, 0.38), 11770, (1.3, 1.7, 3.0, 1.7, 4.9, 3.3)),
        (0.20, (0.47, 0.30), 15695, (1.5, 2.0, 3.5, 1.9, 5.6, 3.8)),
    ],
)
def test_power_for_one_point_on_the_papers_sets(
    psi: float, power: tuple[float, ...], needed: int, detectable: tuple[float, ...]
) -> None:
    rows = {row.what: row for row in plan_power(MIRAGE_SIZES, [psi]).rows}
    assert [round(rows[e].power, 2) for e in ("question_weighted", "macro")] == list(power)
    assert rows["macro"].questions_needed == pytest.approx(needed, abs=1)
    names = ("question_weighted", "macro", *MIRAGE_SIZES)
    assert [rows[name].detectable for name in names] == pytest.approx(detectable, abs=0.06)


@pytest.mark.parametrize(("seeds", "simulated"), [(1, (0.74, 0.50)), (3, (0.88, 0.67)), (5, (0.93, 0.73))])
def test_seeds_average_out_the_noise_of_runs(seeds: int, simulated: tuple[float, float]) -> None:
    rows = {row.what: row for row in plan_power(MIRAGE_SIZES, [0.11], seeds=seeds, flips=0.055).rows}
    # The figures are a simulation with a noise model of its own; the formula stays close to it.
    assert [rows[e].power for e in ("question_weighted", "macro")] == pytest.approx(simulated, abs=0.035)


def test_the_discordance_of_averaged_seeds_is_what_a_simulation_gives() -> None:
    rng = np.random.default_rng(11)
    n, seeds = 200_000, 4
    p = rng.beta(0.5, 0.3, n)
    q = np.clip(p + rng.choice([0, 0.2, -0.1], n, p=[0.8, 0.1, 0.1]), 0, 1)
    a, b = (rng.random((seeds, n)) < side for side in (p, q))
    again_a, again_b = (rng.random(n) < side for side in (p, q))
    flips = ((a[0] != again_a).mean() + (b[0] != again_b).mean()) / 2
    expected = ((a.mean(0) - b.mean(0)) ** 2).mean()
    assert discordance_of_seeds((a[0] != b[0]).mean(), flips, seeds) == pytest.approx(expected, abs=0.003)


@given(psi=st.floats(0.03, 0.5), n=st.integers(300, 20_000), target=st.floats(0.6, 0.95), alpha=st.floats(0.005, 0.1))
def test_power_at_the_detectable_difference_is_the_target(psi: float, n: int, target: float, alpha: float) -> None:
    difference = detectable_difference(n, psi, alpha=alpha, power=target)
    if difference is not None and difference < 99 * psi:
        assert power_of(difference, n, psi, alpha=alpha) == pytest.approx(target, abs=0.002)


@given(psi=st.floats(0.03, 0.5), share=st.floats(0.05, 0.9), target=st.floats(0.6, 0.95))
def test_questions_needed_agree_with_statsmodels(psi: float, share: float, target: float) -> None:
    delta = psi * share
    reference = normal_sample_size_one_tail(
        delta, target, 0.025, std_null=psi**0.5, std_alternative=(psi - delta**2) ** 0.5
    )
    assert questions_needed(100 * delta, psi, power=target) == pytest.approx(float(reference), abs=1.001)


def test_power_is_the_share_of_simulated_runs_that_find_the_difference() -> None:
    from medvrag_core.evaluation.statistics.proportions import mcnemar

    rng = np.random.default_rng(5)
    n, psi, delta = 1500, 0.10, 0.025
    won, lost, _ = rng.multinomial(n, [(psi + delta) / 2, (psi - delta) / 2, 1 - psi], size=2_000).T
    found = np.mean([mcnemar(int(w), int(x)) < 0.05 for w, x in zip(won, lost, strict=True)])
    assert power_of(100 * delta, n, psi) == pytest.approx(found, abs=0.04)


def test_the_first_step_of_holm_costs_power() -> None:
    alone = plan_power({"s": 4000}, [0.1]).rows[0]
    family = plan_power({"s": 4000}, [0.1], tests=3).rows[0]
    assert family.power < alone.power
    assert (family.detectable or 0) > (alone.detectable or 0)
    assert family.questions_needed > alone.questions_needed


def test_flip_rate_averages_pairs_of_runs() -> None:
    right = np.array([[1, 1, 0, 0], [1, 0, 0, 0], [1, 0, 1, 0]], dtype=bool)
    labels = np.array([["A", "A", "B", "C"], ["A", "B", "B", "D"], ["A", "B", "A", "C"]])
    ids = tuple("wxyz")
    arm = Arm("a", ids, ("s",) * 4, right, labels, ("A",) * 4, ("f",) * 3)
    found = flip_rate(arm)
    assert found.right_or_wrong == pytest.approx((1 + 2 + 1) / 3 / 4)
    assert found.label == pytest.approx((2 + 2 + 2) / 3 / 4)
    assert found.low < found.right_or_wrong < found.high
    with pytest.raises(InputError, match="two runs"):
        flip_rate(Arm("a", ids, ("s",) * 4, right[:1], labels[:1], ("A",) * 4, ("f",)))


@pytest.mark.parametrize(
    "wrong",
    [
        {"sets": {}},
        {"sets": {"s": 0}},
        {"difference": 20.0},
        {"flips": 0.2},
        {"discordances": [1.2]},
        {"target": 1.0},
        {"alpha": 0.0},
        {"seeds": 0},
    ],
)
def test_plans_that_cannot_be_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError):
        plan_power(**{"sets": {"s": 100}, "discordances": [0.1], **wrong})  # type: ignore[arg-type]
