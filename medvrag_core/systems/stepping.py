"""One question in one system, a round at a time, with a person's hand between the rounds."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from medvrag_core.errors import InputError
from medvrag_core.reasoning.composition import Pipeline, RoundState, Stage
from medvrag_core.reasoning.exhibit import Exhibit, Show
from medvrag_core.reasoning.loop import Progress, next_round
from medvrag_core.reasoning.source import EvidenceSource
from medvrag_core.reasoning.stages import Present
from medvrag_core.records import Question, Round, Trace
from medvrag_core.runs.publish import write_text
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.answering import conclusion, trace_path
from medvrag_core.systems.base import Composed, find_system
from medvrag_core.systems.resources import Resources

QUERY_BY_HAND, PAGES_BY_HAND = "query_by_hand", "pages_by_hand"
UNFINISHED = "left before its last round"


class Stepper:
    """Runs the rounds of :func:`~medvrag_core.reasoning.loop.run_rounds` one by one; without a hand it gives the same.

    What was changed by hand is flagged in the round. A trace of such rounds is named after the system with ``_by_hand``
    and has no fingerprint, so it is never taken for an answer of the system.

    Parameters
    ----------
    name : system or arm
    resources : opened run
    question : asked, with or without a gold answer

    Raises
    ------
    InputError : there is no such system, or it is not composed of stages that run in rounds
    """

    def __init__(self, name: str, resources: Resources, question: Question) -> None:
        system = find_system(name).compose(resources)
        if not isinstance(system, Composed):
            raise InputError(f"system '{name}' does not run in rounds", way_out="step through medvrag, or an arm of it")
        self.name, self.question = name, question
        self._system, self._resources = system, resources
        self._before: list[tuple[Progress, float]] = []
        self._progress, self._seconds = Progress(question, query=question.question), 0.0

    @property
    def rounds(self) -> tuple[Round, ...]:
        """The rounds so far."""
        return self._progress.rounds

    @property
    def query(self) -> str:
        """What the next round searches with, if nobody changes it."""
        return self._progress.query

    @property
    def ended(self) -> bool:
        """Whether the question was answered, or has no round left."""
        return self._progress.ended

    def found(self, query: str = "") -> tuple[str, ...]:
        """Pages that the next round would show for a query (empty: its own), without asking the reader."""
        progress, most = self._progress, self._system.loop.max_rounds
        number = len(progress.rounds) + 1
        state = RoundState(
            question=self.question,
            number=number,
            must_answer=number >= most,
            query=query.strip() or progress.query,
            bank=progress.bank,
        )
        for stage in self._system.pipeline.stages:
            state = stage.run(state)
            if state.exhibit is not None:
                return tuple(item.evidence_id for item in state.exhibit.evidence)
        return ()

    def step(self, *, query: str = "", pages: Sequence[str] | None = None) -> Round:
        """Run the next round.

        Parameters
        ----------
        query : searched with in the place of the one that is due; empty: that one
        pages : ids of what the reader is shown, in this order, in the place of what was found; None: that

        Raises
        ------
        InputError : the question has ended, a page is not in the corpus, or the system shows no pages
        RoundError : a model failed; the rounds before stay
        """
        if self.ended:
            raise InputError(f"question '{self.question.id}' has ended", way_out="go a round back first")
        typed = query.strip()
        begun = self._progress
        if typed and typed != begun.query:
            begun = replace(begun, query=typed)
        pipeline = self._system.pipeline
        if pages is not None:
            pipeline = Pipeline(*_showing(pipeline.stages, tuple(pages), self.name))
        clock = time.perf_counter()
        after = next_round(begun, pipeline, self._system.loop)
        if begun.query != self._progress.query:
            *earlier, last = after.rounds
            flagged = last.model_copy(update={"flags": (QUERY_BY_HAND, *last.flags)})
            after = replace(after, rounds=(*earlier, flagged))
        self._before.append((self._progress, self._seconds))
        self._progress, self._seconds = after, self._seconds + time.perf_counter() - clock
        return after.rounds[-1]

    def back(self) -> None:
        """Undo the last round; nothing happens before the first."""
        if self._before:
            self._progress, self._seconds = self._before.pop()

    def trace(self) -> Trace:
        """The rounds so far as a trace; one that has not ended is ``unparsed`` and says so."""
        outcome, label, reason = conclusion(self.rounds, "") if self.ended else ("unparsed", None, UNFINISHED)
        return Trace(
            system=f"{self.name}_by_hand",
            profile=self._resources.profile.name,
            fingerprint="",
            question=self.question,
            rounds=self.rounds,
            outcome=outcome,
            label=label,
            reason=reason,
            correct=None if self.question.answer is None else label == self.question.answer,
            seconds=self._seconds,
        )

    def save(self) -> Path:
        """Keep the trace in the folder ``explored`` of the run, where no report looks; its path.

        A trace of the same question and system that was saved before gives way.
        """
        trace = self.trace()
        path = trace_path(explored(self._resources.workspace), trace.system, self.question.id)
        write_text(path, trace.to_json())
        return path


def explored(workspace: Workspace) -> Workspace:
    """Where traces by hand are kept, as in a run of their own."""
    return Workspace(workspace.root / "explored")


def _showing(stages: Sequence[Stage], pages: tuple[str, ...], name: str) -> list[Stage]:
    """The stages with chosen pages in the place of what they would show."""
    made = [
        Present(stage.source, stage.pages, stage.summaries, _chosen(stage.source, pages))
        if isinstance(stage, Present)
        else stage
        for stage in stages
    ]
    if not any(isinstance(stage, Present) for stage in stages):
        raise InputError(f"system '{name}' has no pages to choose", way_out="step through medvrag, or an arm of it")
    return made


def _chosen(source: EvidenceSource, pages: tuple[str, ...]) -> Show:
    try:
        evidence = tuple(map(source.evidence, pages))
    except KeyError as error:
        raise InputError(f"there is no {error} to show", way_out="take ids that were found") from None

    def show(question: Question, number: int, exhibit: Exhibit) -> Exhibit:
        return exhibit.model_copy(update={"evidence": evidence, "flags": (*exhibit.flags, PAGES_BY_HAND)})

    return show
