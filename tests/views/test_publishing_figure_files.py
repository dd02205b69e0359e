"""Static twins of figures, drawn by the real browser."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import plotly
import plotly.graph_objects as go
import pytest
from defusedxml import ElementTree

from medvrag_core.errors import MedvragError, NotBuiltError
from medvrag_core.views.publishing.chromium import BROWSERS
from medvrag_core.views.publishing.errors import BookError
from medvrag_core.views.publishing.figure_files import WIDTH, require_picture, write_figures
from medvrag_core.views.publishing.mime import figure_html
from medvrag_core.views.theme import titled

HOSTILE = '</script><img src=x onerror="alert(1)"><b>bold</b>'
with_browser = pytest.mark.skipif(not any(map(shutil.which, BROWSERS)), reason="no Chromium on PATH")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    site = tmp_path / "a site"
    for folder in ("chapters", "_static"):
        (site / folder).mkdir(parents=True)
    (site / "index.html").write_text("<h1>Book</h1>")
    (site / "chapters" / "01_plain.html").write_text("<h1>No figure</h1>")
    script = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
    shutil.copyfile(script, site / "_static" / "plotly.min.js")
    figures = (
        titled(go.Figure(go.Scatter(x=[1, 2], y=[3, 4], name=HOSTILE)), "Recall, by retriever", height=500),
        titled(go.Figure(go.Bar(x=["a"], y=[1])), HOSTILE),
    )
    html = "".join(figure_html(json.loads(figure.to_json())) for figure in figures)
    (site / "chapters" / "02_two.html").write_text(f"<h1>Two</h1>{html}")
    return site


@pytest.mark.browser
@with_browser
def test_each_figure_becomes_a_picture_of_its_own(site: Path, tmp_path: Path) -> None:
    first, second = write_figures(site, tmp_path / "figures")
    assert first.name == "02_two-01-recall-by-retriever.svg"
    assert re.fullmatch(r"02_two-02-[a-z0-9-]+\.svg", second.name)
    root = ElementTree.fromstring(first.read_text(encoding="utf-8"))
    assert (float(root.attrib["width"]), float(root.attrib["height"])) == (WIDTH, 500)
    text = "".join(root.itertext())
    assert "Recall, by retriever" in text
    for path in (first, second):
        svg = path.read_text(encoding="utf-8")
        assert "<script" not in svg and "<img" not in svg
        assert str(tmp_path) not in svg
    again = {path: path.read_bytes() for path in write_figures(site, tmp_path / "more")}
    shape = {path.name: re.sub(rb"[0-9a-f]{6,}", b"", made) for path, made in again.items()}
    assert shape == {p.name: re.sub(rb"[0-9a-f]{6,}", b"", p.read_bytes()) for p in (first, second)}, "but for made ids"


@pytest.mark.browser
@with_browser
def test_a_figure_that_cannot_be_drawn_is_counted(site: Path, tmp_path: Path) -> None:
    (site / "_static" / "plotly.min.js").write_text("// nothing")
    with pytest.raises(BookError, match=r"02_two\.html: 0 of 2 figures were drawn"):
        write_figures(site, tmp_path / "figures")


@pytest.mark.parametrize(
    "inside",
    [
        "<script>alert(1)</script>",
        '<path onload="alert(1)"/>',
        "<foreignObject/>",
        '<image href="https://evil.example/x.png"/>',
        '<a xlink:href="javascript:alert(1)" xmlns:xlink="http://www.w3.org/1999/xlink"/>',
        "<path>",
    ],
)
def test_what_is_more_than_a_picture_is_refused(inside: str) -> None:
    with pytest.raises(BookError, match=r"^x\.svg: "):
        require_picture(f'<svg xmlns="http://www.w3.org/2000/svg">{inside}</svg>', "x.svg")


def test_without_a_book_or_a_browser_the_way_out_is_told(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NotBuiltError, match="holds no book"):
        write_figures(tmp_path / "nowhere", tmp_path / "out")
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(MedvragError, match="no Chromium on PATH"):
        write_figures(site, tmp_path / "out")
