from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medvrag_core.errors import InputError
from medvrag_core.evaluation.retrieval.metrics import QuestionScores, question_scores
from medvrag_core.evaluation.retrieval.paired import paired_family, paired_retrieval
from medvrag_core.evaluation.statistics.proportions import holm
from medvrag_core.settings import EvaluationSettings

SETTINGS = EvaluationSettings(bootstrap_samples=4_000)
VALUES = st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=6, max_size=9)


def scores(values: list[float], metric: str = "nDCG@10") -> QuestionScores:
    ids = tuple(f"q{n}" for n in range(len(values)))
    return QuestionScores(ids, np.ones(len(ids), dtype=bool), {metric: np.array(values)})


@settings(max_examples=25, deadline=None)
@given(VALUES, st.data())
def test_counts_difference_and_p_are_those_of_every_flip(first: list[float], data: st.DataObject) -> None:
    size = len(first)
    second = data.draw(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=size, max_size=size))
    (row,) = paired_retrieval({"a": scores(first), "b": scores(second)}, "a", SETTINGS, metrics=("nDCG@10",))
    d = np.array(second) - np.array(first)
    assert (row.n, row.won, row.lost) == (size, int((d > 0).sum()), int((d < 0).sum()))
    assert row.difference == pytest.approx(row.mean_b - row.mean_a)
    flips = np.array(list(itertools.product([-1, 1], repeat=size)))
    exact = (np.abs(flips @ d) >= abs(d.sum()) - 1e-9).mean()
    assert row.p_value == pytest.approx(exact, abs=0.05)
    assert row.low <= row.difference <= row.high
    assert row.low < row.high


def test_all_rows_are_one_family() -> None:
    rng = np.random.default_rng(0)
    ids = tuple(f"q{n}" for n in range(40))
    arms = {
        name: QuestionScores(
            ids,
            np.ones(40, dtype=bool),
            {m: np.clip(rng.random(40) + shift, 0, 1) for m in ("recall@10", "nDCG@10")},
        )
        for name, shift in (("a", 0.0), ("b", 0.15), ("c", 0.4))
    }
    rows = paired_retrieval(arms, "a", SETTINGS)
    assert [(r.b, r.metric) for r in rows] == [(b, m) for m in ("recall@10", "nDCG@10") for b in ("b", "c")]
    assert [r.p_adjusted for r in rows] == holm([r.p_value for r in rows])
    assert {r.family for r in rows} == {4}
    assert rows[1].p_adjusted < 0.05


def test_any_pairs_can_be_one_family() -> None:
    arms = {"a": scores([0.0, 0.5] * 4), "b": scores([0.5, 1.0] * 4), "c": scores([1.0, 0.0] * 4)}
    pairs = [("a", "b"), ("c", "b")]
    rows = paired_family(arms, pairs, SETTINGS, metrics=("nDCG@10",))
    assert [(r.a, r.b, r.family) for r in rows] == [("a", "b", 2), ("c", "b", 2)]
    assert [r.p_adjusted for r in rows] == holm([r.p_value for r in rows])
    assert rows[0].difference == pytest.approx(0.5)
    with pytest.raises(InputError, match="no ranking 'd'"):
        paired_family(arms, [("a", "d")], SETTINGS)


def test_no_difference_on_few_questions_proves_no_equality() -> None:
    same = scores([1.0] * 8)
    (row,) = paired_retrieval({"a": same, "b": same}, "a", SETTINGS, metrics=("nDCG@10",))
    assert (row.won, row.lost, row.p_value) == (0, 0, 1.0)
    assert row.low < -0.1 and row.high > 0.1


def test_what_cannot_be_paired_is_refused() -> None:
    with pytest.raises(InputError, match=r"different questions.*q2"):
        paired_retrieval({"a": scores([1.0, 0.0]), "b": scores([1.0, 0.0, 1.0])}, "a", SETTINGS, metrics=("nDCG@10",))
    with pytest.raises(InputError, match=r"'MRR' was not measured; choose of nDCG@10"):
        paired_retrieval({"a": scores([1.0]), "b": scores([1.0])}, "a", SETTINGS, metrics=("MRR",))
    with pytest.raises(InputError, match="no ranking 'c'"):
        paired_retrieval({"a": scores([1.0])}, "c", SETTINGS)


def test_scores_of_real_rankings_are_paired_by_question() -> None:
    gold = {"x": {"p#p1": 1}, "y": {"p#p2": 1}}
    good = question_scores({"x": ["p#p1"], "y": ["p#p3", "p#p2"]}, gold, ks=(10,))
    bad = question_scores({"y": ["p#p2"]}, gold, ks=(10,))
    rows = {r.metric: r for r in paired_retrieval({"good": good, "bad": bad}, "good", SETTINGS)}
    assert (rows["recall@10"].won, rows["recall@10"].lost) == (0, 1)
    assert (rows["nDCG@10"].won, rows["nDCG@10"].lost) == (1, 1)
    assert rows["nDCG@10"].difference == pytest.approx((-1.0 + (1 - 1 / np.log2(3))) / 2)
