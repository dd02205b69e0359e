"""The built book as a reader meets it: opened as files and over http, no network, figures and rounds answer clicks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, ConsoleMessage, FloatRect, Page, Route

pytestmark = pytest.mark.browser

REPO = Path(__file__).resolve().parents[2]
# Jupyter Book 1 loads sphinx-thebe twice; the second declaration is refused and does no harm.
HARMLESS = ("THEBE_JS_URL",)


# A page is looked at when its figures are drawn.
ALL_DRAWN = "document.querySelectorAll('figure.medvrag-figure:not([data-drawn])').length === 0"
FAULTS = """() => {
  const figures = [...document.querySelectorAll('figure.medvrag-figure')], faults = [];
  for (const [k, figure] of figures.entries()) {
    const drawn = figure.querySelector('svg.main-svg');
    if (!drawn || drawn.getBoundingClientRect().height <= 100) faults.push(`figure ${k} is empty or flat`);
    if (!figure.getAttribute('aria-label')) faults.push(`figure ${k} says nothing of itself`);
  }
  for (const image of document.images)
    if (!image.hasAttribute('alt')) faults.push(`no alt: ${image.outerHTML.slice(0, 120)}`);
  return {figures: figures.length, faults};
}"""
TALLEST = 12_000
"""Pixels of a page that its picture shows."""


@dataclass
class Visit:
    """One tab with what it asked for and complained about."""

    page: Page
    site: Path
    home: str = ""
    requests: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def open(self, name: str) -> Page:
        """Open a page of the book, over ``file://`` unless it is at home elsewhere."""
        self.page.goto(f"{self.home or self.site.as_uri()}/{name}")
        return self.page

    def guard(self, route: Route) -> None:
        """Let the book through, refuse and remember everything else."""
        own = (f"{self.home}/",) if self.home.startswith("http:") else ("file:",)
        if route.request.url.startswith((*own, "data:", "blob:")):
            route.continue_()
        else:
            self.requests.append(route.request.url)
            route.abort()

    def complain(self, text: str) -> None:
        """Remember a console error unless it is known to be harmless."""
        if not any(known in text for known in HARMLESS):
            self.errors.append(f"{self.page.url}: {text}")


@pytest.fixture(scope="session")
def site() -> Path:
    """The built book; ``MEDVRAG_BOOK_HTML`` points at another build."""
    folder = Path(os.environ.get("MEDVRAG_BOOK_HTML", REPO / "book" / "_build" / "html"))
    if not (folder / "index.html").is_file():
        pytest.skip(f"no built book at {folder}; run `python3 run.py book` first")
    return folder


@pytest.fixture
def visit(chromium: Browser, site: Path) -> Iterator[Visit]:
    context = chromium.new_context(viewport={"width": 1400, "height": 1000})
    visit = Visit(context.new_page(), site)

    def on_console(message: ConsoleMessage) -> None:
        if message.type == "error":
            visit.complain(message.text)

    context.route("**/*", visit.guard)
    visit.page.on("console", on_console)
    visit.page.on("pageerror", lambda error: visit.complain(str(error)))
    visit.page.set_default_timeout(20_000)
    yield visit
    context.close()


@pytest.fixture(scope="session")
def shots(site: Path) -> Path:
    """Where pictures of all pages go, for people to look at: beside the built book."""
    return site.parent / "screenshots"


def picture(page: Page, folder: Path, name: str) -> None:
    """The page as it is seen, from its top; made anew by each run of the tests."""
    path = folder / name.replace("/", "-").replace(".html", ".jpg")
    size = page.viewport_size
    assert size is not None
    height = min(TALLEST, page.evaluate("document.documentElement.scrollHeight"))
    clip: FloatRect = {"x": 0, "y": 0, "width": size["width"], "height": height}
    page.screenshot(path=str(path), type="jpeg", quality=60, full_page=True, clip=clip)


def pages_of(site: Path) -> list[str]:
    """Every page with content, chapters included."""
    names = [path.relative_to(site).as_posix() for path in site.rglob("*.html")]
    return sorted(name for name in names if not name.startswith("_static/"))


@pytest.mark.parametrize("scheme", ["file", "http"])
def test_every_page_is_whole_and_asks_for_nothing(
    visit: Visit, scheme: str, shots: Path, loopback: Callable[[Path], str]
) -> None:
    """No error, no request to elsewhere, every figure drawn and named, every image with its text; a picture of each."""
    names = pages_of(visit.site)
    assert "chapters/04_reasoning_loop.html" in names
    faults: dict[str, list[str]] = {}
    figures = 0
    visit.home = loopback(visit.site) if scheme == "http" else ""
    for name in names:
        page = visit.open(name)
        page.wait_for_function(ALL_DRAWN, timeout=30_000)
        seen = page.evaluate(FAULTS)
        figures += seen["figures"]
        if seen["faults"]:
            faults[name] = seen["faults"]
        if scheme == "file":
            picture(page, shots / "light", name)
    assert faults == {}
    assert figures > 0
    assert visit.requests == []
    assert visit.errors == []


