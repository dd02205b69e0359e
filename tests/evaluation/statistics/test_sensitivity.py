"""The same contrasts under other readings: scorers, unanswered questions, near-duplicates."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from medvrag_core.errors import InputError
from medvrag_core.evaluation.statistics.contrasts import Contrast, compare_arms, steps
from medvrag_core.evaluation.statistics.near_duplicates import near_duplicates
from medvrag_core.evaluation.statistics.sensitivity import compare_in_full
from medvrag_core.records import Trace
from medvrag_core.settings import EvaluationSettings

MakeTrace = Callable[..., Trace]
QUICK = EvaluationSettings(bootstrap_samples=500)
REPLIES = {
    "right": "<answer>A</answer>",
    "wrong": "<answer>B</answer>",
    "prose": "The answer is A.",
    "none": "Unclear.",
}


@pytest.fixture
def answered(make_trace: MakeTrace) -> Callable[..., list[Trace]]:
    def make(system: str, kinds: Sequence[str], stems: Sequence[str] | None = None) -> list[Trace]:
        traces = []
        for number, kind in enumerate(kinds):
            label = {"right": "A", "wrong": "B"}.get(kind)
            trace = make_trace(f"q{number:03}", label, system=system)
            last = trace.rounds[-1]
            reply = last.reply.model_copy(update={"text": REPLIES[kind]})
            stem = stems[number] if stems else f"stem number {number}"
            question = trace.question.model_copy(update={"question": stem})
            rounds = (last.model_copy(update={"reply": reply}),)
            traces.append(trace.model_copy(update={"rounds": rounds, "question": question}))
        return traces

    return make


def differences(found: Contrast) -> dict[str, tuple[int, int, int]]:
    return {v.name: (v.n, v.estimates[1].won, v.estimates[1].lost) for v in found.variants}


def test_every_reading_of_one_pair(answered: Callable[..., list[Trace]]) -> None:
    a = answered("a", ["wrong", "right", "prose", "none", "wrong", "right"])
    b = answered("b", ["right", "right", "right", "right", "none", "wrong"])
    arms = {"a": a, "b": b}
    (found,) = compare_in_full(arms, steps(arms), QUICK, family="f")
    assert differences(found) == {
        "strict": (6, 3, 1),
        "mirage": (6, 2, 1),  # letter A, which is right, for the two replies without a letter
        "lenient": (6, 2, 1),
        "answered": (3, 1, 1),
        "clusters": (6, 3, 1),
    }
    plain = compare_arms(arms, steps(arms), QUICK, family="f")
    assert [found.model_copy(update={"variants": (), "stems": None})] == plain
    assert found.variants[0].estimates == found.estimates
    assert found.stems is not None and (found.stems.questions, found.stems.largest) == (6, 1)


def test_variants_are_adjusted_over_the_same_family(answered: Callable[..., list[Trace]]) -> None:
    kinds = (["wrong"] * 30, ["right"] * 9 + ["wrong"] * 21, ["right"] * 14 + ["none"] * 16)
    arms = {name: answered(name, k) for name, k in zip("abc", kinds, strict=True)}
    found = compare_in_full(arms, steps(arms), QUICK, family="f")
    for c in found:
        assert [v.name for v in c.variants] == ["strict", "mirage", "lenient", "answered", "clusters"]
        assert all(v.estimates[1].p_adjusted >= v.estimates[1].p_value for v in c.variants)
    assert {v.n for c in found for v in c.variants if v.name == "answered"} == {14}, "what all three arms answered"


def test_repeated_questions_are_less_evidence(answered: Callable[..., list[Trace]]) -> None:
    stems = [f"Which drug treats disease {i // 10}?" for i in range(100)]
    assert len(set(near_duplicates(stems))) == 10
    rng = np.random.default_rng(3)
    better = np.repeat(rng.random(10) < 0.7, 10)
    a = answered("a", ["wrong" if x else "right" for x in better], stems)
    b = answered("b", ["right" if x else "wrong" for x in better], stems)
    (found,) = compare_in_full({"a": a, "b": b}, {"c": ("a", "b")}, QUICK, family="f")
    strict, clusters = (next(v for v in found.variants if v.name == n).estimates[1] for n in ("strict", "clusters"))
    assert clusters.difference == strict.difference
    assert clusters.p_value > 0.05 > strict.p_value
    assert clusters.high - clusters.low > 2 * (strict.high - strict.low)
    assert clusters.test == "sign_flip" and strict.test == "mcnemar"
    assert found.stems is not None and (found.stems.clusters, found.stems.largest) == (10, 10)


def test_no_question_that_all_answered_leaves_the_reading_out(answered: Callable[..., list[Trace]]) -> None:
    arms = {"a": answered("a", ["none", "right"]), "b": answered("b", ["right", "none"])}
    (found,) = compare_in_full(arms, steps(arms), QUICK, family="f")
    assert "answered" not in differences(found)


def test_arms_on_other_questions_are_refused(answered: Callable[..., list[Trace]]) -> None:
    arms = {"a": answered("a", ["right"] * 3), "b": answered("b", ["right"] * 3), "c": answered("c", ["right"] * 2)}
    with pytest.raises(InputError, match="different questions, for example 'q002'"):
        compare_in_full(arms, {"x": ("a", "b")}, QUICK, family="f")
    with pytest.raises(InputError, match="no traces of arm 'd'"):
        compare_in_full(arms, {"x": ("a", "d")}, QUICK, family="f")
