"""What a system retrieves from, and stages 1 and 2 for one query."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod

from medvrag_core.filter.base import Candidate, PageFilter
from medvrag_core.records import EvidenceItem, FilterDecision, SearchResult, StageTime, Summary


class EvidenceSource(ABC):
    """Pages as images, or chunks of text."""

    @abstractmethod
    def search(self, query: str) -> SearchResult:
        """Stage 1: ranked evidence ids, N1 of them at most."""

    @abstractmethod
    def summary(self, evidence_id: str) -> Summary:
        """The text that stands for one item in Stage 2."""

    @abstractmethod
    def evidence(self, evidence_id: str) -> EvidenceItem:
        """One item as the reader gets it."""


class NoSource(EvidenceSource):
    """Holds nothing, for systems that answer from what the reader knows."""

    def search(self, query: str) -> SearchResult:
        """Nothing."""
        return SearchResult(hits=())

    def summary(self, evidence_id: str) -> Summary:
        """Never asked for; KeyError."""
        raise KeyError(evidence_id)

    def evidence(self, evidence_id: str) -> EvidenceItem:
        """Never asked for; KeyError."""
        raise KeyError(evidence_id)


def retrieve(
    source: EvidenceSource, page_filter: PageFilter, query: str
) -> tuple[SearchResult, FilterDecision, list[StageTime]]:
    """Stages 1 and 2 for one query, with the seconds of every step."""
    found = source.search(query)
    decision, filtering = narrowed(source, page_filter, query, found)
    return found, decision, [*found.times, filtering]


def narrowed(
    source: EvidenceSource, page_filter: PageFilter, query: str, found: SearchResult
) -> tuple[FilterDecision, StageTime]:
    """Stage 2 for what was found."""
    clock = time.perf_counter()
    candidates = [
        Candidate(page_id=h.page_id, summary=source.summary(h.page_id).text, rank=h.rank, score=h.score)
        for h in found.hits
    ]
    decision = page_filter.select(query, candidates)
    return decision, StageTime(step="filter", seconds=time.perf_counter() - clock)
