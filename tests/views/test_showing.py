"""Which pages a published book shows, and what is printed under those: over every view that shows one."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from medvrag_core.corpus.showing import AUDIENCE, PUBLIC, PagePicture, picture_of
from medvrag_core.corpus.store import CorpusStore
from medvrag_core.encoders.page_budget import PageBudget
from medvrag_core.errors import InputError
from medvrag_core.records import (
    Article,
    FilterDecision,
    MemoryBank,
    Page,
    PageLayout,
    PageVectors,
    ParsedReply,
    Question,
    ReaderReply,
    Region,
    Round,
    Trace,
)
from medvrag_core.runs.workspace import Workspace
from medvrag_core.views.encoder_view import grid_view, patches_view
from medvrag_core.views.label_widget import task_html
from medvrag_core.views.layout_view import page_layout_view
from medvrag_core.views.page_maps import PageMap, page_maps
from medvrag_core.views.pages import page_heatmap, page_thumbnail
from medvrag_core.views.trace_view import TraceView

Shown = Path | PagePicture
BOXES = np.array([[0.1, 0.1, 0.9, 0.5]], dtype=np.float32)
SECRET = "Words of the page"
LAYOUT = PageLayout(page_id="a#p2", words=(), regions=(Region(kind="text", box=(0, 0, 1, 1), text=SECRET),))
PAGE = Page(
    page_id="a#p2", article_id="a", number=2, width_pt=1, height_pt=1, image="i", image_width=85, image_height=110,
    dpi=72, text_source="pdf", text=SECRET,
)  # fmt: skip
QUESTION = Question(id="q", question="Which?", options={"A": "x", "B": "y"})


@pytest.fixture
def picture(tmp_path: Path) -> Callable[[str], PagePicture]:
    Image.new("RGB", (85, 110), "green").save(tmp_path / "p.jpg")

    def made(licence: str) -> PagePicture:
        article = Article(article_id="a", file="a.pdf", sha256="", pages=2, title="<Gout>", licence=licence)
        return picture_of(article, "a#p2", tmp_path / "p.jpg")

    return made


@pytest.fixture
def trace() -> Trace:
    one_round = Round(
        number=1, query="q", stage1=(), filter=FilterDecision(kept=(), calls=()), shown=("a#p2",),
        bank_before=MemoryBank(), reply=ReaderReply(text="A"), parsed=ParsedReply(label="A"), times=(),
    )  # fmt: skip
    return Trace(
        system="s",
        profile="p",
        fingerprint="f",
        question=QUESTION,
        rounds=(one_round,),
        outcome="answered",
        label="A",
        seconds=1.0,
    )


def views(trace: Trace) -> dict[str, Callable[[Shown], str]]:
    vectors = PageVectors(
        page_id="a#p2", vectors=np.ones((1, 4), np.float32), boxes=BOXES, vector_of=np.zeros(1, np.int64)
    )
    shade = PageMap(name="n", cells=(), note="", values=np.ones(1), scale=(0, 1))
    budget = PageBudget(pixels=(85, 110), shown=(84, 112), patches=12, vectors=4, dim=8, bytes=32)
    return {
        "heatmap": lambda image: page_heatmap(image, BOXES, [0.5]).html,
        "layout": lambda image: page_layout_view(image, LAYOUT).html,
        "maps": lambda image: page_maps(image, BOXES, [shade], columns=("a",), title="t", legend="l").html,
        "patches": lambda image: patches_view(image, vectors).html,
        "grid": lambda image: grid_view(image, budget).html,
        "label": lambda image: task_html(QUESTION, PAGE, image, width=200),
        "trace": lambda image: TraceView(trace, images=lambda page_id: image).html,
    }


def boxes_in(html: str) -> list[str]:
    found = re.findall(r"data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)", html)
    return [base64.b64decode(text).decode() for text in found]


@pytest.mark.parametrize("name", ["heatmap", "layout", "maps", "patches", "grid", "label", "trace"])
@pytest.mark.parametrize("licence", ["CC0", "CC BY 4.0", "CC BY-SA 3.0"])
def test_a_free_page_is_shown_with_its_credit(
    picture: Callable[[str], PagePicture], trace: Trace, monkeypatch: pytest.MonkeyPatch, name: str, licence: str
) -> None:
    monkeypatch.setenv(AUDIENCE, PUBLIC)
    html = views(trace)[name](picture(licence))
    assert "data:image/jpeg" in html and not boxes_in(html)
    assert f"&lt;Gout&gt;. Licence: {licence}" in html and "<Gout>" not in html
    assert html.count('class="mv-credit"') == html.count("data:image/jpeg")


@pytest.mark.parametrize("name", ["heatmap", "layout", "maps", "patches", "grid", "label", "trace"])
@pytest.mark.parametrize("licence", ["", "CC BY-NC 4.0", "CC BY-ND 4.0", "TDM", "conflict: CC BY against CC BY-NC"])
def test_any_other_page_is_a_box_that_says_why_in_a_book_and_shown_at_home(
    picture: Callable[[str], PagePicture], trace: Trace, monkeypatch: pytest.MonkeyPatch, name: str, licence: str
) -> None:
    at_home = views(trace)[name](picture(licence))
    assert "data:image/jpeg" in at_home and not boxes_in(at_home)
    assert "Not for a published book: its licence" in at_home
    monkeypatch.setenv(AUDIENCE, PUBLIC)
    html = views(trace)[name](picture(licence))
    assert "data:image/jpeg" not in html and SECRET not in html
    assert all("a#p2" in box and "is not shown:" in box and "its licence" in box for box in boxes_in(html))
    assert boxes_in(html)
    assert "The page is not shown: its licence" in html


@pytest.mark.parametrize("name", ["heatmap", "layout", "maps", "patches", "grid", "label", "trace"])
def test_a_bare_path_is_shown_at_home_alone(
    picture: Callable[[str], PagePicture], trace: Trace, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path = picture("CC BY").path
    assert "data:image/jpeg" in views(trace)[name](path)
    monkeypatch.setenv(AUDIENCE, PUBLIC)
    assert "data:image/jpeg" not in views(trace)[name](path)


def test_the_box_has_the_shape_of_the_page_and_escapes(
    picture: Callable[[str], PagePicture], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(AUDIENCE, PUBLIC)
    evil = PagePicture("a&<b>", picture("").path, "", "<script>alert(1)</script>" * 9)
    (svg,) = boxes_in(page_thumbnail(evil))
    assert 'viewBox="0 0 300 388"' in svg
    assert "<script" not in svg and "a&amp;&lt;b&gt;" in svg


def test_the_store_gives_pictures(made_run: Workspace) -> None:
    store = CorpusStore.open(made_run.corpus)
    found = store.picture("gout#p1")
    assert (found.page_id, found.path) == ("gout#p1", store.image_path("gout#p1"))
    assert found.restricted == "its licence is not known" and found.hidden == ""
    assert found.credit.endswith("Licence: unknown.")
    with pytest.raises(InputError, match="gout#p9"):
        store.picture("gout#p9")
