from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

from medvrag_core.errors import InputError
from medvrag_core.views.page_maps import MAX_KB, PageMap, page_maps

if TYPE_CHECKING:
    from playwright.sync_api import Browser

BOXES = np.array([[0, 0, 0.5, 0.25], [0.5, 0.25, 1, 0.5], [0.25, 0.5, 0.75, 2.0]], dtype=np.float32)
HOSTILE = '"><script>boom()</script>\u202e'


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "page.jpg"
    Image.effect_noise((600, 900), 120).save(path)
    return path


def made(name: str, values: list[float], **more: object) -> PageMap:
    given = {"cells": ("1.0",), "note": f"note of {name}", "scale": (0.0, 1.0)} | more
    return PageMap(name=name, values=np.array(values), **given)  # type: ignore[arg-type]


def shown(image: Path, *maps: PageMap, **more: object) -> str:
    given = {"columns": ("word", "best"), "title": "a query", "legend": "Shade by"} | more
    return page_maps(image, BOXES, maps, **given).html  # type: ignore[arg-type]


def shadings(html: str) -> list[list[tuple[float, str]]]:
    """Opacity and outline of every path, by map."""
    groups = re.findall(r'<g class="map">(.*?)</g>', html)
    return [
        [(float(o), d) for o, d in re.findall(r'class="cell" fill-opacity="([\d.]+)" d="([^"]+)"', group)]
        for group in groups
    ]


def test_shades_deepen_with_the_value_and_lie_where_the_page_has_the_patch(image: Path) -> None:
    (one, two) = shadings(shown(image, made("a", [0.0, 0.5, 1.0]), made("b", [-3.0, 0.2, 7.0])))
    assert [d for _, d in one] == ["M500 375H1000V750H500Z", "M250 750H750V1500H250Z"]
    assert [o for o, _ in one] == pytest.approx([0.6 * 0.5**1.5, 0.6], abs=0.006)
    assert [o for o, _ in two][-1] == 0.6 and len(two) == 2


def test_patches_of_one_depth_are_one_path_and_a_flat_map_shades_nothing(image: Path) -> None:
    ((level,), flat) = shadings(shown(image, made("a", [1.0, 0.0, 1.0]), made("b", [0.3] * 3, scale=(0.3, 0.3))))
    assert level[1] == "M0 0H500V375H0ZM250 750H750V1500H250Z"
    assert flat == []


def test_the_best_patches_have_an_outline(image: Path) -> None:
    html = shown(image, made("a", [0, 0, 0], best=(1,)), made("b", [0, 0, 0]))
    assert re.findall(r'class="best" d="([^"]+)"', html) == ["M500 375H1000V750H500Z"]


def test_every_map_has_its_row_its_note_and_one_is_chosen(image: Path) -> None:
    html = shown(image, made("a", [0, 0, 1]), made("b", [0, 0, 1]))
    assert html.count('type="radio"') == html.count('<g class="map">') == html.count('<p class="note">') == 2
    assert html.count(" checked>") == 1
    assert "note of b" in html and "tr:nth-child(2)" in html and "tr:nth-child(3)" not in html
    assert not re.search(r'\s(id|for)="', html), "several on one page would collide"
    assert html == shown(image, made("a", [0, 0, 1]), made("b", [0, 0, 1]))


def test_no_text_becomes_markup_and_nothing_is_loaded(image: Path) -> None:
    hostile = made(HOSTILE, [0, 0, 1], cells=(HOSTILE,), note=HOSTILE)
    html = shown(image, hostile, columns=(HOSTILE, HOSTILE), title=HOSTILE, legend=HOSTILE, labels=[HOSTILE] * 3)
    assert not re.search(r"<script|<link|<iframe|https?:|url\(|@import|\son\w+=|\u202e", html)
    assert html.count("&lt;script&gt;") == 11
    uri = re.search(r'href="([^"]+)"', html)
    assert uri is not None and uri[1].startswith("data:image/jpeg;base64,") and len(uri[1]) <= MAX_KB * 1000


def test_what_does_not_fit_is_refused(image: Path) -> None:
    with pytest.raises(InputError, match="3 boxes, 2 values"):
        shown(image, made("a", [0, 1]))
    with pytest.raises(InputError, match="3 boxes, 3 values, 1 labels"):
        shown(image, made("a", [0, 1, 2]), labels=["x"])
    with pytest.raises(InputError, match="'a' is not a finite number"):
        shown(image, made("a", [0, 1, float("nan")]))
    with pytest.raises(InputError, match="no such page image"):
        shown(image.with_name("none.jpg"), made("a", [0, 1, 2]))


@pytest.mark.browser
def test_in_a_browser_maps_are_chosen_by_mouse_and_keyboard(chromium: Browser, image: Path, tmp_path: Path) -> None:
    both = [shown(image, *(made(name, [0, 0.5, 1]) for name in "abc")) for _ in range(2)]
    (tmp_path / "t.html").write_text(f"<!doctype html><meta charset=utf-8>{''.join(both)}", encoding="utf-8")
    page = chromium.new_page(viewport={"width": 380, "height": 800})
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto((tmp_path / "t.html").as_uri())
    visible = "[...document.querySelectorAll('.map, .note')].map(e => getComputedStyle(e).display != 'none')"
    assert page.evaluate(visible) == [True, False, False] * 4
    page.locator("label").nth(4).click()
    assert page.evaluate(visible) == [True, False, False] * 2 + [False, True, False] * 2
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.evaluate(visible)[6:] == [False, False, True] * 2
    assert page.evaluate("document.documentElement.scrollWidth") <= 380, "scrolls sideways on a narrow screen"
    assert [url for url in asked if not url.startswith("file:")] == []
    page.close()
