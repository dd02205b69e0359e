"""What the two hosts share, and what each is given."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from made_cases import HOSTILE, MadeCases

from medvrag_core.errors import NotBuiltError
from medvrag_core.views.inspector.assets import asset, classic_script, mount_html, publish_inspector
from medvrag_core.views.inspector.export import export_cases
from medvrag_core.views.inspector.records import Case
from medvrag_core.views.inspector.widget import CaseInspector

BOOK = Path(__file__).resolve().parents[3] / "book"


class Heard(CaseInspector):
    """Keeps what would go over the comm."""

    def send(self, content: Any, buffers: Any = None) -> None:
        self.__dict__.setdefault("heard", []).append((content, buffers))


def asked(widget: Heard, *messages: Any) -> list[tuple[Any, Any]]:
    for message in messages:
        widget._handle_custom_msg(message, [])
    return list(widget.__dict__["heard"])


def test_the_widget_answers_with_the_records_of_the_source() -> None:
    source = MadeCases(3)
    (case, picture) = asked(Heard(source), {"id": 1, "address": "cases/0-2"}, {"id": 2, "address": "thumbs/3.jpg"})
    assert case[0]["id"] == 1
    assert Case.from_json(case[0]["record"]) == source.case(0, 2)
    assert picture == ({"id": 2}, [source.thumbnail(3)])


@pytest.mark.parametrize(
    "message", [{"id": 7, "address": "cases/x"}, {"id": 7, "address": 5}, {"id": 7}, {"id": 7, "address": None}]
)
def test_a_request_that_makes_no_sense_is_answered_with_a_sentence(message: Any) -> None:
    ((answer, buffers),) = asked(Heard(MadeCases(1)), message)
    assert answer["id"] == 7
    assert answer["problem"]
    assert buffers is None


def test_a_message_that_is_no_mapping_does_no_harm() -> None:
    ((answer, _),) = asked(Heard(MadeCases(1)), "cases/0-0")
    assert answer["id"] is None


def test_a_notebook_keeps_no_case_of_the_widget() -> None:
    widget = CaseInspector(MadeCases(2, hostile=True), place='arm=medvrag&case="x"')
    data, _ = widget._repr_mimebundle_()
    assert data["text/html"] == mount_html("../", place='arm=medvrag&case="x"')
    assert 'data-place="arm=medvrag&amp;case=&quot;x&quot;"' in data["text/html"]
    state = str(widget.get_state())
    assert HOSTILE not in state
    assert "data:image" not in state


def test_the_module_makes_no_markup_and_knows_no_address() -> None:
    text = asset("inspector.js")
    for name in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "srcdoc"):
        assert name not in text
    assert set(re.findall(r"\w+://[^\s\"'`]+", text)) <= {"http://www.w3.org/2000/svg", "file://."}
    assert not re.search(r"\burl\(|@import", asset("inspector.css"))


def test_the_script_of_the_book_is_the_module_without_its_export(tmp_path: Path) -> None:
    script = classic_script()
    assert not re.search(r"^\s*(import|export)\b", script, flags=re.MULTILINE)
    assert script.replace("const hosts = ", "export default ").count(asset("inspector.js")) == 1
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node on PATH")
    path = tmp_path / "inspector.js"
    path.write_text(script, encoding="utf-8")
    subprocess.run([node, "--check", str(path)], check=True)


def test_the_book_has_script_style_and_the_cases_of_the_run(tmp_path: Path) -> None:
    export_cases(MadeCases(1), tmp_path / "run" / "inspector")
    publish_inspector(tmp_path / "run", tmp_path / "site")
    publish_inspector(tmp_path / "no_run", tmp_path / "bare")
    (tmp_path / "run" / "inspector" / "report.json").unlink()
    with pytest.raises(NotBuiltError, match=r"report\.json is missing; medvrag book run"):
        publish_inspector(tmp_path / "run", tmp_path / "other")
    assert {"catalog.js", "cases", "inspector.js", "inspector.css"} <= {p.name for p in (tmp_path / "site").iterdir()}
    assert {p.name for p in (tmp_path / "bare").iterdir()} == {"inspector.js", "inspector.css"}


@pytest.mark.parametrize("page", ["index.md", "inspector.md"])
def test_pages_of_the_book_mount_it_where_it_is_published(page: str) -> None:
    text = (BOOK / page).read_text(encoding="utf-8")
    wanted = re.findall(r'(?:href|src|data-base)="([^"]+)"', mount_html())
    assert len(wanted) == 3
    assert all(f'"{address}"' in text for address in wanted)
