"""The inspector without a kernel: made-up cases as files, opened from the disk and over http, in Chromium."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from made_cases import HOSTILE, QUERIES, MadeCases
from playwright.sync_api import Browser, Locator, Page, Route, expect

from medvrag_core.records import Trace
from medvrag_core.views.inspector.assets import mount_html, publish_inspector
from medvrag_core.views.inspector.export import export_cases

pytestmark = pytest.mark.browser

# Scripts and styles from files alone: nothing inline, nothing evaluated, no data: image.
POLICY = "default-src 'none'; script-src {0}; style-src {0}; img-src {0}"
MANY = 2_000


def page_html(policy: str) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}"><title>Cases</title></head>'
        f"<body><main><h1>Cases</h1><h2>Inspector</h2>{mount_html()}</main></body></html>"
    )


def build_site(folder: Path, source: MadeCases) -> Path:
    export_cases(source, folder / "run" / "inspector")
    (folder / "site" / "_static").mkdir(parents=True)
    publish_inspector(folder / "run", folder / "site" / "_static" / "inspector")
    (folder / "site" / "index.html").write_text(page_html(POLICY.format("'self' file:")), encoding="utf-8")
    return folder / "site"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_site(tmp_path_factory.mktemp("site"), MadeCases(60))


@pytest.fixture(scope="module")
def hostile_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_site(tmp_path_factory.mktemp("hostile"), MadeCases(3, hostile=True))


@pytest.fixture(scope="module")
def server(site: Path, loopback: Callable[[Path], str]) -> str:
    """The same site over http."""
    return f"{loopback(site)}/"


@dataclass
class Visit:
    """One tab, what it asked for, and what it complained about."""

    page: Page
    refused: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def open(self, address: str) -> Page:
        self.page.goto(address)
        self.page.locator(".mv-inspector .mv-arm h5").first.wait_for()
        return self.page

    def guard(self, route: Route) -> None:
        if route.request.url.startswith(("file:", "blob:", "http://127.0.0.1:")):
            route.continue_()
        else:
            self.refused.append(route.request.url)
            route.abort()


@pytest.fixture
def visit(chromium: Browser) -> Iterator[Callable[..., Visit]]:
    contexts = []
    made: list[Visit] = []

    def start(**options: Any) -> Visit:
        context = chromium.new_context(**({"viewport": {"width": 1400, "height": 1000}} | options))
        contexts.append(context)
        visit = Visit(context.new_page())
        context.route("**/*", visit.guard)
        visit.page.on("console", lambda said: visit.faults.append(said.text) if said.type == "error" else None)
        visit.page.on("pageerror", lambda error: visit.faults.append(str(error)))
        visit.page.set_default_timeout(10_000)
        made.append(visit)
        return visit

    yield start
    for context in contexts:
        context.close()
    assert [fault for one in made for fault in one.faults] == []
    assert [address for one in made for address in one.refused] == []


def address(site: Path, place: str = "") -> str:
    return (site / "index.html").as_uri() + (f"#{place}" if place else "")


def rows(page: Page) -> Locator:
    return page.locator(".mv-list .mv-row")


def chosen_id(page: Page) -> str:
    return page.locator(".mv-row[aria-selected=true] .mv-about").inner_text().split(" ")[0]


def test_a_case_shows_all_that_is_stored_of_it(visit: Callable[..., Visit], site: Path) -> None:
    page = visit().open(address(site, "run=one&arm=medvrag&case=q-00002&round=2"))
    trace = MadeCases(60).trace(0, 2)
    detail = page.locator(".mv-detail")
    expect(detail.locator(".mv-question")).to_contain_text(
        "at which dose is allopurinol started, dose [U+202E]01[U+202C] mg"
    )
    expect(detail.locator(".mv-options li")).to_have_count(3)
    expect(detail.locator(".mv-options li.mv-gold")).to_contain_text("100 mg")
    expect(detail.get_by_role("tab", selected=True)).to_contain_text("Round 2")
    expect(detail.locator(".mv-query ins")).to_have_text(["reduced", "function"])
    expect(detail.locator(".mv-query del")).to_have_count(0)
    expect(detail.locator("ol.mv-pages li")).to_have_count(10)
    expect(detail.locator("ol.mv-pages li.mv-is-gold")).to_contain_text("rank 3 → 1")
    expect(detail.locator("ol.mv-pages li").nth(3)).to_contain_text("not shown: its license")
    expect(detail.locator("ul.mv-diff li.mv-new ins").first).to_have_text("[Round 2] Allopurinol is started low 2")
    expect(detail.locator("ul.mv-diff").first.locator("li:not(.mv-new)")).to_have_text(
        "[Round 1] Allopurinol is started low 1"
    )
    for name in ("Reply as written", "Prompt as sent to m (1 message)", "1 step beside the reader's"):
        detail.get_by_text(name).click()
    expect(detail.locator("pre", has_text="<answer>")).to_have_text(trace.rounds[1].reply.text)
    expect(detail.locator("pre", has_text="Ask")).to_have_count(1)
    expect(detail.locator(".mv-arm > .mv-meta").first).to_have_text(
        "profile test · 3 rounds · 1.5 s · 3,627 + 96 tokens"
    )
    detail.get_by_role("tab", name="Round 3").click()
    expect(detail.locator(".mv-query ins")).to_have_text(["colchicine"])
    expect(detail.locator(".mv-query del")).to_have_text(["starting"])
    expect(detail.locator(".mv-tag", has_text="query_stalled")).to_be_visible()
    expect(page).to_have_url(re.compile("round=3"))


def test_the_filter_tells_ranks_and_who_dropped_what(visit: Callable[..., Visit], site: Path) -> None:
    page = visit().open(address(site, "case=q-00000"))
    round_ = MadeCases(60).trace(0, 0).rounds[0]
    page.get_by_text("24 candidates, 18 kept, 6 dropped").click()
    table = page.get_by_role("group", name="Candidates and the filter").locator("tbody tr")
    expect(table).to_have_count(24)
    told = [[cell.strip() for cell in row.locator("td,th").all_inner_texts()] for row in table.all()]
    mapped, reduced = round_.filter.calls
    for (before, after, _, name, score, what), hit in zip(told, round_.stage1, strict=True):
        kept = round_.filter.kept
        assert (int(before), name.split("\n")[0].removesuffix("gold")) == (hit.rank, hit.page_id)
        assert float(score) == pytest.approx(hit.score, abs=6e-4)
        assert after == (str(kept.index(hit.page_id) + 1) if hit.page_id in kept else "–")
        if hit.page_id in round_.shown:
            assert what == f"shown, place {round_.shown.index(hit.page_id) + 1}"
        elif hit.page_id in kept:
            assert what == "kept, not shown"
        else:
            assert what == ("dropped by reduce" if hit.page_id in mapped.kept else "dropped by map call 1")
            assert hit.page_id not in reduced.kept
    page.get_by_label("Candidates listed").select_option("dropped")
    expect(table).to_have_count(6)
    exchanges = page.locator("details.mv-exchanges")
    exchanges.get_by_text("Prompts and replies of the filter").click()
    expect(exchanges).to_contain_text("Call 1, map · f · complete")
    expect(exchanges).to_contain_text("Call 2, reduce: no model was asked.")
    exchanges.get_by_text("Prompt as sent to f (1 message)").click()
    expect(exchanges.locator("pre").first).to_have_text("Rank these 1")
    exchanges.get_by_text("Reply of call 1 as written").click()
    expect(exchanges.locator("pre", has_text="ranking")).to_be_visible()
    page.get_by_label("Candidates listed").select_option("moved")
    expect(table.first).to_contain_text("▲ 2")


def test_filters_and_search_narrow_the_list(visit: Callable[..., Visit], site: Path) -> None:
    page = visit().open(address(site))
    source = MadeCases(60)
    told = page.locator(".mv-count")
    expect(told).to_have_text("60 of 60 cases")
    all_rows = source.rows(0).rows
    page.get_by_label("Outcome").select_option("wrong")
    expect(told).to_have_text(f"{sum(not row.correct for row in all_rows)} of 60 cases")
    page.get_by_label("Error class").select_option("misread")
    misread = [row for row in all_rows if row.error_class == "misread"]
    expect(told).to_have_text(f"{len(misread)} of 60 cases")
    expect(page.locator(".mv-detail .mv-question")).to_contain_text(misread[0].question.split(":")[0])
    page.get_by_role("button", name="Clear filters").click()
    page.get_by_label("Rounds", exact=True).select_option("2")
    page.get_by_label("Dataset").select_option("medqa")
    expect(told).to_have_text(f"{sum(r.rounds == 2 and r.dataset == 'medqa' for r in all_rows)} of 60 cases")
    page.get_by_role("button", name="Clear filters").click()
    page.get_by_label("Search").fill("STARTED q-00042")
    expect(told).to_have_text("1 of 60 cases")
    page.get_by_label("Search").fill("nowhere")
    expect(page.locator(".mv-detail")).to_have_text("No case fits these filters.")
    page.get_by_label("Search").fill("")
    expect(page.locator(".mv-detail .mv-question")).to_contain_text("Question 0")


def test_where_no_gold_option_is_known_nothing_is_right_or_wrong(visit: Callable[..., Visit], site: Path) -> None:
    page = visit().open(address(site, "run=two&arm=medvrag&case=q-00000"))
    expect(page.locator(".mv-options .mv-wrong, .mv-options .mv-gold")).to_have_count(0)
    expect(page.locator("article.mv-arm h4")).to_have_text("medvrag answered B ")
    page.get_by_label("Outcome").select_option("not scored")
    expect(page.locator(".mv-count")).to_have_text("60 of 60 cases")


def test_keys_go_from_case_to_case_and_round_to_round(visit: Callable[..., Visit], site: Path) -> None:
    page = visit().open(address(site, "case=q-00001"))
    page.locator(".mv-detail").focus()
    page.keyboard.press("j")
    expect(page.locator(".mv-row[aria-selected=true] .mv-about")).to_contain_text("q-00002")
    page.keyboard.press("k")
    page.keyboard.press("k")
    expect(page.locator(".mv-row[aria-selected=true] .mv-about")).to_contain_text("q-00000")
    page.keyboard.press("k")
    assert chosen_id(page) == "q-00000"
    page.locator(".mv-list").focus()
    page.keyboard.press("End")
    expect(page.locator(".mv-row[aria-selected=true] .mv-about")).to_contain_text("q-00059")
    selected = page.locator(".mv-list").get_attribute("aria-activedescendant")
    assert page.locator(f"#{selected}").get_attribute("aria-posinset") == "60"
    page.keyboard.press("ArrowUp")
    expect(page.locator(".mv-row[aria-selected=true] .mv-about")).to_contain_text("q-00058")
    page.keyboard.press("/")
    expect(page.get_by_label("Search")).to_be_focused()
    page.keyboard.type("jk")
    assert page.get_by_label("Search").input_value() == "jk"
    page.get_by_label("Search").fill("q-00002")
    page.get_by_role("tab", name="Round 1").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Round 2")).to_be_focused()
    expect(page.locator(".mv-query ins").first).to_be_visible()


def test_two_arms_stand_side_by_side_and_a_link_opens_them_again(visit: Callable[..., Visit], site: Path) -> None:
    page = visit().open(address(site, "run=one&arm=medvrag&case=q-00004"))
    page.get_by_label("Beside it").select_option(
        label=page.get_by_label("Beside it").locator("option").nth(1).inner_text()
    )
    expect(page.locator("article.mv-arm")).to_have_count(2)
    expect(page.locator("article.mv-arm h4")).to_contain_text(["medvrag", "page_single"])
    expect(page.locator(".mv-row[aria-selected=true] .mv-mark")).to_have_count(2)
    expect(page).to_have_url(re.compile("with=page_single"))
    other = visit().open(page.url)
    expect(other.locator("article.mv-arm h4")).to_contain_text(["medvrag", "page_single"])
    assert chosen_id(other) == "q-00004"
    other.get_by_label("Run", exact=True).select_option("two")
    expect(other.locator("article.mv-arm")).to_have_count(1)
    assert chosen_id(other) == "q-00004", "the same question stays open in another run"
    other.evaluate("location.hash = '#run=one&arm=page_single&case=q-00007&round=1'")
    expect(other.locator(".mv-row[aria-selected=true] .mv-about")).to_contain_text("q-00007")
    expect(other.locator("article.mv-arm h4")).to_contain_text(["page_single"])


def test_a_trace_is_copied_whole(visit: Callable[..., Visit], site: Path) -> None:
    page = visit().open(address(site, "case=q-00003"))
    page.evaluate(
        "Object.defineProperty(navigator, 'clipboard', {value: {writeText: async text => { window.copied = text; }}})"
    )
    page.get_by_role("button", name="Copy trace as JSON").click()
    page.get_by_role("button", name="Copied").wait_for()
    assert Trace.from_json(page.evaluate("window.copied")) == MadeCases(60).trace(0, 3)
    assert "__proto__" in json.loads(page.evaluate("window.copied"))["question"]["options"]


def test_the_viewer_zooms_shades_and_outlines(visit: Callable[..., Visit], site: Path) -> None:
    page = visit().open(address(site, "case=q-00000"))
    page.get_by_role("button", name="Look at page 1. page#p3").click()
    viewer = page.get_by_role("dialog")
    expect(viewer.locator("h4")).to_have_text("page#p3 (1 of 9)")
    patches = viewer.locator(".mv-patches rect")
    shading = MadeCases(1).maps("0" * 16).pages[2].shadings
    names = ["None", "Whole query: the score S", "Whole query: whatever fits best", *QUERIES[0].split()]
    expect(viewer.locator(".mv-map > span:first-of-type")).to_have_text(names)
    for place, one in enumerate(shading):
        viewer.get_by_role("radio").nth(place + 1).check()
        levels = sorted(int(digit, 16) for k, digit in enumerate(one.levels) if digit != "0" or k in one.best)
        expect(patches).to_have_count(len(levels))
        opacities = patches.evaluate_all("all => all.map(r => Number(r.getAttribute('fill-opacity')))")
        assert sorted(opacities) == pytest.approx([level / 15 for level in levels], abs=0.006)
        best = viewer.locator(".mv-patches rect.mv-best")
        expect(best).to_have_attribute("x", str(3333 * (one.best[0] % 3)))
    viewer.get_by_role("radio").first.check()
    expect(patches).to_have_count(0)
    viewer.get_by_label("Opacity of the heatmap").fill("20")
    assert viewer.locator(".mv-patches").evaluate("e => getComputedStyle(e).opacity") == "0.2"
    expect(viewer.locator(".mv-words")).to_be_hidden()
    viewer.get_by_label("Boxes of words").check()
    expect(viewer.locator(".mv-words rect")).to_have_count(2)
    expect(viewer.locator(".mv-words")).to_be_visible()
    viewer.get_by_role("button", name="1:1, native resolution").click()
    sheet = viewer.locator(".mv-sheet")
    assert sheet.bounding_box()["width"] == pytest.approx(300, abs=1)  # type: ignore[index]
    box = viewer.locator(".mv-words rect").first.bounding_box()
    frame = sheet.bounding_box()
    assert box is not None and frame is not None
    assert (box["x"] - frame["x"]) / frame["width"] == pytest.approx(0.1, abs=0.01)
    page.mouse.move(box["x"] + 5, box["y"] + 5)
    expect(viewer.locator(".mv-pointed")).to_contain_text("word “Allopurinol”")
    viewer.locator(".mv-area").focus()
    page.keyboard.press("+")
    assert sheet.bounding_box()["width"] == pytest.approx(375, abs=1)  # type: ignore[index]
    page.keyboard.press("n")
    expect(viewer.locator("h4")).to_have_text("page#p1 (2 of 9)")
    expect(viewer.locator(".mv-panel")).to_contain_text("Shown here at 300 of 600 pixels in width")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_texts_of_people_pages_and_models_are_shown_and_never_run(
    visit: Callable[..., Visit], hostile_site: Path
) -> None:
    source = MadeCases(3, hostile=True)
    page = visit().open(address(hostile_site, "arm=medvrag&round=2&case=q-00001"))
    page.get_by_label("Beside it").select_option("1")
    for _ in range(3):
        for summary in page.locator(".mv-detail summary").all():
            summary.evaluate("e => { e.parentElement.open = true; }")
        page.locator("ol.mv-pages button").first.click()
        viewer = page.get_by_role("dialog")
        expect(viewer.locator(".mv-map").nth(3)).to_contain_text(HOSTILE)
        viewer.get_by_label("Boxes of words").check()
        viewer.get_by_role("radio").nth(3).check()
        page.keyboard.press("Escape")
        page.get_by_role("button", name="Next →").evaluate("e => e.click()")
    text = page.locator(".mv-detail").inner_text()
    assert text.count(HOSTILE) > 10
    assert HOSTILE in source.trace(0, 0).question.id
    page.locator(".mv-list").focus()
    page.keyboard.press("Home")
    expect(page.locator(".mv-detail > .mv-meta").first).to_contain_text(HOSTILE)
    again = visit().open(page.url)
    expect(again.locator(".mv-detail > .mv-meta").first).to_contain_text(HOSTILE)
    for tab in (page, again):
        assert tab.title() == "Cases"
        assert tab.locator(".mv-inspector :is(script, svg[onload], [onerror])").count() == 0
        assert tab.evaluate("Object.keys(Object.prototype).length") == 0


def test_over_http_it_is_the_same_and_obeys_a_strict_policy(visit: Callable[..., Visit], server: str) -> None:
    page = visit().open(f"{server}index.html#case=q-00005")
    assert chosen_id(page) == "q-00005"
    page.locator("ol.mv-pages img").first.evaluate("e => e.decode()")
    page.locator("ol.mv-pages button").first.click()
    page.get_by_role("dialog").locator(".mv-sheet img").evaluate("e => e.decode()")


def test_a_case_that_is_not_there_is_told(visit: Callable[..., Visit], site: Path) -> None:
    page = visit().open(address(site, "arm=medvrag&case=q-99999"))
    expect(page.get_by_role("alert")).to_have_text("There is no case q-99999 in this arm; here is its first.")
    assert chosen_id(page) == "q-00000"
    page.get_by_role("button", name="Next →").click()
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_link_is_stronger_than_the_filters(visit: Callable[..., Visit], site: Path) -> None:
    page = visit().open(address(site))
    page.get_by_label("Search").fill("q-00042")
    expect(page.locator(".mv-count")).to_have_text("1 of 60 cases")
    page.evaluate("location.hash = '#arm=medvrag&case=q-00007'")
    expect(page.locator(".mv-row[aria-selected=true] .mv-about")).to_contain_text("q-00007")
    assert page.get_by_label("Search").input_value() == ""


def test_a_link_is_followed_though_the_case_before_it_comes_just_then(visit: Callable[..., Visit], site: Path) -> None:
    page = visit().open(address(site, "arm=medvrag&case=q-00000"))
    # As the browser does it: the address changes at once, the event comes later, and the case writes its own between.
    page.evaluate(
        """() => {
          const asked = new URL('#arm=medvrag&case=q-00007', location.href).href;
          history.replaceState(null, '', '#run=one&arm=medvrag&case=q-00001&round=1');
          window.dispatchEvent(new HashChangeEvent('hashchange', {newURL: asked}));
        }"""
    )
    expect(page.locator(".mv-row[aria-selected=true] .mv-about")).to_contain_text("q-00007")


def test_a_case_that_comes_late_does_not_take_the_place_of_a_later_one(visit: Callable[..., Visit], site: Path) -> None:
    page = visit().open(address(site, "arm=medvrag&case=q-00000"))
    held: list[Route] = []
    page.route("**/cases/0-1.js", lambda route: held.append(route))
    rows(page).nth(1).click()
    rows(page).nth(2).click()
    expect(page.locator(".mv-detail .mv-question")).to_contain_text("Question 2")
    held[0].continue_()
    page.wait_for_function("!document.head.querySelector('script[src*=\"cases/0-1\"]')")
    page.evaluate("new Promise(requestAnimationFrame)")
    expect(page.locator(".mv-detail .mv-question")).to_contain_text("Question 2")
    rows(page).nth(1).click()
    expect(page.locator(".mv-detail .mv-question")).to_contain_text("Question 1")


def test_an_arm_that_cannot_be_read_is_told_and_the_others_stay(chromium: Browser, tmp_path: Path) -> None:
    site = build_site(tmp_path, MadeCases(3))
    (site / "_static" / "inspector" / "arms" / "1.js").unlink()
    (site / "_static" / "inspector" / "cases" / "0-1.js").write_text("not the data\n")
    context = chromium.new_context()
    page = context.new_page()
    page.goto(address(site))
    page.locator(".mv-arm h5").first.wait_for()
    rows(page).nth(1).click()
    expect(page.get_by_role("alert")).to_have_text("The cases cannot be shown: cases/0-1: holds no data")
    rows(page).nth(2).click()
    expect(page.locator(".mv-detail .mv-question")).to_contain_text("Question 2")
    page.get_by_label("Arm", exact=True).select_option("1")
    expect(page.get_by_role("alert")).to_contain_text("arms/1 is not beside this page")
    expect(rows(page)).to_have_count(0)
    page.get_by_label("Arm", exact=True).select_option("0")
    expect(page.locator(".mv-detail .mv-question")).to_contain_text("Question 0")
    context.close()


def test_without_cases_it_says_so(chromium: Browser, tmp_path: Path) -> None:
    publish_inspector(tmp_path / "no_run", tmp_path / "_static" / "inspector")
    (tmp_path / "index.html").write_text(page_html(POLICY.format("'self' file:")), encoding="utf-8")
    context = chromium.new_context()
    page = context.new_page()
    page.goto((tmp_path / "index.html").as_uri())
    expect(page.get_by_role("alert")).to_contain_text("catalog is not beside this page")
    context.close()


@pytest.mark.slow
def test_with_thousands_of_cases_the_list_is_a_screenful_and_a_case_opens_at_once(
    visit: Callable[..., Visit], tmp_path: Path
) -> None:
    source = MadeCases(MANY, candidates=200)
    page = visit().open(address(build_site(tmp_path, source)))
    expect(page.locator(".mv-count")).to_have_text(f"{MANY:,} of {MANY:,} cases")
    assert rows(page).count() < 40
    page.locator(".mv-list").focus()
    page.keyboard.press("End")
    expect(page.locator(".mv-row[aria-selected=true] .mv-about")).to_contain_text(f"q-{MANY - 1:05d}")
    assert rows(page).count() < 40
    # From the key to the case on the screen, its file loaded from the disk; told, not judged: machines differ.
    opened = page.evaluate(
        """async () => {
          const list = document.querySelector('.mv-list');
          const head = () => document.querySelector('.mv-detail .mv-question').textContent;
          const took = [];
          for (let k = 0; k < 30; k++) {
            const before = head(), start = performance.now();
            list.dispatchEvent(new KeyboardEvent('keydown', {key: k % 2 ? 'ArrowUp' : 'PageUp', bubbles: true}));
            while (head() === before) await new Promise(requestAnimationFrame);
            took.push(performance.now() - start);
          }
          return took.sort((a, b) => a - b);
        }"""
    )
    print(f"\nopening a case of {MANY:,}: median {opened[15]:.1f} ms, slowest of 30 {opened[-1]:.1f} ms")
    assert page.evaluate("document.querySelectorAll('*').length") < 2_000


@pytest.mark.parametrize("look", ["light", "dark", "phone"])
def test_it_fits_and_can_be_read_in_every_look(
    visit: Callable[..., Visit], site: Path, tmp_path: Path, look: str
) -> None:
    options: dict[str, Any] = {
        "light": {},
        "dark": {"color_scheme": "dark"},
        "phone": {"viewport": {"width": 390, "height": 844}},
    }[look]
    page = visit(**options).open(address(site, "case=q-00002&round=2&with=page_single"))
    page.screenshot(path=str(tmp_path / f"inspector-{look}.png"), full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "scrolls sideways"
    style = "e => [getComputedStyle(e).backgroundColor, getComputedStyle(e).color]"
    back, ink = page.locator(".mv-inspector").evaluate(style)
    bright = [sum(map(int, color.removeprefix("rgb(").removesuffix(")").split(", "))) for color in (back, ink)]
    assert (bright[0] < bright[1]) == (look == "dark")
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    assert page.locator(".mv-inspector").evaluate(style)[0] == "rgb(26, 30, 35)"
    for image in page.locator(".mv-inspector img").all():
        assert image.get_attribute("alt") is not None


@pytest.mark.slow
@pytest.mark.parametrize("look", [{}, {"color_scheme": "dark"}, {"viewport": {"width": 390, "height": 844}}])
def test_axe_finds_nothing_serious(visit: Callable[..., Visit], site: Path, axe: str, look: dict[str, Any]) -> None:
    page = visit(bypass_csp=True, **look).open(address(site, "case=q-00002&round=2&with=page_single"))
    for summary in page.locator(".mv-detail summary").all():
        summary.evaluate("e => { e.parentElement.open = true; }")
    page.evaluate(axe)
    told = "v => [v.impact, v.id, v.nodes.map(n => n.html).slice(0, 3)]"
    run = f"async scope => (await axe.run(scope, {{preload: false}})).violations.map({told})"
    found = page.evaluate(run, ".mv-inspector")
    page.locator("ol.mv-pages button").first.click()
    page.get_by_role("dialog").get_by_role("radio").nth(3).wait_for()
    found += page.evaluate(run, "dialog")
    assert [one for one in found if one[0] in ("serious", "critical")] == []
