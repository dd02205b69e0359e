from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.contingency_tables import mcnemar as reference_mcnemar
from statsmodels.stats.proportion import proportion_confint

from medvrag_core.errors import InputError
from medvrag_core.evaluation.statistics.proportions import (
    detectable_difference,
    holm,
    mcnemar,
    questions_needed,
    wilson,
)


@pytest.mark.parametrize(
    ("won", "lost", "p"),
    [(57, 72, 0.218), (45, 69, 0.031), (156, 135, 0.24), (129, 101, 0.075)],
    ids=["MedQA GPT-4", "MMLU GPT-4", "MedQA GPT-3.5", "MMLU GPT-3.5"],
)
def test_exact_test_on_flips_between_published_predictions(won: int, lost: int, p: float) -> None:
    assert mcnemar(won, lost) == pytest.approx(p, abs=6e-3 if p == 0.24 else 6e-4)


@pytest.mark.parametrize(("won", "lost"), [(200, 43), (189, 34)], ids=["PubMedQA GPT-3.5", "PubMedQA GPT-4"])
def test_flips_that_leave_no_doubt(won: int, lost: int) -> None:
    assert 0 < mcnemar(won, lost) < 1e-24


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
