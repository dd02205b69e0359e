"""Confidence on questions that have an answer in the corpus against those that have none."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu

from medvrag_core.errors import InputError
from medvrag_core.evaluation.calibration.answerability import (
    answerability_report,
    auroc,
    best_threshold,
    confidences_of,
)
from medvrag_core.records import Trace
from medvrag_core.settings import EvaluationSettings

QUICK = EvaluationSettings(bootstrap_samples=200)
CONFIDENCES = st.lists(st.integers(0, 4).map(lambda k: k / 4), min_size=1, max_size=9)
Make = Callable[..., Trace]


def traces(make_trace: Make, name: str, shares: Sequence[float], *, answerable: bool = True) -> list[Trace]:
    made = []
    for n, share in enumerate(shares):
        trace = make_trace(f"{name}{n}", options=2)
        last = trace.rounds[-1]
        assert last.reply is not None
        reply = last.reply.model_copy(update={"option_scores": {"A": share, "B": 1 - share}})
        update: dict[str, object] = {"rounds": (last.model_copy(update={"reply": reply}),)}
        if not answerable:
            update |= {"question": trace.question.model_copy(update={"answer": None}), "correct": None}
        made.append(trace.model_copy(update=update))
    return made


@given(CONFIDENCES, CONFIDENCES)
def test_the_auroc_is_the_statistic_of_mann_and_whitney(yes: list[float], no: list[float]) -> None:
    statistic = mannwhitneyu(yes, no).statistic
    assert auroc(np.array(yes), np.array(no)) == pytest.approx(statistic / (len(yes) * len(no)))


@given(CONFIDENCES, CONFIDENCES)
def test_no_threshold_parts_them_better(yes: list[float], no: list[float]) -> None:
    a, b = np.array(yes), np.array(no)

    def gain(level: float) -> float:
        return float((b < level).mean() - (a < level).mean())

    best = best_threshold(a, b)
    assert all(gain(level) <= gain(best) + 1e-12 for level in np.linspace(0, 1, 21))
    assert all(gain(level) < gain(best) for level in np.unique([*yes, *no]) if level < best)


def test_the_threshold_comes_from_other_questions(make_trace: Make) -> None:
    chosen_on = (traces(make_trace, "d", [0.9, 0.8]), traces(make_trace, "e", [0.2], answerable=False))
    yes = traces(make_trace, "y", [0.95, 0.6, 0.9])
    no = traces(make_trace, "n", [0.85, 0.3], answerable=False)
    report = answerability_report(yes, no, QUICK, chosen_on=chosen_on)
    assert report.auroc.value == pytest.approx(5 / 6)
    held = report.held_back
    assert held is not None and held.threshold == 0.8
    assert (held.answerable.count, held.answerable.n) == (1, 3)
    assert (held.unanswerable.count, held.unanswerable.n) == (1, 2)
    assert (held.right_before.count, held.right_given.count, held.right_given.n) == (3, 2, 2)
    assert answerability_report(yes, no, QUICK).held_back is None


def test_a_question_that_got_no_answer_was_held_back(make_trace: Make) -> None:
    (trace,) = traces(make_trace, "n", [0.9], answerable=False)
    silent = trace.model_copy(update={"outcome": "unparsed", "label": None, "correct": None})
    assert confidences_of([silent]).tolist() == [0.0]
    with pytest.raises(InputError, match="no answers"):
        confidences_of([])
