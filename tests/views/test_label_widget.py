"""The labeling widget with real ipywidgets objects: their buttons are clicked, their values are read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from ipywidgets import Button

from medvrag_core.corpus.store import CorpusStore
from medvrag_core.evaluation.labels.relevance import read_labels
from medvrag_core.evaluation.labels.sample import LabelTask, draw_sample
from medvrag_core.evaluation.labels.session import rater_path
from medvrag_core.records import Page, Question
from medvrag_core.runs.workspace import Workspace
from medvrag_core.views.label_widget import LabelWidget

BAD = "<script>alert(1)</script>"
TASKS = draw_sample({("gout-1", f"gout#p{n}"): "shown, relevant" for n in (1, 2)} | {("gout-1", "asthma#p1"): "s"}, 5)


@pytest.fixture
def make(made_run: Workspace, made_questions: list[Question], tmp_path: Path) -> Callable[..., LabelWidget]:
    store = CorpusStore.open(made_run.corpus)
    questions = {q.id: q.model_copy(update={"question": f"{q.question} {BAD}"}) for q in made_questions}

    def page(page_id: str) -> Page:
        found = store.page(page_id)
        return found.model_copy(update={"text": f"{found.text} {BAD}"})

    def build(tasks: tuple[LabelTask, ...] = TASKS, image: Callable[[str], Path] = store.image_path) -> LabelWidget:
        return LabelWidget(tasks, questions, page=page, image=image, folder=tmp_path)

    return build


def click(button: Button) -> None:
    button.click()


def begin(widget: LabelWidget, rater: str) -> LabelWidget:
    widget.rater.value = rater
    click(widget.start)
    return widget


def test_clicks_become_labels_at_once_and_the_rater_can_go_back(
    make: Callable[..., LabelWidget], tmp_path: Path
) -> None:
    widget = begin(make(), "ann")
    assert widget.session is not None
    first = widget.session.task
    assert first is not None and first.page_id.split("#")[1] in widget.shown.value
    widget.note.value = "gives the dose"
    click(widget.buttons["relevant"])
    (label,) = read_labels(rater_path(tmp_path, "ann"))
    assert (label.page_id, label.label, label.reason) == (first.page_id, "relevant", "gives the dose")
    assert (widget.progress.value, widget.progress.max, widget.note.value) == (1, 3, "")
    click(widget.back)
    assert widget.session.task == first
    assert widget.buttons["relevant"].button_style == "info" and widget.buttons["partly"].button_style == ""
    click(widget.buttons["partly"])
    assert [x.label for x in read_labels(rater_path(tmp_path, "ann"))] == ["partly"]
    click(widget.buttons["not_relevant"])
    click(widget.buttons["unsure"])
    assert "Every page has a label" in widget.shown.value
    assert all(button.disabled for button in widget.buttons.values())
    click(widget.back)
    assert not widget.buttons["relevant"].disabled
    widget.close()


def test_a_rater_goes_on_where_he_stopped_and_two_do_not_meet(make: Callable[..., LabelWidget], tmp_path: Path) -> None:
    ann = begin(make(), "ann")
    click(ann.buttons["relevant"])
    bob = begin(make(), "bob")
    assert bob.progress.value == 0
    second = begin(make(), "ann")
    assert second.session is None and "open elsewhere" in second.told.value
    click(ann.stop)
    assert ann.session is None and "go on" in ann.told.value
    click(ann.buttons["partly"])  # A click that was still on its way does nothing.
    assert len(read_labels(rater_path(tmp_path, "ann"))) == 1
    click(second.start)
    assert second.progress.value == 1
    for widget in (bob, second):
        widget.close()


def test_a_rater_sees_neither_rank_nor_judge_nor_answer_and_no_markup_of_a_page(
    make: Callable[..., LabelWidget],
) -> None:
    widget = begin(make(), "ann")
    assert "<script" not in widget.shown.value and "&lt;script&gt;" in widget.shown.value
    every = json.dumps(
        [w.get_state() for w in (widget.shown, widget.told, widget.note, *widget.buttons.values())], default=str
    )
    assert "shown, relevant" not in every and "stratum" not in every
    assert "100 mg" in widget.shown.value and "answer" not in widget.shown.value.lower()
    begin(widget, BAD)
    widget.close()
    refused = begin(make(), "x" * 90 + BAD)
    assert "1 to 60" in refused.told.value and "<script" not in refused.told.value


def test_a_label_that_cannot_be_kept_is_told_and_the_page_stays(
    make: Callable[..., LabelWidget], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    widget = begin(make(), "ann")
    assert widget.session is not None
    task = widget.session.task

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("medvrag_core.evaluation.labels.relevance.os.fsync", full)
    click(widget.buttons["relevant"])
    assert "Not kept" in widget.told.value and "No space" in widget.told.value
    assert widget.session.task == task
    monkeypatch.undo()
    click(widget.buttons["unsure"])
    widget.close()
    assert [x.label for x in read_labels(rater_path(tmp_path, "ann"))] == ["unsure"]


def test_the_book_gets_a_still_picture(make: Callable[..., LabelWidget]) -> None:
    bundle = make()._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in bundle
    still = bundle["text/html"]
    assert still.count("disabled") == 4 and "data:image/jpeg;base64," in still
    assert "<script" not in still and "http" not in still
