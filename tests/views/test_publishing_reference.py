"""The API reference, the page of settings, and what pages weigh."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from medvrag_core import records
from medvrag_core.errors import InputError
from medvrag_core.settings import Profile
from medvrag_core.views.publishing.docstrings import fields_as_rst, sections_as_rst
from medvrag_core.views.publishing.reference import ROOMS, reference_pages, seams, used_in_chapters
from medvrag_core.views.publishing.settings_page import settings_page
from medvrag_core.views.publishing.sizes import HEAVY, book_sizes, sizes_text
from medvrag_core.views.publishing.staging import pages_of

REPO = Path(__file__).resolve().parents[2]
NOTEBOOKS = REPO / "notebooks"


def test_whatever_a_chapter_imports_has_its_place() -> None:
    text = "\n".join(reference_pages(NOTEBOOKS).values())
    documented = set(re.findall(r"^\.\. auto\w+:: (\S+)$", text, re.M))
    imported = set()
    for path in NOTEBOOKS.glob("*.ipynb"):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            if cell["cell_type"] == "code":
                for node in ast.walk(ast.parse("".join(cell["source"]))):
                    if isinstance(node, ast.ImportFrom) and str(node.module).startswith("medvrag_core"):
                        imported |= {f"{node.module}.{alias.name}" for alias in node.names}
    assert len(imported) > 150
    # A module that is imported as a whole stands there by the names that are taken from it.
    assert {name for name in imported if name not in documented and not _is_module(name)} == set()
    assert "medvrag_core.views.scale_view.limits_table" in documented


def _is_module(name: str) -> bool:
    path = REPO.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def test_every_seam_is_there_and_every_room_is_in_the_table_of_contents() -> None:
    found = seams()
    assert "PageIndex" in found["medvrag_core.index.base"]
    assert "Crew" in found["medvrag_core.runs.crew"]
    assert all(not name.startswith("_") for names in found.values() for name in names)
    assert [page for page in pages_of(REPO / "book") if "/api_" in page] == [f"_generated/api_{room}" for room in ROOMS]


def test_a_chapter_that_is_no_python_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.ipynb").write_text(json.dumps({"cells": [{"cell_type": "code", "source": ["for"]}]}))
    with pytest.raises(InputError, match=r"x\.ipynb: is no notebook of Python"):
        used_in_chapters(tmp_path)


def test_sections_become_fields_and_prose_stays() -> None:
    made = sections_as_rst(
        ["Does it.", "", "Parameters", "----------", "rows, offsets : float32, shape (N, d)", "k : most", "    of them",
         "", "Raises InputError when k is 0.", "", "Notes", "-----", "As in 3.2:", "x : y"]
    )  # fmt: skip
    assert made == [
        "Does it.", "", ":Parameters:", "    ``rows, offsets``", "        float32, shape (N, d)", "    ``k``",
        "        most", "        of them", "", "", "Raises InputError when k is 0.", "", ".. rubric:: Notes", "",
        "As in 3.2:", "x : y",
    ]  # fmt: skip


@given(
    st.lists(st.sampled_from(["", "Raises", "------", "x : y", "    more", "Prose.", "Notes", "-----"]), max_size=12)
)
def test_no_line_of_a_docstring_is_lost(lines: list[str]) -> None:
    words = re.findall(r"x|y|more|Prose|Raises|Notes", " ".join(lines))
    assert re.findall(r"x|y|more|Prose|Raises|Notes", " ".join(sections_as_rst(lines))) == words


def test_fields_of_a_record_are_told_with_what_they_say_of_themselves() -> None:
    class Told(BaseModel):
        plain: int
        spoken: tuple[str, ...] = ()

    assert fields_as_rst(Told) == [
        ":Fields:",
        "    - ``plain``: int",
        "    - ``spoken``: tuple of str, by default ``[]``",
    ]
    assert any("hits" in line for line in fields_as_rst(records.SearchResult))


def test_every_setting_has_a_row() -> None:
    page = settings_page()

    def check(stage: type[BaseModel], prefix: str) -> int:
        rows = 0
        for name, field in stage.model_fields.items():
            nested = isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
            assert (f"`{prefix}{name}`" if nested else f"| `{name}` |") in page
            rows += check(field.annotation, f"{prefix}{name}.") if nested else 1  # type: ignore[arg-type]
        return rows

    assert check(Profile, "") > 150
    assert "| `rescore` | `int` | `256` |" in page
    for line in page.splitlines():
        if line.startswith("| `"):
            assert len(re.findall(r"(?<!\\)\|", line)) == 5, line


def test_a_page_weighs_its_html_and_pictures_and_shares_the_rest(tmp_path: Path) -> None:
    (tmp_path / "a.js").write_bytes(b"x" * 1_000)
    (tmp_path / "big.webp").write_bytes(b"x" * (HEAVY + 1))
    (tmp_path / "chapters").mkdir()
    html = '<script defer src="../a.js?v=1"></script><img alt="" src="../big.webp"><img src="../big.webp">'
    html += '<img src="data:image/png;base64,AAAA"><img src="../../outside.png"><link rel="icon" href="../big.webp">'
    (tmp_path / "chapters" / "one.html").write_text(html)
    (tmp_path / "two.html").write_text("<p>ü</p>")
    (tmp_path.parent / "outside.png").write_bytes(b"x" * 10)
    found = book_sizes(tmp_path)
    one, two = found.pages
    assert (one.page, one.html, one.pictures, one.shared) == ("chapters/one.html", len(html), HEAVY + 1, 1_000)
    assert (two.page, two.own, two.shared) == ("two.html", 9, 0)
    assert found.files == 4 and found.site == sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    assert found.heavy == (one,)
    assert sizes_text(found).count("chapters/one.html") == 2
    assert "above" not in sizes_text(found.model_copy(update={"pages": (two,)}))
