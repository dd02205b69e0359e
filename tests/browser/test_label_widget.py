"""The labeling widget alive: a kernel in JupyterLab, clicks in Chromium, labels on the disk."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import nbformat
import pytest
from PIL import Image
from playwright.sync_api import Browser
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from medvrag_core.evaluation.labels.relevance import read_labels

pytestmark = [pytest.mark.browser, pytest.mark.slow]

CELL = """
from pathlib import Path
from medvrag_core.evaluation.labels.sample import draw_sample
from medvrag_core.records import Page, Question
from medvrag_core.views.label_widget import LabelWidget

def page(page_id):
    return Page(page_id=page_id, article_id="a", number=1, width_pt=1, height_pt=1, image="", image_width=1,
                image_height=1, dpi=72, text_source="pdf", text="<img src=x onerror=document.title='hit'> 100 mg")

tasks = draw_sample({("q1", f"a#p{n}"): "shown" for n in (1, 2)}, 2)
questions = {"q1": Question(id="q1", question="Dose of <b>allopurinol</b>?", options={"A": "1", "B": "2"})}
LabelWidget(tasks, questions, page=page, image=lambda _: Path("page.png"), folder=Path("labels"), width=200)
"""


@pytest.fixture
def lab(jupyterlab: Callable[[Path], str], tmp_path: Path) -> str:
    """JupyterLab over a folder with one notebook that shows the widget; its address."""
    Image.new("RGB", (60, 80), "white").save(tmp_path / "page.png")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL)])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, tmp_path / "label.ipynb")
    return jupyterlab(tmp_path)


def test_a_rater_clicks_through_the_widget_in_jupyterlab(chromium: Browser, lab: str, tmp_path: Path) -> None:
    context = chromium.new_context(viewport={"width": 1300, "height": 1000})
    page = context.new_page()
    page.set_default_timeout(120_000)
    name = page.get_by_placeholder("your name or initials")
    # JupyterLab that still loads can swallow the key that runs the cell: open the notebook anew then.
    for _ in range(4):
        page.goto(f"{lab}/lab/tree/label.ipynb")
        # A cell that is run before its kernel is there is not run at all.
        page.locator(".jp-Notebook-ExecutionIndicator[data-status='idle']").wait_for(state="attached")
        page.locator(".jp-Notebook .jp-CodeCell .cm-content").first.click()
        page.keyboard.press("Shift+Enter")
        with suppress(PlaywrightTimeout):
            name.wait_for(timeout=30_000)
            break
    name.fill("ann")
    page.get_by_role("button", name="Start", exact=True).click()
    page.get_by_text("0 of 2 pages labeled").wait_for()
    assert page.locator(".jp-OutputArea img[alt^='Page a#p']").count() == 1
    page.get_by_placeholder("note (optional)").fill("names the dose")
    page.screenshot(path=str(tmp_path / "widget.png"))
    page.get_by_role("button", name="Partly").click()
    page.get_by_text("1 of 2 pages labeled").wait_for()
    page.get_by_role("button", name="Back").click()
    page.get_by_role("button", name="Relevant", exact=True).click()
    page.get_by_role("button", name="Not relevant").click()
    page.get_by_text("Every page has a label").wait_for()
    assert page.title() != "hit", "text of a page ran as markup"
    context.close()
    labels = read_labels(tmp_path / "labels" / "rater-ann.jsonl")
    assert [label.label for label in labels] == ["relevant", "not_relevant"]
    assert len((tmp_path / "labels" / "rater-ann.jsonl").read_text().splitlines()) == 3
