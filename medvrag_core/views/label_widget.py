"""A widget in which a person labels pages as relevant; a still picture of it stands in the book."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import ipywidgets as widgets  # type: ignore[import-untyped]

from medvrag_core.corpus.showing import PagePicture, as_picture
from medvrag_core.errors import MedvragError
from medvrag_core.evaluation.labels.relevance import Grade
from medvrag_core.evaluation.labels.sample import LabelTask
from medvrag_core.evaluation.labels.session import LabelSession
from medvrag_core.records import Page, Question
from medvrag_core.views.markup import escape
from medvrag_core.views.pages import alt_text, credit_html, page_thumbnail

BUTTONS: dict[Grade, str] = {
    "relevant": "Relevant",
    "partly": "Partly",
    "not_relevant": "Not relevant",
    "unsure": "Unsure",
}
_GUIDE = (
    "Relevant: the page states something that helps to choose the right option or to rule out a wrong one. "
    "Partly: it helps, but only together with another page. Sharing a topic is not enough."
)
_MOST_KB = 400


class LabelWidget(widgets.VBox):  # type: ignore[misc] # ipywidgets has no types
    """Shows one question and one page at a time; each click on a label is on the disk before the next page appears.

    A rater sees neither rank nor stage, neither the right answer nor any other label. Whoever stops goes on at the
    first page without a label, under the same name.

    Parameters
    ----------
    tasks : the sample, see :func:`~medvrag_core.evaluation.labels.sample.draw_sample`
    questions : by id
    page : a page by id, for its text
    image : the picture of a page by id (``store.picture``)
    folder : where a file for each rater is kept
    width : pixels of the page image
    """

    def __init__(
        self,
        tasks: Sequence[LabelTask],
        questions: Mapping[str, Question],
        *,
        page: Callable[[str], Page],
        image: Callable[[str], Path | PagePicture],
        folder: Path,
        width: int = 720,
    ) -> None:
        self._tasks, self._questions, self._page, self._image = tuple(tasks), questions, page, image
        self._folder, self._width = folder, width
        self.session: LabelSession | None = None
        self.rater = widgets.Text(placeholder="your name or initials", description="Rater")
        self.start = widgets.Button(description="Start", button_style="primary")
        self.buttons = {grade: widgets.Button(description=name) for grade, name in BUTTONS.items()}
        self.back = widgets.Button(description="Back", icon="arrow-left")
        self.stop = widgets.Button(description="Stop")
        self.note = widgets.Text(placeholder="note (optional)", layout={"width": "24em"})
        self.progress = widgets.IntProgress(min=0, max=max(1, len(self._tasks)), description="labeled")
        self.told, self.shown = widgets.HTML(), widgets.HTML()
        self.start.on_click(self._on_start)
        self.stop.on_click(self._on_stop)
        self.back.on_click(self._on_back)
        for grade, button in self.buttons.items():
            button.on_click(partial(self._on_label, grade))
        self._who = widgets.HBox([self.rater, self.start])
        self._controls = widgets.VBox(
            [
                widgets.HBox([*self.buttons.values(), self.back, self.stop]),
                widgets.HBox([self.note, self.progress]),
            ]
        )
        super().__init__([self._who, self.told])

    def close(self) -> None:
        """Close the rater's file with the widget."""
        self._end_session()
        super().close()

    def _on_start(self, _: widgets.Button) -> None:
        self._end_session()
        try:
            self.session = LabelSession(self._folder, self.rater.value, self._tasks)
        except MedvragError as error:
            self.told.value = _message(str(error))
            return
        self._put(self._controls, self.told, self.shown)
        self._show()

    def _on_label(self, grade: Grade, _: widgets.Button) -> None:
        self._do(lambda session: session.label(grade, self.note.value))

    def _on_back(self, _: widgets.Button) -> None:
        self._do(LabelSession.back)

    def _on_stop(self, _: widgets.Button) -> None:
        self._end_session()
        self._put(self._who, self.told)
        self.told.value = _message("Stopped; every label is kept. Start again under the same name to go on.")

    def _do(self, step: Callable[[LabelSession], None]) -> None:
        if self.session is None:
            return
        try:
            step(self.session)
        except (MedvragError, OSError) as error:
            # Not kept, so the page stays where it is.
            self.told.value = _message(f"Not kept: {error}")
            return
        self._show()

    def _show(self) -> None:
        """The page at hand, or that all is done."""
        session = self.session
        if session is None:
            return
        self.note.value = ""
        self.progress.value = session.done
        task, said = session.task, session.said
        for grade, button in self.buttons.items():
            button.disabled = task is None
            button.button_style = "info" if grade == said else ""
        self.told.value = _message(f"{session.done} of {len(session.tasks)} pages labeled")
        self.shown.value = _message("Every page has a label. Thank you.") if task is None else self._card(task)

    def _put(self, *parts: widgets.Widget) -> None:
        self.children = parts

    def _end_session(self) -> None:
        if self.session is not None:
            self.session.close()
            self.session = None

    def _card(self, task: LabelTask) -> str:
        return task_html(
            self._questions[task.question_id], self._page(task.page_id), self._image(task.page_id), width=self._width
        )

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        """The live widget, and for pages without a kernel a still picture of its first page."""
        bundle: dict[str, Any] = dict(super()._repr_mimebundle_(**kwargs) or {})
        still = self._card(self._tasks[0]) if self._tasks else ""
        names = "".join(f'<button type="button" disabled>{escape(name)}</button> ' for name in BUTTONS.values())
        return bundle | {"text/html": f'<div class="medvrag-label"><p>{names}</p>{still}</div>'}


def task_html(question: Question, page: Page, image: Path | PagePicture, *, width: int) -> str:
    """Question with options, page image and page text; all of it escaped. Neither answer nor rank is in it.

    Where the page may not be shown, its text is not shown either.
    """
    text = "(not shown)" if as_picture(image).hidden else page.text or "(no text)"
    options = "".join(f"<li>{escape(label)}) {escape(text)}</li>" for label, text in question.options.items())
    return (
        f'<p style="max-width:{width}px"><strong>{escape(question.question)}</strong></p>'
        f'<ul style="list-style:none;padding-left:1em">{options}</ul>'
        f'<p style="max-width:{width}px;opacity:.95">{escape(_GUIDE)}</p>'
        f'<img src="{page_thumbnail(image, width=width, max_kb=_MOST_KB)}" '
        f'alt="{alt_text(image, f"Page {page.page_id}")}" '
        f'style="width:100%;max-width:{width}px;border:1px solid #8884;background:#fff">{credit_html(image)}'
        f"<details><summary>Text of page {escape(page.page_id)}</summary>"
        f'<p style="white-space:pre-wrap;max-width:{width}px">{escape(text)}</p></details>'
    )


def _message(text: str) -> str:
    return f"<p>{escape(text)}</p>"
