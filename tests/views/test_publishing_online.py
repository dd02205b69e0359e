"""A book with an address: canonical links, sitemap, card; and the workflow that publishes it."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from PIL import Image
from typer.testing import CliRunner

from medvrag_core.cli.app import app
from medvrag_core.cli.book import ADDRESS
from medvrag_core.corpus.showing import PagePicture
from medvrag_core.errors import InputError
from medvrag_core.views.publishing.book import BuiltBook
from medvrag_core.views.publishing.offline import external_requests
from medvrag_core.views.publishing.online import (
    CARD,
    CARD_SIZE,
    card_picture,
    publish_online,
    site_address,
    social_card,
)
from medvrag_core.views.publishing.sizes import BookSizes

REPO = Path(__file__).resolve().parents[2]
HOSTILE = "&quot;&gt;&lt;img src=//evil.example/x.png&gt;"
WHOLE = "<html><head><title>{0}</title></head><body><p>text &lt;/head&gt;</p></body></html>"


class _Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {name: value or "" for name, value in attrs}))

    def values(self, key: str) -> list[str]:
        return [a["content"] for tag, a in self.found if tag == "meta" and key in (a.get("property"), a.get("name"))]

    def canonical(self) -> list[str]:
        return [attrs["href"] for tag, attrs in self.found if tag == "link" and attrs.get("rel") == "canonical"]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    site = tmp_path / "site"
    for name in ("index.html", "chapters/03_filter.html", "search.html", "genindex.html", "_static/x/frame.html"):
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(WHOLE.format(f"{HOSTILE} — MedVRAG, the book" if "filter" in name else name))
    return site


def picture(folder: Path, restricted: str = "") -> PagePicture:
    path = folder / "page.png"
    Image.new("RGB", (300, 400), "#ff0000").save(path)
    return PagePicture("paper#p2", path, "A. Author, CC BY 4.0", restricted)


def test_each_page_names_its_one_address_and_the_sitemap_lists_them(site: Path) -> None:
    publish_online(site, "https://example.org/book")
    told = {name: _Tags((site / name).read_text()) for name in ("index.html", "chapters/03_filter.html")}
    addresses = {"index.html": "https://example.org/book/"}
    addresses["chapters/03_filter.html"] = "https://example.org/book/chapters/03_filter.html"
    for name, tags in told.items():
        assert tags.canonical() == tags.values("og:url") == [addresses[name]]
        assert tags.values("og:image") == [f"https://example.org/book/{CARD}"]
    listed = [found.text for found in ElementTree.parse(site / "sitemap.xml").iter() if found.tag.endswith("}loc")]
    assert sorted(str(text) for text in listed) == sorted(addresses.values())
    for name in ("search.html", "genindex.html", "_static/x/frame.html"):
        assert "canonical" not in (site / name).read_text()


def test_a_title_stays_text_and_nothing_is_fetched(site: Path) -> None:
    publish_online(site, "https://example.org/")
    tags = _Tags((site / "chapters" / "03_filter.html").read_text())
    assert tags.values("og:title") == ['"><img src=//evil.example/x.png>']
    assert "img" not in [tag for tag, _ in tags.found]
    assert external_requests(site) == []


@pytest.mark.parametrize("address", ["example.org", "ftp://example.org/", "https:///book", "https://example.org/?q=1"])
def test_what_is_no_address_is_refused_before_anything_is_written(site: Path, address: str) -> None:
    with pytest.raises(InputError, match="no address of a site"):
        publish_online(site, address)
    assert not (site / "sitemap.xml").exists()
    assert "canonical" not in (site / "index.html").read_text()


def test_the_card_shows_a_page_only_where_its_license_allows_that(site: Path, tmp_path: Path) -> None:
    def reds() -> int:
        with Image.open(site / CARD) as card:
            assert card.size == CARD_SIZE
            return sum(count for count, color in card.getcolors(1 << 20) or [] if color == (255, 0, 0))

    publish_online(site, "https://example.org/", picture(tmp_path))
    assert reds() == pytest.approx(300 * 400, rel=0.02)
    publish_online(site, "https://example.org/", picture(tmp_path, restricted="license not known"))
    assert reds() == 0
    without = social_card(None)
    assert len(without.getcolors(1 << 20) or []) > 3, "title and description are drawn"


def test_a_run_without_a_corpus_has_no_page_for_the_card(tmp_path: Path) -> None:
    assert card_picture(tmp_path / "demo") is None


def test_the_command_takes_the_address_from_option_or_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[str] = []

    def build(*_: Path, address: str) -> BuiltBook:
        given.append(address)
        return BuiltBook(Path("index.html"), BookSizes(pages=(), site=0, files=0))

    monkeypatch.setattr("medvrag_core.views.publishing.book.build_book", build)
    monkeypatch.delenv(ADDRESS, raising=False)
    for arguments in ([], ["--address", "https://a.example/"]):
        assert CliRunner().invoke(app, ["book", "build", *arguments]).exit_code == 0
    monkeypatch.setenv(ADDRESS, "https://b.example")
    assert CliRunner().invoke(app, ["book", "build"]).exit_code == 0
    assert given == ["", "https://a.example/", "https://b.example"]
    assert site_address(given[-1]) == "https://b.example/"


def test_the_workflow_builds_with_the_one_command_and_may_do_no_more_than_publish() -> None:
    flow: dict[Any, Any] = yaml.safe_load((REPO / ".github" / "workflows" / "pages.yml").read_text())
    build, deploy = flow["jobs"]["build"], flow["jobs"]["deploy"]
    assert flow["permissions"] == {}
    assert build["permissions"] == {"contents": "read", "pages": "read"}
    assert deploy["permissions"] == {"pages": "write", "id-token": "write"}
    steps = [*build["steps"], *deploy["steps"]]
    for used in [step["uses"] for step in steps if "uses" in step]:
        assert re.fullmatch(r"actions/[a-z-]+@v\d+", used), f"{used}: no official action of one major version"
    runs = [step for step in steps if "run" in step]
    assert [step["run"] for step in runs] == ["python3 run.py book"]
    assert list(runs[0]["env"]) == [ADDRESS]
    uploaded = next(step for step in steps if "upload-pages" in step.get("uses", ""))
    assert uploaded["with"]["path"] == "book/_build/html"
    assert flow[True]["push"]["branches"] == ["main"], "YAML 1.1 reads the key `on` as true"
