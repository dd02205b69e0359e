"""MedVRAG, the system that most control arms are settings of (see ``arms.yaml``)."""

from __future__ import annotations

import time
from contextlib import nullcontext

from medvrag_core.filter.mapreduce import MapReduceFilter
from medvrag_core.reasoning.source import EvidenceSource
from medvrag_core.reasoning.stages import Filter, Present, Read, Retrieve
from medvrag_core.records import EvidenceItem, SearchResult, StageTime, Summary
from medvrag_core.systems.base import Composed, System, register
from medvrag_core.systems.page_controls import page_control
from medvrag_core.systems.resources import Resources


class PageEvidence(EvidenceSource):
    """Pages of the corpus, searched by late interaction and read as images with their text."""

    def __init__(self, resources: Resources) -> None:
        self.resources = resources

    def search(self, query: str) -> SearchResult:
        """Encode the query and search the index; the step ``encode_query`` comes first."""
        resources = self.resources
        with resources.searching:
            start = time.perf_counter()
            vectors = resources.encoder.encode_query(query)
            encoded = StageTime(step="encode_query", seconds=time.perf_counter() - start)
            index = resources.index
        with nullcontext() if index.elsewhere else resources.searching:
            found = index.search(vectors, resources.profile.index.candidates)
        return SearchResult(hits=found.hits, times=(encoded, *found.times))

    def summary(self, evidence_id: str) -> Summary:
        """The stored page summary."""
        return self.resources.store.summaries[evidence_id]

    def evidence(self, evidence_id: str) -> EvidenceItem:
        """The page with its text and the path of its image."""
        page = self.resources.store.page(evidence_id)
        image = self.resources.store.image_path(evidence_id)
        return EvidenceItem(evidence_id=evidence_id, page_id=evidence_id, text=page.text, image=str(image))


@register("medvrag", "full MedVRAG: page images, up to three rounds, memory bank", takes_page_controls=True)
def compose(resources: Resources) -> System:
    """Page images, sharded filter, up to ``loop.max_rounds`` rounds, memory bank; arms differ by settings alone."""
    loop, source = resources.profile.loop, PageEvidence(resources)
    page_filter = MapReduceFilter(resources.ranker, resources.profile.filter)
    return Composed(
        loop,
        Retrieve(source),
        Filter(source, page_filter),
        Present(source, loop.pages_shown, loop.summaries_shown, page_control(resources, source, page_filter)),
        Read(resources.reader, loop),
    )
