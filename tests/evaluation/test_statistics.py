from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.contingency_tables import mcnemar as reference_mcnemar
from statsmodels.stats.proportion import proportion_confint

from medvrag_core.errors import InputError
from medvrag_core.evaluation.statistics import (
    compare_arms,
    compare_sequence,
    detectable_difference,
    holm,
    mcnemar,
    questions_needed,
    wilson,
)
from medvrag_core.records import Trace
from medvrag_core.settings import EvaluationSettings

MakeTrace = Callable[..., Trace]
SETTINGS = EvaluationSettings()


def arms(make_trace: MakeTrace, both: int, won: int, lost: int, neither: int) -> tuple[list[Trace], list[Trace]]:
    pairs = [("A", "A")] * both + [("B", "A")] * won + [("A", "B")] * lost + [("B", "B")] * neither
    a = [make_trace(f"q{i}", x, system="a") for i, (x, _) in enumerate(pairs)]
    b = [make_trace(f"q{i}", y, system="b") for i, (_, y) in enumerate(pairs)]
    return a, b


def test_bc40_paired_answers_get_a_paired_test(make_trace: MakeTrace) -> None:
    result = compare_arms(*arms(make_trace, both=60, won=12, lost=3, neither=25), SETTINGS)
    assert (result.correct_a, result.correct_b, result.won, result.lost) == (63, 72, 12, 3)
    assert result.difference == 9.0
    assert result.p_value == pytest.approx(0.035, abs=5e-4)
    assert 0 < result.low < 9.0 < result.high
    # The paired interval of a multinomial: 1.96 * sqrt(0.15 - 0.09^2) / 10 = 7.4 points on each side.
    assert result.low == pytest.approx(9.0 - 7.4, abs=1.1)
    assert result.high == pytest.approx(9.0 + 7.4, abs=1.1)


@pytest.mark.parametrize(
    ("won", "lost", "p"),
    [(57, 72, 0.22), (45, 69, 0.031), (156, 135, 0.24), (129, 101, 0.075)],
    ids=["MedQA GPT-4", "MMLU GPT-4", "MedQA GPT-3.5", "MMLU GPT-3.5"],
)
def test_exact_test_on_flips_between_published_predictions(won: int, lost: int, p: float) -> None:
    assert mcnemar(won, lost) == pytest.approx(p, abs=0.006 if p > 0.1 else 6e-4)


@given(won=st.integers(0, 60), lost=st.integers(0, 60))
def test_exact_test_agrees_with_statsmodels_and_is_symmetric(won: int, lost: int) -> None:
    assert mcnemar(won, lost) == pytest.approx(float(reference_mcnemar([[0, won], [lost, 0]], exact=True).pvalue))
    assert mcnemar(won, lost) == mcnemar(lost, won)


@given(n=st.integers(1, 500), data=st.data())
def test_wilson_agrees_with_statsmodels(n: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(0, n))
    assert wilson(k, n) == pytest.approx(proportion_confint(k, n, method="wilson"), abs=1e-9)


def test_wilson_of_the_papers_evidence_sample() -> None:
    rounded = [tuple(round(100 * x) for x in wilson(k, 100)) for k in (20, 39, 41)]
    assert rounded == [(13, 29), (30, 49), (32, 51)]
    assert wilson(0, 0) == (0.0, 1.0)


def test_holm_of_a_family_of_two() -> None:
    assert holm([0.031, 0.218])[0] == pytest.approx(0.062)
    assert holm([]) == []


@settings(max_examples=25, deadline=None)  # statsmodels collects garbage in every call
@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_never_lowers_a_p_value_and_keeps_their_order(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    assert all(p <= q + 1e-12 <= 1 + 2e-12 for p, q in zip(p_values, adjusted, strict=True))
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    assert all(adjusted[i] <= adjusted[j] + 1e-12 for i, j in itertools.pairwise(order))


@pytest.mark.parametrize(("psi", "n"), [(0.06, 4706), (0.10, 7846), (0.15, 11770), (0.20, 15695)])
def test_questions_needed_for_one_point(psi: float, n: int) -> None:
    assert questions_needed(1.0, psi) == pytest.approx(n, abs=1)


@given(psi=st.floats(0.02, 0.9), n=st.integers(200, 20_000))
def test_detectable_difference_undoes_questions_needed(psi: float, n: int) -> None:
    difference = detectable_difference(n, psi)
    if difference is not None:
        assert questions_needed(difference, psi) == pytest.approx(n, abs=2)


@pytest.mark.parametrize(
    ("psi", "points"),
    [
        (0.06, (1.9, 1.1, 3.1, 2.1)),
        (0.10, (2.5, 1.4, 4.0, 2.7)),
        (0.15, (3.0, 1.7, 4.9, 3.3)),
        (0.20, (3.5, 1.9, 5.6, 3.8)),
    ],
)
def test_detectable_difference_of_the_benchmark_sizes(psi: float, points: tuple[float, ...]) -> None:
    found = [detectable_difference(n, psi) for n in (1273, 4183, 500, 1089)]
    assert found == pytest.approx(points, abs=0.06)


def test_differences_larger_than_the_discordance_are_refused() -> None:
    assert detectable_difference(50, 0.02) is None
    with pytest.raises(InputError, match="discordance"):
        questions_needed(5.0, 0.01)


@given(both=st.integers(0, 9), won=st.integers(0, 9), lost=st.integers(0, 9), neither=st.integers(1, 9))
def test_comparison_does_not_depend_on_order(
    make_trace: MakeTrace, both: int, won: int, lost: int, neither: int
) -> None:
    a, b = arms(make_trace, both, won, lost, neither)
    settings = EvaluationSettings(bootstrap_samples=200)
    result = compare_arms(a, b, settings)
    assert compare_arms(a[::-1], b, settings) == result
    assert result.low <= result.difference <= result.high
    assert result.difference == pytest.approx(100 * (result.accuracy_b - result.accuracy_a))
    turned = compare_arms(b, a, settings)
    assert (turned.difference, turned.p_value) == (-result.difference, result.p_value)


def test_bootstrap_is_seeded(make_trace: MakeTrace) -> None:
    a, b = arms(make_trace, 30, 9, 4, 7)
    assert compare_arms(a, b, SETTINGS) == compare_arms(a, b, SETTINGS)
    few = [compare_arms(a, b, EvaluationSettings(seed=seed, bootstrap_samples=3)) for seed in range(5)]
    assert len({(result.low, result.high) for result in few}) > 1


def test_arms_that_answered_other_questions_are_refused_by_name(make_trace: MakeTrace) -> None:
    a, b = arms(make_trace, 2, 0, 0, 1)
    with pytest.raises(InputError, match="only 'a' answered q0"):
        compare_arms(a, b[1:], SETTINGS)
    changed = [*b[:-1], make_trace("q2", "B", gold="C", system="b")]
    with pytest.raises(InputError, match="gold answer of question 'q2'"):
        compare_arms(a, changed, SETTINGS)


def test_a_sequence_compares_neighbors_and_then_the_ends(make_trace: MakeTrace) -> None:
    sequence = {name: [make_trace("q1", label, system=name)] for name, label in zip("xyz", "BBA", strict=True)}
    pairs = [(c.a, c.b, c.won) for c in compare_sequence(sequence, SETTINGS)]
    assert pairs == [("x", "y", 0), ("y", "z", 1), ("x", "z", 1)]
    assert [(c.a, c.b) for c in compare_sequence({k: sequence[k] for k in "xy"}, SETTINGS)] == [("x", "y")]
