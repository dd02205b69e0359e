from __future__ import annotations

from medvrag_core.evaluation.labels.agreement import agreement
from medvrag_core.evaluation.labels.corrected import corrected_share
from medvrag_core.evaluation.labels.relevance import RelevanceLabel
from medvrag_core.evaluation.labels.sample import draw_sample
from medvrag_core.settings import EvaluationSettings
from medvrag_core.views.label_view import agreement_table, correction_table, sample_table

SETTINGS = EvaluationSettings(bootstrap_samples=100)


def labels(rater: str, grades: str, probability: float | None = None) -> list[RelevanceLabel]:
    return [
        RelevanceLabel(
            question_id=f"q{n}",
            page_id="a#p1",
            rater=rater,
            label="relevant" if grade == "+" else "not_relevant",
            probability=probability if grade == "+" else None,
        )
        for n, grade in enumerate(grades)
    ]


def test_agreement_stands_beside_prevalence_and_counts() -> None:
    html = agreement_table(agreement(labels("<j>", "++--"), labels("ann", "+---", 0.5), SETTINGS), caption="c").html
    assert "relevant to &lt;j&gt; alone" in html and "4 pages of 4 questions" in html
    assert "weighted by 1 / probability" in html and "Cohen&#x27;s kappa" in html
    assert "0.800 [" in html  # 4 of 5 pages of the pool: the drawn page stands for two


def test_a_judge_that_rejects_everything_has_a_kappa_without_uncertainty() -> None:
    found = agreement(labels("j", "-" * 7), labels("ann", "+--+---"), SETTINGS)
    html = agreement_table(found).html
    assert "0.000 [0.000, 0.000]" in html and "shows no uncertainty" in html


def test_undefined_kappa_and_correction_say_why() -> None:
    a, b = labels("j", "--"), labels("ann", "--")
    assert "both raters call no page relevant" in agreement_table(agreement(a, b, SETTINGS)).html
    html = correction_table(corrected_share(a, b, SETTINGS)).html
    assert "sensitivity is unknown" in html and "–" in html and "resamples, which" not in html


def test_the_sample_tells_sizes_and_probabilities() -> None:
    strata = {("q", f"a#p{n}"): "kept" if n < 8 else "shown" for n in range(10)}
    html = sample_table(draw_sample(strata, 2)).html
    assert "<td" in html and "0.250" in html and "1.000" in html and ">8<" in html
