"""MedVRAG, the two rows of paper Table 1 that switch one of its parts off, and the option-blind arm."""

from __future__ import annotations

import time

from medvrag_core.filter.mapreduce import MapReduceFilter
from medvrag_core.reasoning.loop import EvidenceSource, run_rounds
from medvrag_core.records import EvidenceItem, Question, Round, SearchResult, StageTime, Summary
from medvrag_core.settings import LoopSettings
from medvrag_core.systems.base import System, register
from medvrag_core.systems.resources import Resources


class PageEvidence(EvidenceSource):
    """Pages of the corpus, searched by late interaction and read as images with their text."""

    def __init__(self, resources: Resources) -> None:
        self.resources = resources

    def search(self, query: str) -> SearchResult:
        """Encode the query and search the index; the step ``encode_query`` comes first."""
        with self.resources.searching:
            start = time.perf_counter()
            vectors = self.resources.encoder.encode_query(query)
            encoded = StageTime(step="encode_query", seconds=time.perf_counter() - start)
            found = self.resources.index.search(vectors, self.resources.profile.index.candidates)
        return SearchResult(hits=found.hits, times=(encoded, *found.times))

    def summary(self, evidence_id: str) -> Summary:
        """The stored page summary."""
        return self.resources.store.summaries[evidence_id]

    def evidence(self, evidence_id: str) -> EvidenceItem:
        """The page with its text and the path of its image."""
        page = self.resources.store.page(evidence_id)
        image = self.resources.store.image_path(evidence_id)
        return EvidenceItem(evidence_id=evidence_id, page_id=evidence_id, text=page.text, image=str(image))


class MedVrag(System):
    """Page images, sharded filter, up to ``loop.max_rounds`` rounds, memory bank."""

    def __init__(self, resources: Resources, loop: LoopSettings) -> None:
        self.source = PageEvidence(resources)
        self.filter = MapReduceFilter(resources.ranker, resources.profile.filter)
        self.reader = resources.reader
        self.loop = loop

    def answer(self, question: Question) -> tuple[Round, ...]:
        """See :class:`System`."""
        return run_rounds(question, self.source, self.filter, self.reader, self.loop)


@register("medvrag", "full MedVRAG: page images, up to three rounds, memory bank")
def compose_full(resources: Resources) -> System:
    """Compose the full system."""
    return MedVrag(resources, resources.profile.loop)


@register("page_single", "page images, single round")
def compose_single(resources: Resources) -> System:
    """Compose the single-round row: the loop is cut to one round, which must answer."""
    return MedVrag(resources, resources.profile.loop.model_copy(update={"max_rounds": 1}))


@register("iterative_no_memory", "page images, up to three rounds, an empty bank in every round")
def compose_without_memory(resources: Resources) -> System:
    """Compose the identical loop without memory."""
    return MedVrag(resources, resources.profile.loop.model_copy(update={"memory": False}))


@register("medvrag_option_blind", "full MedVRAG, queries written without seeing the options")
def compose_option_blind(resources: Resources) -> System:
    """Compose the full system with queries and notes that owe nothing to the options."""
    return MedVrag(resources, resources.profile.loop.model_copy(update={"refinement": "option_blind"}))
