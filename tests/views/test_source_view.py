"""Parts of a Python file as code: the right lines, decorators included, and nothing that leaves its fence."""

from __future__ import annotations

from pathlib import Path

import pytest

from medvrag_core.errors import InputError
from medvrag_core.views.source_view import SourceCode, source_of

FILE = '''"""A file."""
import os


@twice(
    "x")
@once
class Second:
    """Two."""

    first = 1


def first(a: int) -> int:
    # why
    return a


value = 3
'''
OWN = Path(__file__).resolve().parents[2] / "book" / "examples" / "own_system.py"


def test_parts_come_with_their_decorators_in_the_order_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text(FILE, encoding="utf-8")
    assert source_of(path, "first").code == "def first(a: int) -> int:\n    # why\n    return a"
    both = source_of(path, "first", "Second").code
    assert both.startswith("def first") and '\n\n\n@twice(\n    "x")\n@once\nclass Second:' in both
    assert both.endswith("    first = 1")


def test_nothing_is_run_and_faults_are_told(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("raise SystemExit\ndef f(): pass\n", encoding="utf-8")
    assert source_of(path, "f").code == "def f(): pass"
    with pytest.raises(InputError, match=r"a\.py: has no 'g'; choose among f"):
        source_of(path, "g")
    path.write_text("def f(:\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"a\.py, line 1"):
        source_of(path, "f")
    with pytest.raises(InputError, match="no such file"):
        source_of(tmp_path / "b.py", "f")


def test_a_fence_is_longer_than_any_run_of_backticks_in_it() -> None:
    shown = SourceCode("x = '````'\n```\n<script>")._repr_markdown_()
    assert shown == "`````python\nx = '````'\n```\n<script>\n`````"
    assert str(SourceCode("x")) == "x"


def test_of_the_example_every_part_can_be_shown() -> None:
    assert source_of(OWN, "titles").code.startswith('@register("titles", ')
    assert source_of(OWN, "title_words").code.startswith('@register_retriever("title_words"')
