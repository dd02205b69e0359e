from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from medvrag_core.errors import InputError
from medvrag_core.evaluation.estimands import arm_of, find_set_rule, paired, read_sets
from medvrag_core.records import Trace

MakeTrace = Callable[..., Trace]


@pytest.mark.parametrize(
    "content", [{"q1": "x", "q2": "y"}, {"x": ["q1"], "y": ["q2"]}, {"x": {"q1": {"answer": "A"}}, "y": {"q2": {}}}]
)
def test_files_of_sets_in_three_forms(tmp_path: Path, content: object) -> None:
    path = tmp_path / "sets.json"
    path.write_text(json.dumps(content))
    assert read_sets(path) == {"q1": "x", "q2": "y"}
    rule = find_set_rule(str(path))
    assert rule("q2") == "y"
    with pytest.raises(InputError, match="'q3' is in no set"):
        rule("q3")


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
    assert find_set_rule("one")("anything:1") == "all"
    assert find_set_rule("prefix")("medqa:a:b") == "medqa"
    for odd in ("0001", ":x", "medqa:"):
        with pytest.raises(InputError, match="names no set"):
            find_set_rule("prefix")(odd)
    with pytest.raises(InputError, match="no such file"):
        find_set_rule("nowhere.json")


def test_an_arm_in_several_runs(make_trace: MakeTrace) -> None:
    runs = [[make_trace("y:1", b), make_trace("x:1", a)] for a, b in (("A", "B"), ("A", None), ("B", "A"))]
    arm = arm_of(runs, find_set_rule("prefix"))
    assert (arm.ids, arm.sets, arm.runs) == (("x:1", "y:1"), ("x", "y"), 3)
    assert arm.right.T.tolist() == [[True, True, False], [False, False, True]]
    assert arm.labels[1].tolist() == ["A", "(unparsed)"]
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
