"""Stepping through a question by hand: ipywidgets over :class:`~medvrag_core.systems.stepping.Stepper`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import ipywidgets as widgets  # type: ignore[import-untyped]

from medvrag_core.errors import InputError, MedvragError
from medvrag_core.records import Question
from medvrag_core.systems.resources import Resources
from medvrag_core.systems.stepping import Stepper
from medvrag_core.views.markup import escape
from medvrag_core.views.trace_view import TraceView

_WIDE = {"width": "100%", "max_width": "980px"}


class Explorer(widgets.VBox):  # type: ignore[misc] # ipywidgets has no types
    """Ask a question of one's own, run a round at a time, change query or pages before each, and keep the trace.

    Parameters
    ----------
    resources : opened run
    systems : names of systems and arms to choose from
    question : stands in the fields at first
    """

    def __init__(self, resources: Resources, *, systems: Sequence[str], question: Question) -> None:
        self._resources = resources
        self.stepper: Stepper | None = None
        self._found: tuple[str, ...] = ()
        self.system = widgets.Dropdown(options=list(systems), description="System")
        self.text = widgets.Textarea(value=question.question, description="Question", layout=_WIDE)
        self.options = widgets.Textarea(value=options_text(question), description="Options", rows=5, layout=_WIDE)
        self.gold = widgets.Text(value=question.answer or "", description="Right one", placeholder="not known")
        self.begin = widgets.Button(description="Begin", button_style="primary")
        self.query = widgets.Textarea(description="Query", layout=_WIDE)
        self.pages = widgets.Textarea(description="Pages", rows=10, layout=_WIDE)
        self.search = widgets.Button(description="Search", tooltip="Find pages for the query; the reader is not asked")
        self.run = widgets.Button(description="Run round", button_style="primary", tooltip="Show these pages")
        self.back = widgets.Button(description="Back", tooltip="Undo the last round")
        self.save = widgets.Button(description="Save trace", tooltip="Keep it in the run, for the inspector")
        self.told, self.shown = widgets.HTML(), widgets.HTML()
        for button, act in (
            (self.begin, self._begin),
            (self.search, self._search),
            (self.run, self._run),
            (self.back, self._back),
            (self.save, self._save),
        ):
            button.on_click(self._guarded(act))
        self._hand = widgets.VBox([self.query, self.pages, widgets.HBox([self.search, self.run, self.back, self.save])])
        self._hand.layout.display = "none"
        asked = widgets.VBox([self.system, self.text, self.options, self.gold, self.begin])
        super().__init__([asked, self._hand, self.told, self.shown])

    def _begin(self) -> str:
        question = typed_question(self.text.value, self.options.value, self.gold.value)
        self.stepper = Stepper(self.system.value, self._resources, question)
        self._hand.layout.display = ""
        return self._ready("Change query and pages as you like, then run the round.")

    def _search(self) -> str:
        self._found = self._stepper.found(self.query.value)
        self.pages.value = "\n".join(self._found)
        return f"{len(self._found)} pages found; one id a line, in the order in which the reader gets them."

    def _run(self) -> str:
        chosen = tuple(self.pages.value.split())
        query = self.query.value.strip() or self._stepper.query
        found = self._stepper.found(query)
        # Pages that nobody touched are those of the query as it now stands.
        pages = None if chosen in (found, self._found) else chosen
        done = self._stepper.step(query=query, pages=pages)
        if self._stepper.ended:
            said = f"answered {done.parsed.label}" if done.parsed.label else "ended without an answer"
            return self._ready(f"Round {done.number}: {said}. Go back to try other pages, or save the trace.")
        return self._ready(f"Round {done.number} asks again; its query and pages stand in the fields.")

    def _back(self) -> str:
        self._stepper.back()
        return self._ready("One round back.")

    def _save(self) -> str:
        path = self._stepper.save()
        place = path.relative_to(self._resources.workspace.root.parent)
        return f"Saved: {place}. Make the inspector anew to see it there."

    @property
    def _stepper(self) -> Stepper:
        if self.stepper is None:
            raise InputError("no question was begun", way_out="press Begin")
        return self.stepper

    def _ready(self, told: str) -> str:
        """Fields for the next round, and the rounds so far."""
        stepper = self._stepper
        self.query.value = stepper.query
        self._found = () if stepper.ended else stepper.found()
        self.pages.value = "\n".join(self._found)
        self.run.disabled = self.search.disabled = stepper.ended
        self.back.disabled = not stepper.rounds
        self.shown.value = self._traced() if stepper.rounds else ""
        return told

    def _traced(self) -> str:
        return TraceView(self._stepper.trace(), images=self._resources.store.picture).html

    def _guarded(self, act: Callable[[], str]) -> Callable[[Any], None]:
        def clicked(_: Any) -> None:
            try:
                said = act()
            except (MedvragError, OSError) as error:
                said = f"Not done: {error}"
            self.told.value = f"<p>{escape(said)}</p>"

        return clicked

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        """The live widget, and for pages without a kernel what it shows now."""
        bundle: dict[str, Any] = dict(super()._repr_mimebundle_(**kwargs) or {})
        still = f"<p>{escape(self.text.value)}</p><pre>{escape(self.options.value)}</pre>{self.shown.value}"
        return bundle | {"text/html": f'<div class="medvrag-explorer">{still}</div>'}


def typed_question(text: str, options: str, gold: str = "") -> Question:
    r"""A question out of what a person typed; its id follows from its words.

    Parameters
    ----------
    options : one a line, ``A: text``
    gold : label of the right one; empty where it is not known

    Raises
    ------
    InputError : there is no question, fewer than two options, a line without label, a label twice, or gold is none

    Examples
    --------
    >>> typed_question("Which dose?", "A: 100 mg\nB: 300 mg", "A").options
    {'A': '100 mg', 'B': '300 mg'}
    """
    made: dict[str, str] = {}
    for line in filter(None, map(str.strip, options.splitlines())):
        label, colon, said = (part.strip() for part in line.partition(":"))
        if not colon or not label or not said:
            raise InputError(f"options: '{line}' has no label", way_out="write one a line, such as A: 100 mg")
        if label in made:
            raise InputError(f"options: '{label}' stands twice", way_out="give each option its own label")
        made[label] = said
    if not text.strip() or len(made) < 2:
        raise InputError("a question needs a text and two options", way_out="fill in both fields")
    if gold.strip() and gold.strip() not in made:
        raise InputError(f"right one: there is no option '{gold.strip()}'", way_out=f"one of {', '.join(made)}")
    digest = hashlib.sha256("\n".join([text.strip(), *made, *made.values()]).encode()).hexdigest()[:8]
    return Question(id=f"typed-{digest}", question=text.strip(), options=made, answer=gold.strip() or None)


def options_text(question: Question) -> str:
    """Options as :func:`typed_question` reads them."""
    return "\n".join(f"{label}: {text}" for label, text in question.options.items())
