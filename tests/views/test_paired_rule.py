"""The rule of the book: no table or figure compares two arms without n, won and lost, interval and adjusted p.

What can be checked without reading prose: views that lay arms or retrievers side by side stand only in chapters that
also show their paired comparison, and the paired views have every column that the rule names.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from inspect import signature
from pathlib import Path

import pytest

from medvrag_core.evaluation.cost.bill import cost_report
from medvrag_core.evaluation.cost.extra_right import extra_right
from medvrag_core.evaluation.errors.removal import RemovalReport
from medvrag_core.evaluation.statistics.contrasts import compare_arms
from medvrag_core.evaluation.statistics.controls import Control, control_results
from medvrag_core.evaluation.stopping.policies import policy_of, policy_steps
from medvrag_core.evaluation.stopping.rounds import IterationGain
from medvrag_core.records import Question, Trace
from medvrag_core.settings import EvaluationSettings
from medvrag_core.views.calibration_view import (
    abstention_table,
    calibration_table,
    coverage_table,
    reliability_figure,
    risk_coverage_figure,
)
from medvrag_core.views.contrast_view import contrasts_table, sensitivity_table
from medvrag_core.views.control_view import controls_table
from medvrag_core.views.cost_text import extra_right_text
from medvrag_core.views.cost_view import extra_right_table
from medvrag_core.views.grounding_view import removal_table
from medvrag_core.views.retrieval_view import paired_retrieval_table
from medvrag_core.views.stopping_view import gains_table, steps_table
from medvrag_core.views.systems_view import results_table

CHAPTERS = sorted((Path(__file__).resolve().parents[2] / "notebooks").glob("*.ipynb"))
# Views that lay things side by side, and tables of their paired differences, one of which must stand beside them.
PAIRED = (
    (
        {"contrasts_table", "controls_table", "group_contrasts_table"},
        {
            "arms_table",
            "accuracy_by_arm",
            "scorers_table",
            "contrast_figure",
            "discordance_figure",
            "sensitivity_table",
            "controls_figure",
        },
    ),
    (
        {"paired_retrieval_table"},
        {"retrieval_table", "recall_curve", "paired_retrieval_figure", "pooling_table", "pooling_figure"},
    ),
    ({"steps_table"}, {"policies_table", "frontier_figure"}),
    ({"extra_right_table"}, {"extra_right", "stage_costs_table", "cost_accuracy_figure"}),
    ({"results_table"}, {"cost_accuracy_figure", "shown_report"}),
    # One contrast of the best arm is not enough beside a table of all of them.
    (
        {"compare_in_full", "compare_arms", "control_results", "group_contrasts"},
        {"arms_table", "accuracy_by_arm", "accuracy_report"},
    ),
)
# Measures that have no paired test here: their views take one arm, so that no two can stand side by side.
OF_ONE_ARM = (calibration_table, reliability_figure, risk_coverage_figure, coverage_table, abstention_table)
NO_GAIN = IterationGain(n=1, answered_at_once=1, differing_at_once=0, iterated=None, by_rounds=())
NO_REMOVAL = RemovalReport(reference="m", profile="test", n=0, left_out={}, rows=(), effects=())


def views_of(chapter: Path) -> set[str]:
    """Names of what a chapter calls, but for calls with a list of one arm, which compare nothing."""
    cells = json.loads(chapter.read_text(encoding="utf-8"))["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    names = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Call):
            one = bool(node.args) and isinstance(node.args[0], ast.List) and len(node.args[0].elts) == 1
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            names |= set() if one else {name}
    return names


@pytest.mark.parametrize("chapter", CHAPTERS, ids=[c.stem for c in CHAPTERS])
def test_what_stands_side_by_side_comes_with_its_paired_table(chapter: Path) -> None:
    shown = views_of(chapter)
    for tables, views in PAIRED:
        assert shown & tables or not shown & views, f"{sorted(shown & views)} without {' or '.join(sorted(tables))}"


def test_the_check_finds_an_offender(tmp_path: Path) -> None:
    cell = {"cell_type": "code", "source": ["display(views.arms_table(reports))"]}
    (tmp_path / "x.ipynb").write_text(json.dumps({"cells": [cell]}))
    with pytest.raises(AssertionError, match="without contrasts_table"):
        test_what_stands_side_by_side_comes_with_its_paired_table(tmp_path / "x.ipynb")
    cell["source"] = ["display(scorers_table([report]))"]
    (tmp_path / "x.ipynb").write_text(json.dumps({"cells": [cell]}))
    test_what_stands_side_by_side_comes_with_its_paired_table(tmp_path / "x.ipynb")


@pytest.mark.parametrize("view", OF_ONE_ARM, ids=lambda view: view.__name__)
def test_views_without_a_paired_test_take_one_arm(view: Callable[..., object]) -> None:
    first = next(iter(signature(view).parameters.values()))
    assert first.annotation in ("CalibrationReport", "SelectiveReport")


def test_paired_views_have_the_columns_of_the_rule() -> None:
    shown = [contrasts_table([]), sensitivity_table([]), controls_table([]), gains_table(NO_GAIN), steps_table([])]
    shown += [paired_retrieval_table([]), extra_right_table([]), removal_table(NO_REMOVAL)]
    shown.append(results_table([], [], {}, {}))
    for table in shown:
        columns = set(table.columns)
        assert {"n", "questions"} & columns and {"adjusted p", "Holm p"} & columns, table.columns
        assert {"won / lost", "recovered / lost", "only cited / only uncited"} & columns, table.columns
        assert any("interval" in column for column in columns), table.columns


def answers(name: str, labels: str) -> list[Trace]:
    """Two sets, of one and of four questions, so that their two means differ."""
    options = {"A": "x", "B": "y"}
    sets = ("one", "four", "four", "four", "four")
    questions = (
        Question(id=f"q{k}", question="?", options=options, answer="A", dataset=sets[k]) for k in range(len(sets))
    )
    return [
        Trace(
            system=name,
            profile="test",
            fingerprint=name,
            question=question,
            rounds=(),
            outcome="answered",
            label=label,
            correct=label == "A",
            seconds=1.0,
        )
        for question, label in zip(questions, labels, strict=True)
    ]


def test_of_several_sets_both_means_are_shown() -> None:
    arms = {"a": answers("a", "BAABB"), "b": answers("b", "AAABB")}
    settings, pairs = EvaluationSettings(bootstrap_samples=200), {"": ("a", "b")}
    control = Control(arm="b", reference="a", asks="?", if_equal="=")
    tables = [
        contrasts_table(compare_arms(arms, pairs, settings, family="f"), sets=False),
        controls_table(control_results(arms, [control], settings)),
        steps_table(policy_steps([policy_of(traces) for traces in arms.values()], pairs, family="f")),
    ]
    for table in tables:
        place = table.columns.index("points")
        assert [(row[1], row[place]) for row in table.rows] == [("sets", "+50.0"), ("questions", "+20.0")]
    costs = {name: cost_report(traces) for name, traces in arms.items()}
    (extra,) = extra_right(arms, costs, pairs, settings, family="f")
    assert "+20.0 [" in extra_right_table([extra]).html
    assert "mean over sets, b over a: +50.0 points [" in extra_right_table([extra]).caption
    assert "mean over sets, b over a: +50.0 points [" in extra_right_text(extra, "")
