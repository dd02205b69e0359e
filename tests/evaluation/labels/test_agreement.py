from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.inter_rater import cohens_kappa

from medvrag_core.errors import InputError
from medvrag_core.evaluation.labels.agreement import agreement
from medvrag_core.evaluation.labels.relevance import Grade, RelevanceLabel
from medvrag_core.settings import EvaluationSettings

SETTINGS = EvaluationSettings(bootstrap_samples=1_000)
YES, NO = "relevant", "not_relevant"


def labels(rater: str, grades: Sequence[Grade | None], *, each: int = 1, **more: object) -> list[RelevanceLabel]:
    """Labels of pages, ``each`` pages a question."""
    return [
        RelevanceLabel.model_validate(
            {"question_id": f"q{n // each}", "page_id": f"a#p{n}", "rater": rater, "label": grade} | more
        )
        for n, grade in enumerate(grades)
    ]


def of_counts(both: int, only_a: int, only_b: int, neither: int) -> tuple[list[RelevanceLabel], list[RelevanceLabel]]:
    pairs = [(YES, YES)] * both + [(YES, NO)] * only_a + [(NO, YES)] * only_b + [(NO, NO)] * neither
    return labels("a", [a for a, _ in pairs]), labels("b", [b for _, b in pairs])  # type: ignore[misc]


@settings(max_examples=50, deadline=None)
@given(st.tuples(*[st.integers(0, 9)] * 4).filter(sum))
def test_kappa_and_shares_are_those_of_statsmodels(counts: tuple[int, int, int, int]) -> None:
    found = agreement(*of_counts(*counts), EvaluationSettings(bootstrap_samples=50))
    both, only_a, only_b, neither = counts
    n = sum(counts)
    assert (found.both_relevant, found.only_a, found.only_b, found.neither) == counts
    assert found.raw.value == pytest.approx((both + neither) / n)
    assert found.prevalence_a.value == pytest.approx((both + only_a) / n)
    assert found.prevalence_b.value == pytest.approx((both + only_b) / n)
    if n in (both, neither):
        assert found.kappa is None
        assert found.undefined.startswith("both raters call " + ("every" if both else "no"))
        assert found.undefined_draws == 50
    else:
        assert found.kappa is not None
        table = np.array([[both, only_a], [only_b, neither]])
        with np.errstate(all="ignore"):
            assert found.kappa.value == pytest.approx(cohens_kappa(table, return_results=False), abs=1e-12)
        assert found.kappa.low <= found.kappa.value <= found.kappa.high


def test_with_one_page_a_question_the_interval_is_about_that_of_statsmodels() -> None:
    found = agreement(*of_counts(60, 15, 12, 90), SETTINGS)
    reference = cohens_kappa(np.array([[60, 15], [12, 90]]))
    assert found.kappa is not None
    assert (found.kappa.low, found.kappa.high) == pytest.approx((reference.kappa_low, reference.kappa_upp), abs=0.03)


def test_questions_are_drawn_and_not_pages() -> None:
    """Ten copies of every page tell nothing new: the interval stays as wide as it was."""
    grades = [(YES, YES)] * 12 + [(YES, NO)] * 4 + [(NO, YES)] * 3 + [(NO, NO)] * 11
    once = agreement(labels("a", [a for a, _ in grades]), labels("b", [b for _, b in grades]), SETTINGS)  # type: ignore[misc]
    tenfold = [pair for pair in grades for _ in range(10)]
    many = agreement(
        labels("a", [a for a, _ in tenfold], each=10),  # type: ignore[misc]
        labels("b", [b for _, b in tenfold], each=10),  # type: ignore[misc]
        SETTINGS,
    )
    assert many.questions == once.questions == 30
    assert many.pages == 300
    assert many.kappa == once.kappa
    assert many.raw == once.raw


def test_unclear_and_single_labels_are_counted_and_left_out() -> None:
    a = labels("a", [YES, NO, "partly", "unsure", None, YES])
    b = labels("b", [YES, NO, YES, YES, NO])
    strict, loose = agreement(a, b, SETTINGS), agreement(a, b, SETTINGS, partly=True)
    assert (strict.pages, strict.unclear, strict.labeled_once) == (3, 2, 1)
    assert strict.labels_a == {"not_relevant": 1, "partly": 1, "relevant": 2, "unread": 1, "unsure": 1}
    assert (strict.only_b, loose.only_b, loose.both_relevant) == (1, 0, 2)
    with pytest.raises(InputError, match="by both raters"):
        agreement(a, labels("b", ["unsure"] * 6), SETTINGS)


def test_pages_weigh_as_many_as_they_stand_for() -> None:
    """One of ten rejected pages was drawn, every relevant one: unweighted, half the pool would seem relevant."""
    a = labels("a", [YES] * 10) + labels("a", [None] * 10 + [NO] * 10)[10:]
    b = [x.model_copy(update={"rater": "b", "probability": 1.0 if x.label == YES else 0.1}) for x in a]
    b[10] = b[10].model_copy(update={"label": YES})
    found = agreement(a, b, SETTINGS)
    assert found.weighted
    assert found.prevalence_a.value == pytest.approx(10 / 110)
    assert found.prevalence_b.value == pytest.approx(20 / 110)
    assert found.raw.value == pytest.approx(100 / 110)
    clash = [x.model_copy(update={"probability": 0.5}) for x in a]
    with pytest.raises(InputError, match="two probabilities"):
        agreement(clash, b, SETTINGS)


def test_certainty_is_not_claimed_from_few_questions() -> None:
    perfect = agreement(*of_counts(3, 0, 0, 3), SETTINGS)
    assert perfect.kappa is not None and perfect.kappa.value == 1.0
    assert perfect.raw.value == 1.0 and perfect.raw.low < 0.7
    assert perfect.undefined_draws > 0 and perfect.one_kappa
    assert not agreement(*of_counts(6, 2, 1, 5), SETTINGS).one_kappa
    one = agreement(labels("a", [YES, NO], each=2), labels("b", [YES, NO], each=2), SETTINGS)
    assert one.kappa is not None and (one.kappa.low, one.raw.low) == (-1.0, 0.0)
