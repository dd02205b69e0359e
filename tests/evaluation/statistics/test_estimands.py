from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from medvrag_core.errors import InputError
from medvrag_core.evaluation.scorers.base import ScorerName
from medvrag_core.evaluation.statistics.estimands import arm_of, find_set_rule, paired, read_sets
from medvrag_core.records import Question, Trace

MakeTrace = Callable[..., Trace]


def named(id: str, dataset: str = "") -> Question:
    return Question(id=id, question="?", options={"A": "x", "B": "y"}, answer="A", dataset=dataset)


@pytest.mark.parametrize(
    "content", [{"q1": "x", "q2": "y"}, {"x": ["q1"], "y": ["q2"]}, {"x": {"q1": {"answer": "A"}}, "y": {"q2": {}}}]
)
def test_files_of_sets_in_three_forms(tmp_path: Path, content: object) -> None:
    path = tmp_path / "sets.json"
    path.write_text(json.dumps(content))
    assert read_sets(path) == {"q1": "x", "q2": "y"}
    rule = find_set_rule(str(path))
    assert rule(named("q2")) == "y"
    with pytest.raises(InputError, match="'q3' is in no set"):
        rule(named("q3"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[1]", "JSON object"),
        ("{", "not valid JSON"),
        ('{"x": 3}', "neither"),
        ('{"x": ["q"], "y": ["q"]}', "in 'x' and in 'y'"),
        ('{"x": [["q"]]}', "neither"),
    ],
)
def test_unusable_files_of_sets_are_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "sets.json"
    path.write_text(text)
    with pytest.raises(InputError, match=words):
        read_sets(path)


def test_rules_of_sets() -> None:
    assert find_set_rule("one")(named("anything:1", "medqa")) == "all"
    assert find_set_rule("prefix")(named("medqa:a:b")) == "medqa"
    assert [find_set_rule("dataset")(named("x:1", name)) for name in ("medqa", "")] == ["medqa", "all"]
    for odd in ("0001", ":x", "medqa:"):
        with pytest.raises(InputError, match="names no set"):
            find_set_rule("prefix")(named(odd))
    with pytest.raises(InputError, match="no such file"):
        find_set_rule("nowhere.json")


def test_an_arm_in_several_runs(make_trace: MakeTrace) -> None:
    runs = [[make_trace("y:1", b), make_trace("x:1", a)] for a, b in (("A", "B"), ("A", None), ("B", "A"))]
    arm = arm_of(runs, find_set_rule("prefix"))
    assert (arm.ids, arm.sets, arm.runs) == (("x:1", "y:1"), ("x", "y"), 3)
    assert arm.right.T.tolist() == [[True, True, False], [False, False, True]]
    assert arm.labels[1].tolist() == ["text A", "(unparsed)"]
    pairs = paired(arm, arm_of(runs[:1], find_set_rule("prefix")))
    assert pairs.names == ("x", "y")
    assert pairs.differences.tolist() == pytest.approx([1 / 3, -1 / 3], abs=1e-8)


def test_runs_that_do_not_belong_together_are_refused(make_trace: MakeTrace) -> None:
    with pytest.raises(InputError, match="different systems"):
        arm_of([[make_trace(system="a")], [make_trace(system="b")]])
    with pytest.raises(InputError, match="run 2 of 'medvrag' did not answer"):
        arm_of([[make_trace("p"), make_trace("q")], [make_trace("p")]])
    with pytest.raises(InputError, match="gold answer"):
        arm_of([[make_trace(gold="A")], [make_trace(gold="B")]])
    with pytest.raises(InputError, match="at least one run"):
        arm_of([])


def with_dataset(trace: Trace, dataset: str) -> Trace:
    return trace.model_copy(update={"question": trace.question.model_copy(update={"dataset": dataset})})


def test_sets_go_by_the_dataset_of_the_question(make_trace: MakeTrace) -> None:
    traces = [with_dataset(make_trace(i), name) for i, name in (("q1", "medqa"), ("q2", "mmlu"), ("q3", "medqa"))]
    assert arm_of([traces]).sets == ("medqa", "mmlu", "medqa")
    assert arm_of([traces], find_set_rule("one")).sets == ("all",) * 3
    assert arm_of([[make_trace("q1"), make_trace("q2")]]).sets == ("all", "all")
    with pytest.raises(InputError, match="'q4' names no dataset, others do"):
        arm_of([[*traces, make_trace("q4")]])
    other = [with_dataset(make_trace(i), "medqa") for i in ("q1", "q2", "q3")]
    with pytest.raises(InputError, match="different sets"):
        paired(arm_of([traces]), arm_of([other]))


def test_arms_are_compared_by_the_texts_of_options(make_trace: MakeTrace) -> None:
    plain = [make_trace("q1", "A", gold="A"), make_trace("q2", "B", gold="A")]
    turned = []
    for trace, label in zip(plain, ("D", "C"), strict=True):
        options = dict(zip("ABCD", reversed(trace.question.options.values()), strict=True))
        question = trace.question.model_copy(update={"options": options, "answer": "D"})
        turned.append(
            trace.model_copy(
                update={"question": question, "label": label, "correct": label == "D", "system": "shuffled"}
            )
        )
    a, b = arm_of([plain]), arm_of([turned])
    assert a.gold == b.gold and a.labels.tolist() == b.labels.tolist()
    assert paired(a, b).differences.tolist() == [0, 0]
    moved = turned[0].model_copy(
        update={"question": turned[0].question.model_copy(update={"answer": "A"}), "correct": False}
    )
    with pytest.raises(InputError, match="gold answer of question 'q1' differs"):
        paired(a, arm_of([[moved, turned[1]]]))
    lost = turned[0].question.model_copy(update={"options": {"A": "x", "B": "y"}})
    with pytest.raises(InputError, match="no gold answer among its options"):
        arm_of([[turned[0].model_copy(update={"question": lost, "label": "A", "correct": False})]])


@pytest.mark.parametrize(("scorer", "right"), [("strict", [0, 1]), ("mirage", [1, 1]), ("lenient", [1, 1])])
def test_an_arm_under_each_scorer(make_trace: MakeTrace, scorer: ScorerName, right: list[int]) -> None:
    traces = [said(make_trace("q1", None), "The answer is A."), said(make_trace("q2", "A"), "<answer>A</answer>")]
    arm = arm_of([traces], scorer=scorer)
    assert arm.right[0].tolist() == right
    assert arm.labels[0].tolist() == ["text A" if right[0] else "(unparsed)", "text A"]


def said(trace: Trace, text: str) -> Trace:
    last = trace.rounds[-1]
    return trace.model_copy(
        update={"rounds": (last.model_copy(update={"reply": last.reply.model_copy(update={"text": text})}),)}
    )
