"""The loop of paper Algorithm 1: retrieve, filter, read, until answered or out of rounds."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from medvrag_core.errors import ModelError
from medvrag_core.filter.base import Candidate, PageFilter
from medvrag_core.models.outcomes import CallError, failure_kind
from medvrag_core.reasoning.exhibit import Exhibit, Show, as_found
from medvrag_core.reasoning.memory import MAX_FINDINGS, new_findings, remember
from medvrag_core.reasoning.prompts import history_text
from medvrag_core.reasoning.reader import Reader, ended_by_model
from medvrag_core.reasoning.replies import parse_reply
from medvrag_core.reasoning.sameness import folded, names_other_pages
from medvrag_core.records import (
    EvidenceItem,
    FilterDecision,
    MemoryBank,
    ParsedReply,
    Question,
    ReaderInput,
    ReaderReply,
    Round,
    SearchResult,
    StageTime,
    Summary,
)
from medvrag_core.settings import LoopSettings

ENDED_BY_MODEL = ("truncated", "refused", "empty")
"""Ways in which a model ends a call without a reply; each is the ``reason`` of the round it ends."""


class EvidenceSource(ABC):
    """What a loop retrieves from: pages as images, or chunks of text."""

    @abstractmethod
    def search(self, query: str) -> SearchResult:
        """Stage 1: ranked evidence ids, N1 of them at most."""

    @abstractmethod
    def summary(self, evidence_id: str) -> Summary:
        """The text that stands for one item in Stage 2."""

    @abstractmethod
    def evidence(self, evidence_id: str) -> EvidenceItem:
        """One item as the reader gets it."""


class RoundError(ModelError):
    """A round could not be finished.

    Attributes
    ----------
    rounds : what was finished before
    kind : how the call failed, see :func:`~medvrag_core.models.outcomes.failure_kind`
    """

    def __init__(self, cause: ModelError, rounds: tuple[Round, ...]) -> None:
        again = "run again: finished questions are kept, this one is asked anew"
        super().__init__(cause.problem, way_out=cause.way_out or again)
        self.rounds = rounds
        self.kind = failure_kind(cause)


def run_rounds(
    question: Question,
    source: EvidenceSource,
    page_filter: PageFilter,
    reader: Reader,
    settings: LoopSettings,
    show: Show = as_found,
) -> tuple[Round, ...]:
    """Answer one question in at most ``settings.max_rounds`` rounds.

    Round 1 searches with the question alone, never with its options (MIRAGE's rule). A round that
    neither answers nor asks ends the loop, since asking the same thing again would be a re-roll; so does a
    reply that the model cut short, refused or left empty. The last round must answer; a query it asks for instead
    is not followed. A round before ``settings.min_rounds`` must ask: where the reader does not, a call of its own
    writes query and notes without the options. ``show`` may change what the reader gets of the pages found.

    Flags of a round: those of its replies and of ``show``; ``filter_fallback`` (a filter call gave no ranking);
    ``query_stalled`` (it asks for a query that was asked before); ``same_pages`` (it showed exactly the
    pages of the round before); ``foreign_page_id`` (a new finding names a page that was not shown in the round);
    ``bank_full`` (findings were left out of the bank).

    Raises
    ------
    RoundError
        A model failed; carries the finished rounds.
    RunStopped
        The run cannot go on, or was asked to stop.
    """
    machine = _Machine(source, page_filter, reader, settings, show)
    rounds: list[Round] = []
    bank, query, asked = MemoryBank(), question.question, {folded(question.question)}
    for number in range(1, settings.max_rounds + 1):
        shown_bank = bank if settings.memory == "bank" else MemoryBank()
        # The bank that is not shown still says how long the history may be.
        history = history_text(rounds, bank) if settings.memory == "history" else ""
        try:
            done = machine.run(question, number, query, shown_bank, history)
        except ModelError as error:
            raise RoundError(error, tuple(rounds)) from error
        wanted, flags = done.parsed.query_update, list(done.flags)
        if rounds and set(done.shown) == set(rounds[-1].shown):
            flags.append("same_pages")
        if wanted is not None and folded(wanted) in asked:
            flags.append("query_stalled")
        goes_on = done.parsed.label is None and wanted is not None and number < settings.max_rounds
        if goes_on and len(bank.key_findings) + len(new_findings(bank, done.parsed.findings)) > MAX_FINDINGS:
            flags.append("bank_full")
        rounds.append(done.model_copy(update={"flags": tuple(dict.fromkeys(flags))}))
        if not goes_on or wanted is None:
            break
        bank = remember(bank, number, done.parsed.findings, done.parsed.notes)
        asked.add(folded(wanted))
        query = wanted
    return tuple(rounds)


def verdict(rounds: tuple[Round, ...]) -> ParsedReply:
    """What the last round says; a query in place of a demanded answer is no answer."""
    return rounds[-1].parsed


def retrieve(
    source: EvidenceSource, page_filter: PageFilter, query: str
) -> tuple[SearchResult, FilterDecision, list[StageTime]]:
    """Stages 1 and 2 for one query, with the seconds of every step."""
    found = source.search(query)
    clock = time.perf_counter()
    candidates = [
        Candidate(page_id=h.page_id, summary=source.summary(h.page_id).text, rank=h.rank, score=h.score)
        for h in found.hits
    ]
    decision = page_filter.select(query, candidates)
    return found, decision, [*found.times, StageTime(step="filter", seconds=time.perf_counter() - clock)]


@dataclass(frozen=True)
class _Machine:
    """What all rounds of a question run on."""

    source: EvidenceSource
    page_filter: PageFilter
    reader: Reader
    settings: LoopSettings
    show: Show

    def run(self, question: Question, number: int, query: str, bank: MemoryBank, history: str) -> Round:
        found, decision, times = retrieve(self.source, self.page_filter, query)
        exhibit = self.show(
            question,
            number,
            Exhibit(
                evidence=tuple(map(self.source.evidence, decision.kept[: self.settings.pages_shown])),
                summaries=tuple(map(self.source.summary, decision.kept[: self.settings.summaries_shown])),
            ),
        )
        given = ReaderInput(
            question=question,
            round=number,
            must_answer=number == self.settings.max_rounds,
            evidence=exhibit.evidence,
            summaries=exhibit.summaries,
            bank=bank,
            query=query,
            history=history,
        )
        blind = self.settings.refinement == "option_blind"
        reply = _timed(
            "read", self.reader.decide if blind and not given.must_answer else self.reader.read, given, times
        )
        parsed = _parsed(reply, given)
        given = _as_seen(given, reply)
        refinement = None
        if self._needs_refinement(parsed, given):
            sightless = _without_options(given)
            refinement = _timed("refine", self.reader.refine, sightless, times)
            parsed = _parsed(refinement, sightless)
        elif blind and parsed.label is None:
            # What the answering call wrote beside its verdict was written with the options in sight.
            parsed = ParsedReply(reason=parsed.reason)
        flags = [*exhibit.flags, *reply.flags, *(refinement.flags if refinement else ())]
        if any(call.fallback for call in decision.calls):
            flags.append("filter_fallback")
        if _foreign(new_findings(bank, parsed.findings), given):
            flags.append("foreign_page_id")
        return Round(
            number=number,
            query=query,
            stage1=found.hits,
            filter=decision,
            shown=tuple(item.evidence_id for item in given.evidence),
            summaries_shown=tuple(s.page_id for s in given.summaries),
            bank_before=bank,
            history=history,
            reply=reply,
            parsed=parsed,
            refinement=refinement,
            times=tuple(times),
            flags=tuple(flags),
        )

    def _needs_refinement(self, parsed: ParsedReply, given: ReaderInput) -> bool:
        if given.must_answer or parsed.reason in ENDED_BY_MODEL:
            return False
        if parsed.query_update is None:
            return given.round < self.settings.min_rounds
        return self.settings.refinement == "option_blind"


def _timed(
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


def _parsed(reply: ReaderReply, given: ReaderInput) -> ParsedReply:
    if reply.finish_reason in ENDED_BY_MODEL:
        return ParsedReply(reason=reply.finish_reason)
    return parse_reply(reply.text, given.question.options, must_answer=given.must_answer)


def _as_seen(given: ReaderInput, reply: ReaderReply) -> ReaderInput:
    """The round with only the pages that a reader of images says it got; other readers got all."""
    if not reply.seen:
        return given
    seen = {page.page_id for page in reply.seen}
    kept = tuple(item for item in given.evidence if not item.image or item.page_id in seen)
    return given.model_copy(update={"evidence": kept})


def _without_options(given: ReaderInput) -> ReaderInput:
    question = given.question.model_copy(update={"options": {}, "answer": None, "gold_pages": ()})
    return given.model_copy(update={"question": question})


def _foreign(findings: Iterable[str], given: ReaderInput) -> bool:
    known = {name for item in given.evidence for name in (item.page_id, item.evidence_id)}
    known |= {summary.page_id for summary in given.summaries}
    return any(names_other_pages(finding, known) for finding in findings)
