"""The stages of MedRGAG between retrieval and reader: summarize, explore, write, show what was written, select."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import ClassVar, TypeVar

from medvrag_core.models.reply_text import neutral
from medvrag_core.reasoning.composition import RoundState, Stage
from medvrag_core.reasoning.exhibit import Exhibit
from medvrag_core.reasoning.knowledge.base import Explorer, Generator, Integrator, Summarizer
from medvrag_core.reasoning.replies import MAX_QUERY
from medvrag_core.reasoning.sameness import folded
from medvrag_core.reasoning.stages import without_options
from medvrag_core.records import EvidenceItem, Question, StageTime, Step, Summary
from medvrag_core.runs.side_by_side import side_by_side

REPEATED = "repeated"
"""Reason of a document that says the same as one before it."""
GAPS_ADDED = "gaps_in_query"
"""Flag of a round whose next query names what was missing in it."""

T = TypeVar("T")
Order = Callable[[Question, Sequence[EvidenceItem]], Sequence[EvidenceItem]]
"""From a question and its evidence to the same evidence in the order in which a reader gets it."""


def as_they_stand(question: Question, evidence: Sequence[EvidenceItem]) -> Sequence[EvidenceItem]:
    """What was found before what was written, each in its own order."""
    return evidence


def by_score(scores: Callable[[str, Sequence[EvidenceItem]], Sequence[float]]) -> Order:
    """Best first by the score of each item for the question; equal scores as they stand."""

    def order(question: Question, evidence: Sequence[EvidenceItem]) -> Sequence[EvidenceItem]:
        if len(evidence) < 2:
            return evidence
        of = scores(question.question, evidence)
        return [evidence[place] for place in sorted(range(len(evidence)), key=lambda place: -of[place])]

    return order


class Summarize(Stage):
    """What each document of the exhibit says about the question; those that say nothing useful are left out.

    A page that is shown as an image is told by its summary, and so are pages of which only the summary is shown. A
    summary that could not be read or was cut counts as nothing.

    Parameters
    ----------
    blind : the options are kept from the summarizer, for rounds whose next query must not know them
    """

    needs: ClassVar = ("question", "exhibit")
    makes: ClassVar = ("digest",)

    def __init__(self, summarizer: Summarizer, *, blind: bool = False) -> None:
        self.summarizer, self.blind = summarizer, blind

    def run(self, state: RoundState) -> RoundState:
        """See :class:`Stage`."""
        assert state.exhibit is not None
        start = time.perf_counter()
        question = without_options(state.question) if self.blind else state.question
        documents = (*in_words(state.exhibit), *summarized_only(state.exhibit))
        steps = _each(lambda one: self.summarizer.summarize(question, one), documents, self.summarizer.at_once)
        digest = tuple(Summary(page_id=s.about, text=s.text, method=s.made_by) for s in steps if not s.reason)
        return state.made(digest=digest, steps=steps, times=[_took("summarize", start)])


class Explore(Stage):
    """What is still missing; nothing, where the explorer could not be read.

    Parameters
    ----------
    most : missing points
    blind : as in :class:`Summarize`
    """

    needs: ClassVar = ("question", "digest")
    makes: ClassVar = ("gaps",)

    def __init__(self, explorer: Explorer, most: int, *, blind: bool = False) -> None:
        self.explorer, self.most, self.blind = explorer, most, blind

    def run(self, state: RoundState) -> RoundState:
        """See :class:`Stage`."""
        assert state.digest is not None
        start = time.perf_counter()
        question = without_options(state.question) if self.blind else state.question
        step = self.explorer.explore(question, state.digest, self.most)
        return state.made(gaps=step.names, steps=[step], times=[_took("explore", start)])


class Write(Stage):
    """A document for each missing point, and for the question as a whole until there are ``count``.

    A document that says the same as one before it, is empty or was cut is left out, and its step says why.
    """

    needs: ClassVar[tuple[str, ...]] = ("question", "number", "gaps")
    makes: ClassVar = ("written",)

    def __init__(self, generator: Generator, count: int) -> None:
        self.generator, self.count = generator, count

    def run(self, state: RoundState) -> RoundState:
        """See :class:`Stage`."""
        start = time.perf_counter()
        points = (state.gaps or ())[: self.count]
        padded = self.count - len(points)
        tasks = [*((point, 1, 1) for point in points), *(("", number + 1, padded) for number in range(padded))]
        steps = _each(lambda task: self.generator.generate(state.question, *task), tasks, self.generator.at_once)
        said: set[str] = set()
        for place, step in enumerate(steps):
            if not step.reason and folded(step.text) in said:
                steps[place] = step.model_copy(update={"reason": REPEATED})
            said.add(folded(step.text))
        texts = [(step.text, step.made_by) for step in steps if not step.reason]
        written = tuple(_document(state.number, n, text, by) for n, (text, by) in enumerate(texts, start=1))
        return state.made(written=written, steps=steps, times=[_took("generate", start)])


class WriteForQuestion(Write):
    """All documents for the question as a whole, whatever was found."""

    needs: ClassVar = ("question", "number")


class ShowWritten(Stage):
    """What was written joins what was found, behind it."""

    needs: ClassVar = ("exhibit", "written")
    makes: ClassVar = ("exhibit",)

    def run(self, state: RoundState) -> RoundState:
        """See :class:`Stage`."""
        assert state.exhibit is not None and state.written is not None
        evidence = (*state.exhibit.evidence, *state.written)
        return state.made(exhibit=state.exhibit.model_copy(update={"evidence": evidence}))


class Select(Stage):
    """The documents that cover what the question takes, in an order of their own; all, where none could be selected.

    A page is judged by its text, whatever the reader gets of it.

    Parameters
    ----------
    most : documents
    order : of those that are left
    blind : as in :class:`Summarize`
    """

    needs: ClassVar = ("question", "exhibit")
    makes: ClassVar = ("exhibit",)

    def __init__(self, integrator: Integrator, most: int, *, order: Order = as_they_stand, blind: bool = False) -> None:
        self.integrator, self.most, self.order, self.blind = integrator, most, order, blind

    def run(self, state: RoundState) -> RoundState:
        """See :class:`Stage`."""
        assert state.exhibit is not None
        if not state.exhibit.evidence:
            return state
        start = time.perf_counter()
        question = without_options(state.question) if self.blind else state.question
        step = self.integrator.select(question, state.exhibit.evidence, self.most)
        every = [item.evidence_id for item in state.exhibit.evidence]
        chosen = set(every if step.reason else step.names)
        kept = [item for item in state.exhibit.evidence if item.evidence_id in chosen]
        exhibit = state.exhibit.model_copy(update={"evidence": tuple(self.order(state.question, kept))})
        return state.made(exhibit=exhibit, steps=[step], times=[_took("select", start)])


class AskForGaps(Stage):
    """The missing points join the query of a round that goes on, so that the next search looks for them too.

    They come behind the reader's own words, as far as these do not say them already and the query stays within its
    longest length.
    """

    needs: ClassVar = ("gaps", "parsed")
    makes: ClassVar = ()
    may_make: ClassVar = ("parsed",)

    def run(self, state: RoundState) -> RoundState:
        """See :class:`Stage`."""
        assert state.gaps is not None and state.parsed is not None
        query = state.parsed.query_update
        if state.must_answer or state.parsed.label is not None or query is None:
            return state
        said, added = folded(query), ""
        for gap in state.gaps:
            if folded(gap) not in said and len(f"{query}{added}; {gap}") <= MAX_QUERY:
                added += f"; {gap}"
        if not added:
            return state
        parsed = state.parsed.model_copy(update={"query_update": neutral(query + added)})
        return state.made(parsed=parsed, flags=[GAPS_ADDED])


def in_words(exhibit: Exhibit) -> tuple[EvidenceItem, ...]:
    """The evidence as text alone: a page image by its summary, where there is one, else by the text of the page."""
    told = {summary.page_id: summary.text for summary in exhibit.summaries}
    return tuple(
        item.model_copy(update={"text": told.get(item.page_id) or item.text, "image": ""}) if item.image else item
        for item in exhibit.evidence
    )


def summarized_only(exhibit: Exhibit) -> tuple[EvidenceItem, ...]:
    """Pages of which a reader gets the summary alone."""
    shown = {item.page_id for item in exhibit.evidence}
    return tuple(
        EvidenceItem(evidence_id=summary.page_id, page_id=summary.page_id, text=summary.text)
        for summary in exhibit.summaries
        if summary.page_id not in shown
    )


def _document(round_number: int, number: int, text: str, by: str) -> EvidenceItem:
    # Named by its round, so that a finding that cites it later does not seem to speak of another one.
    name = f"written-{round_number}-{number}"
    return EvidenceItem(evidence_id=name, page_id=name, text=text, written_by=by)


def _each(work: Callable[[T], Step], items: Sequence[T], at_once: int) -> list[Step]:
    if at_once == 1 or len(items) < 2:
        return [work(item) for item in items]
    done = dict(side_by_side(work, items, at_once=at_once))
    return [done[place] for place in range(len(items))]


def _took(kind: str, start: float) -> StageTime:
    return StageTime(step=kind, seconds=time.perf_counter() - start)
