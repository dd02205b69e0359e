"""The stages that most systems are made of: retrieve, narrow down, show, read (paper sections 3.2 to 3.5)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ClassVar

from medvrag_core.filter.base import PageFilter
from medvrag_core.models.outcomes import CallError
from medvrag_core.reasoning.composition import RoundState, Stage
from medvrag_core.reasoning.exhibit import Exhibit, Show, as_found
from medvrag_core.reasoning.memory import new_findings
from medvrag_core.reasoning.reader import Reader, ended_by_model
from medvrag_core.reasoning.replies import parse_reply
from medvrag_core.reasoning.sameness import names_other_pages
from medvrag_core.reasoning.source import EvidenceSource, narrowed
from medvrag_core.records import FilterDecision, ParsedReply, Question, ReaderInput, ReaderReply, StageTime
from medvrag_core.settings import LoopSettings

ENDED_BY_MODEL = ("truncated", "refused", "empty")
"""Ways in which a model ends a call without a reply; each is the ``reason`` of the round it ends."""


class Retrieve(Stage):
    """Stage 1 for the query of the round."""

    needs: ClassVar = ("query",)
    makes: ClassVar = ("found",)

    def __init__(self, source: EvidenceSource) -> None:
        self.source = source

    def run(self, state: RoundState) -> RoundState:
        """See :class:`Stage`."""
        found = self.source.search(state.query)
        return state.made(found=found, times=found.times)


class Filter(Stage):
    """Stage 2: sharded map and reduce over summaries."""

    needs: ClassVar = ("query", "found")
    makes: ClassVar = ("decision",)

    def __init__(self, source: EvidenceSource, page_filter: PageFilter) -> None:
        self.source, self.page_filter = source, page_filter

    def run(self, state: RoundState) -> RoundState:
        """See :class:`Stage`."""
        assert state.found is not None
        decision, took = narrowed(self.source, self.page_filter, state.query, state.found)
        fallback = any(call.fallback for call in decision.calls)
        return state.made(decision=decision, times=[took], flags=["filter_fallback"] * fallback)


class KeepBest(Stage):
    """The first ``count`` of stage 1, for systems without a filter."""

    needs: ClassVar = ("found",)
    makes: ClassVar = ("decision",)

    def __init__(self, count: int) -> None:
        self.count = count

    def run(self, state: RoundState) -> RoundState:
        """See :class:`Stage`."""
        assert state.found is not None
        return state.made(decision=FilterDecision(kept=tuple(h.page_id for h in state.found.hits[: self.count])))


class Present(Stage):
    """Pages or chunks that the reader gets, with summaries of more; ``show`` may change what was found.

    Parameters
    ----------
    pages, summaries : how many of the best that are left
    """

    needs: ClassVar = ("question", "number", "decision")
    makes: ClassVar = ("exhibit",)

    def __init__(self, source: EvidenceSource, pages: int, summaries: int = 0, show: Show = as_found) -> None:
        self.source, self.pages, self.summaries, self.show = source, pages, summaries, show

    def run(self, state: RoundState) -> RoundState:
        """See :class:`Stage`."""
        assert state.decision is not None
        kept = state.decision.kept
        exhibit = self.show(
            state.question,
            state.number,
            Exhibit(
                evidence=tuple(map(self.source.evidence, kept[: self.pages])),
                summaries=tuple(map(self.source.summary, kept[: self.summaries])),
            ),
        )
        return state.made(exhibit=exhibit, flags=exhibit.flags)


class Read(Stage):
    """The reader answers, or asks for another search.

    In the option-blind arm, and where a round must ask and did not, a call of its own writes query and notes.

    Parameters
    ----------
    settings : ``refinement`` and ``min_rounds``
    """

    needs: ClassVar = ("question", "number", "must_answer", "query", "bank", "history", "exhibit")
    makes: ClassVar = ("given", "reply", "parsed")
    may_make: ClassVar = ("refinement",)

    def __init__(self, reader: Reader, settings: LoopSettings) -> None:
        self.reader, self.settings = reader, settings

    def run(self, state: RoundState) -> RoundState:
        """See :class:`Stage`."""
        given = reader_input(state)
        blind = self.settings.refinement == "option_blind"
        times: list[StageTime] = []
        reply = timed("read", self.reader.decide if blind and not given.must_answer else self.reader.read, given, times)
        parsed = parsed_reply(reply, given)
        given = as_seen(given, reply)
        refinement = None
        if self._needs_refinement(parsed, given):
            sightless = given.model_copy(update={"question": without_options(given.question)})
            refinement = timed("refine", self.reader.refine, sightless, times)
            parsed = parsed_reply(refinement, sightless)
        elif blind and parsed.label is None:
            # What the answering call wrote beside its verdict was written with the options in sight.
            parsed = ParsedReply(reason=parsed.reason)
        flags = [*reply.flags, *(refinement.flags if refinement else ())]
        if names_foreign_pages(parsed, given):
            flags.append("foreign_page_id")
        return state.made(given=given, reply=reply, parsed=parsed, refinement=refinement, times=times, flags=flags)

    def _needs_refinement(self, parsed: ParsedReply, given: ReaderInput) -> bool:
        if given.must_answer or parsed.reason in ENDED_BY_MODEL:
            return False
        if parsed.query_update is None:
            return given.round < self.settings.min_rounds
        return self.settings.refinement == "option_blind"


class PresentNothing(Stage):
    """The reader gets the question alone."""

    needs: ClassVar = ()
    makes: ClassVar = ("exhibit",)

    def run(self, state: RoundState) -> RoundState:
        """See :class:`Stage`."""
        return state.made(exhibit=Exhibit(evidence=(), summaries=()))


def reader_input(state: RoundState) -> ReaderInput:
    """The round as a reader gets it."""
    assert state.exhibit is not None
    return ReaderInput(
        question=state.question,
        round=state.number,
        must_answer=state.must_answer,
        evidence=state.exhibit.evidence,
        summaries=state.exhibit.summaries,
        bank=state.bank,
        query=state.query,
        history=state.history,
    )


def timed(
    step: str, call: Callable[[ReaderInput], ReaderReply], given: ReaderInput, times: list[StageTime]
) -> ReaderReply:
    """A reply, also where the model itself ended the call without one; its seconds join ``times``."""
    clock = time.perf_counter()
    try:
        reply = call(given)
    except CallError as error:
        reply = ended_by_model(error)
    times.append(StageTime(step=step, seconds=time.perf_counter() - clock))
    return reply


def parsed_reply(reply: ReaderReply, given: ReaderInput) -> ParsedReply:
    """How a reply reads, also where the model ended the call without one."""
    if reply.finish_reason in ENDED_BY_MODEL:
        return ParsedReply(reason=reply.finish_reason)
    return parse_reply(reply.text, given.question.options, must_answer=given.must_answer)


def as_seen(given: ReaderInput, reply: ReaderReply) -> ReaderInput:
    """The round with only what a reader says it got, as images or as text; a reader that does not say got all."""
    if not reply.seen:
        return given
    if any(page.width for page in reply.seen):
        seen = {page.page_id for page in reply.seen}
        kept = tuple(item for item in given.evidence if not item.image or item.page_id in seen)
    else:
        # Sent as text, the best first. Chunks of one page have its id in common, so their number tells which.
        kept = given.evidence[: len(reply.seen)]
    return given.model_copy(update={"evidence": kept})


def without_options(question: Question) -> Question:
    """The question for a call that must not see its options, nor what tells the right one."""
    return question.model_copy(update={"options": {}, "answer": None, "gold_pages": ()})


def names_foreign_pages(parsed: ParsedReply, given: ReaderInput) -> bool:
    """Whether a new finding names a page that was not shown in the round."""
    known = {name for item in given.evidence for name in (item.page_id, item.evidence_id, *item.stands_for)}
    known |= {summary.page_id for summary in given.summaries}
    return any(names_other_pages(finding, known) for finding in new_findings(given.bank, parsed.findings))
