"""The loop of paper Algorithm 1: retrieve, filter, read, until answered or out of rounds."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod

from medvrag_core.errors import ModelError
from medvrag_core.filter.base import Candidate, PageFilter
from medvrag_core.reasoning.memory import remember
from medvrag_core.reasoning.reader import Reader
from medvrag_core.reasoning.replies import parse_reply
from medvrag_core.records import (
    EvidenceItem,
    MemoryBank,
    ParsedReply,
    Question,
    ReaderInput,
    Round,
    SearchResult,
    StageTime,
    Summary,
)
from medvrag_core.settings import LoopSettings


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
    """A reader gave no reply; ``rounds`` holds what was finished before."""

    def __init__(self, cause: ModelError, rounds: tuple[Round, ...]) -> None:
        super().__init__(cause.problem, way_out="run again: finished questions are kept, this one is asked anew")
        self.rounds = rounds


def run_rounds(
    question: Question, source: EvidenceSource, page_filter: PageFilter, reader: Reader, settings: LoopSettings
) -> tuple[Round, ...]:
    """Answer one question in at most ``settings.max_rounds`` rounds.

    Round 1 searches with the question alone, never with its options (MIRAGE's rule). A round that
    neither answers nor asks ends the loop, since asking the same thing again would be a re-roll.
    The last round must answer; a query it asks for instead is not followed.

    Raises
    ------
    RoundError
        The reader failed; carries the finished rounds.
    """
    rounds: list[Round] = []
    bank, query, asked = MemoryBank(), question.question, [question.question]
    for number in range(1, settings.max_rounds + 1):
        last = number == settings.max_rounds
        shown_bank = bank if settings.memory else MemoryBank()
        try:
            done = _one_round(question, number, last, query, shown_bank, source, page_filter, reader, settings)
        except ModelError as error:
            raise RoundError(error, tuple(rounds)) from error
        wanted = done.parsed.query_update
        flags = list(done.flags)
        if wanted is not None and any(_same_query(wanted, old) for old in asked):
            flags.append("query_stalled")
        rounds.append(done.model_copy(update={"flags": tuple(flags)}))
        if done.parsed.label is not None or wanted is None or last:
            break
        bank = remember(bank, number, done.parsed.findings, done.parsed.notes)
        asked.append(wanted)
        query = wanted
    return tuple(rounds)


def _one_round(
    question: Question,
    number: int,
    must_answer: bool,
    query: str,
    bank: MemoryBank,
    source: EvidenceSource,
    page_filter: PageFilter,
    reader: Reader,
    settings: LoopSettings,
) -> Round:
    result = source.search(query)
    clock = time.perf_counter()
    candidates = [
        Candidate(page_id=h.page_id, summary=source.summary(h.page_id).text, rank=h.rank, score=h.score)
        for h in result.hits
    ]
    decision = page_filter.select(query, candidates)
    filtered = time.perf_counter()
    shown = decision.kept[: settings.pages_shown]
    summaries = tuple(source.summary(i) for i in decision.kept[: settings.summaries_shown])
    reply = reader.read(
        ReaderInput(
            question=question,
            round=number,
            must_answer=must_answer,
            evidence=tuple(source.evidence(i) for i in shown),
            summaries=summaries,
            bank=bank,
            query=query,
        )
    )
    times = (
        *result.times,
        StageTime(step="filter", seconds=filtered - clock),
        StageTime(step="read", seconds=time.perf_counter() - filtered),
    )
    return Round(
        number=number,
        query=query,
        stage1=result.hits,
        filter=decision,
        shown=shown,
        summaries_shown=tuple(s.page_id for s in summaries),
        bank_before=bank,
        reply=reply,
        parsed=parse_reply(reply.text, question.options, must_answer=must_answer),
        times=times,
        flags=(*reply.flags, *(("filter_fallback",) if any(call.fallback for call in decision.calls) else ())),
    )


def verdict(rounds: tuple[Round, ...]) -> ParsedReply:
    """What the last round says; a query in place of a demanded answer is no answer."""
    return rounds[-1].parsed


def _same_query(one: str, other: str) -> bool:
    return " ".join(one.casefold().split()) == " ".join(other.casefold().split())
