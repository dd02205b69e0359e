"""The book as a PDF, printed by the real browser."""

from __future__ import annotations

import shutil
from pathlib import Path

import pymupdf
import pytest

from medvrag_core.errors import MedvragError, NotBuiltError
from medvrag_core.views.publishing.chromium import BROWSERS
from medvrag_core.views.publishing.pdf import print_book
from medvrag_core.views.publishing.staging import chapters_of, pages_of

REPO = Path(__file__).resolve().parents[2]
with_browser = pytest.mark.skipif(not any(map(shutil.which, BROWSERS)), reason="no Chromium on PATH")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    site = tmp_path / "a site"
    (site / "chapters").mkdir(parents=True)
    (site / "index.html").write_text(
        '<h1>First &amp; <em>foremost</em><a class="headerlink" href="#x">#</a></h1><a href="chapters/two.html">on</a>'
        '<a href="left_out.html">out</a><a href="https://example.org/">far</a><p id="late"></p>'
        "<script>setTimeout(() => { document.getElementById('late').textContent = 'drawn late'; }, 3000)</script>"
    )
    (site / "chapters" / "two.html").write_text("<h1>Second</h1><p>the end</p>")
    return site


@pytest.mark.browser
@with_browser
def test_pages_become_sheets_with_bookmarks_and_links_between_them(site: Path, tmp_path: Path) -> None:
    out = tmp_path / "book.pdf"
    assert print_book(site, ["index", "chapters/two"], out) == 2
    with pymupdf.open(out) as book:
        assert "drawn late" in book[0].get_text(), "scripts have run before a page is printed"
        assert "the end" in book[1].get_text()
        assert book.get_toc() == [[1, "First & foremost", 1], [1, "Second", 2]]
        links = book[0].get_links()
    assert [link["page"] for link in links if link["kind"] == pymupdf.LINK_GOTO] == [1]
    assert [link["uri"] for link in links if link["kind"] == pymupdf.LINK_URI] == ["https://example.org/"]
    assert str(tmp_path).encode() not in out.read_bytes()


def test_a_page_that_was_not_built_is_named(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: f"/nowhere/{name}")
    with pytest.raises(NotBuiltError, match=r"holds no page chapters/three\.html"):
        print_book(site, ["index", "chapters/three"], tmp_path / "book.pdf")
    assert not (tmp_path / "book.pdf").exists()


def test_without_a_browser_the_way_out_is_told(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(MedvragError, match="no Chromium on PATH"):
        print_book(site, ["index"], tmp_path / "book.pdf")


def test_the_order_is_that_of_the_table_of_contents() -> None:
    pages = pages_of(REPO / "book")
    assert pages[0] == "index"
    assert [page.removeprefix("chapters/") for page in pages if page.startswith("chapters/")] == chapters_of(
        REPO / "book"
    )