def test_a_figure_answers_the_mouse_and_follows_the_theme(visit: Visit, tmp_path: Path) -> None:
    page = visit.open("chapters/05_ablations.html")
    figure = page.locator("figure.medvrag-figure[data-drawn]").first
    figure.scroll_into_view_if_needed()
    point = figure.locator(".point path, path.point").first
    box = point.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2 - 8, box["y"] + box["height"] / 2)
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, steps=4)
    figure.locator(".hoverlayer .hovertext").first.wait_for()
    page.screenshot(path=str(tmp_path / "figure.png"))

    background = "el => getComputedStyle(el.querySelector('.main-svg')).background"
    light = figure.evaluate(background)
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    page.wait_for_function(
        "before => getComputedStyle(document.querySelector('.main-svg')).background !== before", arg=light
    )
    assert visit.errors == []


def test_rounds_of_a_trace_can_be_stepped_through(visit: Visit, tmp_path: Path) -> None:
    page = visit.open("chapters/04_reasoning_loop.html")
    trace = page.locator(".mv-trace").filter(has=page.locator(".tabs label:nth-of-type(2)")).first
    sections = trace.locator("form > section")
    assert sections.nth(0).is_visible()
    assert not sections.nth(1).is_visible()
    trace.locator(".tabs label").nth(1).click()
    sections.nth(1).wait_for(state="visible")
    assert not sections.nth(0).is_visible()
    trace.screenshot(path=str(tmp_path / "trace.png"))
    assert visit.requests == []


def test_words_of_a_query_can_be_stepped_through(visit: Visit, tmp_path: Path) -> None:
    page = visit.open("chapters/02_indexing.html")
    maps = page.locator(".mv-maps").first
    shown = "e => [...e.querySelectorAll('.note')].map(n => getComputedStyle(n).display != 'none').indexOf(true)"
    assert maps.evaluate(shown) == 0
    maps.locator("label").nth(2).click()
    assert maps.evaluate(shown) == 2
    page.keyboard.press("ArrowDown")
    assert maps.evaluate(shown) == 3
    assert maps.locator("g.map").nth(3).locator("path.best").is_visible()
    maps.screenshot(path=str(tmp_path / "words.png"))
    assert visit.requests == []


def test_math_is_set_and_search_finds_words_without_a_server(visit: Visit) -> None:
    page = visit.open("chapters/02_indexing.html")
    page.locator("mjx-container").first.wait_for()
    page = visit.open("search.html?q=centroid")
    page.locator("ul.search li").first.wait_for()
    assert visit.requests == []
    assert visit.errors == []


@pytest.mark.slow
@pytest.mark.parametrize("look", ["light", "dark"])
def test_axe_finds_nothing_serious_on_any_page(
    chromium: Browser, site: Path, axe: str, look: Literal["light", "dark"], shots: Path
) -> None:
    """The inspector is left out: it has a test of its own, with cases in it."""
    context = chromium.new_context(viewport={"width": 1400, "height": 1000}, color_scheme=look)
    page = context.new_page()
    found: list[str] = []
    told = "v => `${v.impact} ${v.id}: ${v.nodes.map(n => n.html.slice(0, 120)).slice(0, 3).join(' | ')}`"
    serious = "v => ['serious', 'critical'].includes(v.impact)"
    run = f"""async () => (await axe.run({{exclude: [['.mv-inspector']]}}, {{preload: false}}))
        .violations.filter({serious}).map({told})"""
    for name in pages_of(site):
        page.goto((site / name).as_uri())
        page.evaluate(axe)
        found += [f"{name}: {fault}" for fault in page.evaluate(run)]
        if look == "dark":
            picture(page, shots / look, name)
    context.close()
    assert found == []


def test_no_page_scrolls_sideways_on_a_phone(chromium: Browser, site: Path, shots: Path) -> None:
    context = chromium.new_context(viewport={"width": 390, "height": 844}, is_mobile=True)
    page = context.new_page()
    wide = {}
    for name in pages_of(site):
        page.goto((site / name).as_uri())
        width = page.evaluate("document.documentElement.scrollWidth")
        if width > 390:
            wide[name] = width
        picture(page, shots / "phone", name)
    context.close()
    assert wide == {}


def test_pages_are_light(site: Path) -> None:
    """Figures are drawn by one script that all pages share, and images are files of their own where they are many."""
    heavy = {name: size for name in pages_of(site) if (size := (site / name).stat().st_size) > 4_000_000}
    assert heavy == {}
