"""The backbone alone: the reader sees the question and nothing else (paper Table 1, first controlled row)."""

from __future__ import annotations

from medvrag_core.filter.mapreduce import MapReduceFilter
from medvrag_core.reasoning.loop import EvidenceSource, run_rounds
from medvrag_core.records import EvidenceItem, Question, Round, SearchResult, Summary
from medvrag_core.systems.base import System, register
from medvrag_core.systems.resources import Resources


class _Nothing(EvidenceSource):
    """A source that holds nothing."""

    def search(self, query: str) -> SearchResult:
        return SearchResult(hits=())

    def summary(self, evidence_id: str) -> Summary:
        raise KeyError(evidence_id)

    def evidence(self, evidence_id: str) -> EvidenceItem:
        raise KeyError(evidence_id)


class NoRag(System):
    """One forced answer without evidence."""

    def __init__(self, resources: Resources) -> None:
        self.reader = resources.reader
        self.filter = MapReduceFilter(resources.ranker, resources.profile.filter)
        self.loop = resources.profile.loop.model_copy(update={"max_rounds": 1})

    def answer(self, question: Question) -> tuple[Round, ...]:
        """See :class:`System`."""
        return run_rounds(question, _Nothing(), self.filter, self.reader, self.loop)


@register("no_rag", "backbone only, no retrieval")
def compose(resources: Resources) -> System:
    """Compose the system."""
    return NoRag(resources)
