"""MedRAG (arXiv 2402.13178): the best snippets for the question alone, read once, without a filter.

As in its released code (github.com/Teddy-XiongGZ/MedRAG, 7599a72): 32 snippets, which no option helps to find; rankings
of max(2 k, 100) snippets each, fused with 1 / (100 + rank). Ours are the chunks that all text arms have, cut from the
pages of the run, in the place of its 54 million snippets of PubMed, StatPearls, textbooks and Wikipedia; and the reader
is ours, with its prompt and reply form. Where the chunks do not fit the context of a model, the lowest ranked are
left out and the reply is flagged ``pages_dropped``; the released code cuts the text of all of them at the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from medvrag_core.reasoning.stages import KeepBest, Present, Read, Retrieve
from medvrag_core.records import SearchResult
from medvrag_core.systems.base import Composed, System, register
from medvrag_core.systems.resources import Resources
from medvrag_core.systems.text_rag import ChunkEvidence, version

RRF_2: Mapping[str, Any] = {"text.retriever": "fused", "text.rrf_constant": 100, "text.reranker": "none"}
"""Two rankings fused as in MedRAG's RRF-2, whatever the dense encoder of the profile is."""


class Snippets(ChunkEvidence):
    """Chunks, ranked as deep as MedRAG ranks them for ``count`` of them."""

    def __init__(self, resources: Resources, count: int) -> None:
        super().__init__(resources)
        self.count = count

    def search(self, query: str) -> SearchResult:
        """Best chunks; the search is opened, and its vectors are made, for the first query."""
        with self.resources.searching:
            return self.resources.text_search.search(query, depth(self.count))


def depth(snippets: int) -> int:
    """How many snippets each ranking has before fusion (``RetrievalSystem.retrieve``).

    >>> depth(32), depth(64)
    (100, 128)
    """
    return max(2 * snippets, 100)


@register(
    "medrag",
    "MedRAG: the best 32 chunks for the question alone, read once; BM25 and the dense encoder of the profile fused",
    overrides={**RRF_2, "reader.pages": "text"},
    version=version,
)
def compose(resources: Resources) -> System:
    """One round; the arms are the rankings that the released code offers."""
    loop, snippets = resources.profile.loop.model_copy(update={"max_rounds": 1}), resources.profile.medrag.snippets
    source = Snippets(resources, snippets)
    return Composed(loop, Retrieve(source), KeepBest(snippets), Present(source, snippets), Read(resources.reader, loop))
