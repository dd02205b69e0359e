"""The rule of the book: no table or figure compares two arms without n, won and lost, interval and adjusted p.

What can be checked without reading prose: views that lay arms or retrievers side by side stand only in chapters that
also show their paired comparison, and the paired views have every column that the rule names.
"""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from medvrag_core.views.contrast_view import contrasts_table, sensitivity_table
from medvrag_core.views.retrieval_view import paired_retrieval_table

CHAPTERS = sorted((Path(__file__).resolve().parents[2] / "notebooks").glob("*.ipynb"))
# Views that lay things side by side, and tables of their paired differences, one of which must stand beside them.
PAIRED = (
    (
        {"contrasts_table", "controls_table"},
        {"arms_table", "accuracy_by_arm", "scorers_table", "contrast_figure", "sensitivity_table", "controls_figure"},
    ),
    ({"paired_retrieval_table"}, {"retrieval_table", "recall_curve", "paired_retrieval_figure"}),
    ({"steps_table"}, {"policies_table", "frontier_figure"}),
)


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


def test_paired_views_have_the_columns_of_the_rule() -> None:
    for table in (contrasts_table([]), sensitivity_table([])):
        assert set(table.columns) >= {"n", "won / lost", "p", "adjusted p"}
        assert any("interval" in column for column in table.columns)
    retrieval = paired_retrieval_table([]).columns
    assert set(retrieval) >= {"questions", "won / lost", "Holm p"} and any("interval" in column for column in retrieval)
