"""The inspector alive: JupyterLab opens the chapter's notebook, runs all of it, and its widgets are used."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from medvrag_core.profiles.load import load_profile
from medvrag_core.records import Question, Trace
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.answering import answer_all
from medvrag_core.systems.resources import Resources

pytestmark = [pytest.mark.browser, pytest.mark.slow]

REPO = Path(__file__).resolve().parents[2]
NOTEBOOK = "10_case_inspector.ipynb"


@pytest.fixture
def checkout(made_run: Workspace, made_questions: list[Question], tmp_path: Path) -> Path:
    """A folder like a checkout: the chapter with other parameters, and a run that answered three questions."""
    shutil.copytree(made_run.root, tmp_path / "runs" / "made")
    resources = Resources(Workspace(tmp_path / "runs" / "made"), load_profile("test"))
    for arm in ("medvrag", "page_single"):
        answer_all(arm, resources, made_questions, progress=False)
    (tmp_path / "questions.jsonl").write_text("".join(q.to_json() + "\n" for q in made_questions), encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "notebooks").mkdir()
    text = (REPO / "notebooks" / NOTEBOOK).read_text(encoding="utf-8")
    for before, after in (
        ('\\"cpu\\"', '\\"test\\"'),
        ('\\"demo\\"', '\\"made\\"'),
        ("data/demo/built/dev.jsonl", "questions.jsonl"),
        ('\\"hcq-01\\"', '\\"gout-1\\"'),
    ):
        assert before in text
        text = text.replace(before, after)
    (tmp_path / "notebooks" / NOTEBOOK).write_text(text, encoding="utf-8")
    return tmp_path


def test_the_notebook_runs_and_its_widgets_are_used(
    chromium: Browser, jupyterlab: Callable[[Path], str], checkout: Path, made_questions: list[Question], tmp_path: Path
) -> None:
    lab = jupyterlab(checkout)
    context = chromium.new_context(viewport={"width": 1500, "height": 1100})
    page = context.new_page()
    page.set_default_timeout(120_000)
    inspector = page.locator(".mv-inspector")
    # JupyterLab that still loads can swallow the command: open the notebook anew then.
    for _ in range(4):
        page.goto(f"{lab}/lab/tree/notebooks/{NOTEBOOK}")
        page.locator(".jp-Notebook-ExecutionIndicator[data-status='idle']").wait_for(state="attached")
        page.get_by_role("menuitem", name="Run", exact=True).click()
        page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
        try:
            inspector.locator(".mv-arm h5").first.wait_for(timeout=60_000)
            break
        except PlaywrightTimeout:
            continue
    # The kernel answers the widget, pictures come as bytes, and nothing is kept in the page as base64.
    expect(inspector.locator(".mv-question")).to_contain_text(made_questions[0].question)
    thumbnail = inspector.locator("ol.mv-pages img").first
    thumbnail.scroll_into_view_if_needed()
    expect(thumbnail).to_have_attribute("src", re.compile("^blob:"))
    inspector.locator(".mv-detail").focus()
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("k")
    expect(inspector.locator(".mv-row[aria-selected=true] .mv-about")).to_contain_text("anemia-1")
    assert page.locator(".jp-Notebook .jp-Cell").count() > 10, "the keys are not the notebook's"
    page.screenshot(path=str(tmp_path / "inspector.png"))
    inspector.locator("ol.mv-pages button").first.click()
    viewer = page.get_by_role("dialog", name="#p")
    viewer.get_by_role("radio").nth(3).check()
    expect(viewer.locator(".mv-patches rect").first).to_be_attached()
    viewer.locator(".mv-sheet img").evaluate("e => e.decode()")
    page.screenshot(path=str(tmp_path / "viewer.png"))
    page.keyboard.press("Escape")
    # What a person types is asked, with pages by hand, and kept.
    page.get_by_role("button", name="Begin").scroll_into_view_if_needed()
    page.get_by_label("Question", exact=True).fill(made_questions[1].question)
    options = "\n".join(f"{label}: {text}" for label, text in made_questions[1].options.items())
    page.get_by_label("Options", exact=True).fill(options)
    page.get_by_role("button", name="Begin").click()
    page.get_by_text("Change query and pages as you like").wait_for()
    page.get_by_label("Pages", exact=True).fill("asthma#p2")
    page.get_by_role("button", name="Run round").click()
    page.get_by_text("pages_by_hand").last.wait_for()
    page.get_by_role("button", name="Save trace").click()
    page.get_by_text("Saved: ").wait_for()
    page.screenshot(path=str(tmp_path / "explorer.png"))
    traces = [Trace.from_json(path.read_bytes()) for path in checkout.glob("runs/made/explored/**/typed-*.json")]
    (mine,) = [trace for trace in traces if trace.question.question == made_questions[1].question]
    assert mine.rounds[0].shown == ("asthma#p2",)
    context.close()
