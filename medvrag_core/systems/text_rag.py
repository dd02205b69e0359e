"""Text-chunk retrieval, single round (paper Table 1, second controlled row); the text arms differ by settings alone."""

from __future__ import annotations

from medvrag_core.filter.mapreduce import MapReduceFilter
from medvrag_core.index.text_factory import text_fingerprint
from medvrag_core.reasoning.source import EvidenceSource
from medvrag_core.reasoning.stages import Filter, Present, Read, Retrieve
from medvrag_core.records import EvidenceItem, SearchResult, Summary
from medvrag_core.settings import LoopSettings, Profile
from medvrag_core.systems.base import Composed, System, register
from medvrag_core.systems.resources import Resources


class ChunkEvidence(EvidenceSource):
    """Chunks of page text; the filter reads the chunk itself, since it is as short as a summary allows."""

    def __init__(self, resources: Resources) -> None:
        self.resources = resources

    def search(self, query: str) -> SearchResult:
        """Best chunks; the search is opened, and its vectors are made, for the first query."""
        with self.resources.searching:
            return self.resources.text_search.search(query, self.resources.profile.index.candidates)

    def summary(self, evidence_id: str) -> Summary:
        """The chunk's own text."""
        return Summary(page_id=evidence_id, text=self.resources.chunks[evidence_id].text, method="chunk text")

    def evidence(self, evidence_id: str) -> EvidenceItem:
        """The chunk's text, without an image."""
        chunk = self.resources.chunks[evidence_id]
        return EvidenceItem(evidence_id=evidence_id, page_id=chunk.page_id, text=chunk.text)


def version(profile: Profile) -> str:
    """What shapes the rankings of chunks, see `text_fingerprint`."""
    return text_fingerprint(profile.text)


def chunk_stages(resources: Resources, loop: LoopSettings) -> System:
    """The same filter and reader as MedVRAG, fed with chunks; a chunk is its own summary, so none is shown besides."""
    source = ChunkEvidence(resources)
    return Composed(
        loop,
        Retrieve(source),
        Filter(source, MapReduceFilter(resources.ranker, resources.profile.filter)),
        Present(source, resources.profile.text.chunks_shown),
        Read(resources.reader, loop),
    )


@register("text_rag", "text chunks instead of page images, single round", version=version)
def compose(resources: Resources) -> System:
    """Compose the paper's row: the loop is cut to one round, which must answer."""
    return chunk_stages(resources, resources.profile.loop.model_copy(update={"max_rounds": 1}))


@register(
    "text_iterative", "text chunks instead of page images, the same loop and memory bank as medvrag", version=version
)
def compose_iterative(resources: Resources) -> System:
    """Compose the arm that differs from the full system in its evidence alone."""
    return chunk_stages(resources, resources.profile.loop)
