"""MedRGAG (arXiv 2510.18297): found and written documents together, chosen for what a question takes.

As in its released code each source gives as many chunks by BM25, a reranker keeps the best of all, documents are
written on what these lack, and the reader gets those that cover the question. Unlike there a search sees the question
alone (MIRAGE's rule) and never its options, and a source is a folder of the corpus.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from medvrag_core.index.chunk_search import search_each
from medvrag_core.index.rerank import RerankedChunks
from medvrag_core.index.text_factory import text_fingerprint
from medvrag_core.reasoning.composition import Stage
from medvrag_core.reasoning.helper_calls import helper_versions
from medvrag_core.reasoning.knowledge import embedded, prompted
from medvrag_core.reasoning.knowledge.stages import (
    Explore,
    Order,
    Select,
    ShowWritten,
    Summarize,
    Write,
    WriteForQuestion,
    as_they_stand,
    by_score,
)
from medvrag_core.reasoning.stages import KeepBest, Present, PresentNothing, Read, Retrieve
from medvrag_core.records import EvidenceItem, SearchResult, StepKind
from medvrag_core.settings import Profile, TextSettings
from medvrag_core.systems.base import Composed, System, register
from medvrag_core.systems.resources import Resources
from medvrag_core.systems.text_rag import ChunkEvidence


class BalancedChunks(ChunkEvidence):
    """Chunks of page text, ``medrgag.per_source`` of each source, reranked together."""

    def search(self, query: str) -> SearchResult:
        """See :class:`~medvrag_core.reasoning.source.EvidenceSource`."""
        with self.resources.searching:
            per_source = self.resources.profile.medrgag.per_source
            return search_each(self.resources.text_search, query, per_source, self.sources)

    def relevance(self, query: str, evidence: Sequence[EvidenceItem]) -> Sequence[float]:
        """What the reranker gives each item, a chunk or a text that was written."""
        written = [item.text for item in evidence if item.written_by]
        chunks = [item.evidence_id for item in evidence if not item.written_by]
        with self.resources.searching:
            search = self.resources.text_search
            assert isinstance(search, RerankedChunks)
            of_written = iter(search.scorer.text_scores(query, written) if written else ())
            of_chunks = iter(search.scorer.scores(query, chunks) if chunks else ())
        return [float(next(of_written if item.written_by else of_chunks)) for item in evidence]

    @cached_property
    def sources(self) -> Mapping[str, NDArray[np.int64]]:
        """Places of the chunks of each source: the top folder of an article's file, and one for all files in none."""
        store = self.resources.store
        folders = {article.article_id: article.file.rpartition("/")[0] for article in store.articles}
        places: dict[str, list[int]] = defaultdict(list)
        for place, chunk in enumerate(self.resources.chunks.values()):
            folder = folders[store.page(chunk.page_id).article_id]
            places[folder.partition("/")[0]].append(place)
        return {name: np.array(places[name], dtype=np.int64) for name in sorted(places)}


def text_settings(profile: Profile) -> TextSettings:
    """BM25 and a reranker: that of the text settings, or the one that ``text.rerank_model`` names, or the embedded."""
    text = profile.text
    named = "cross_encoder" if text.rerank_model else "embedded"
    reranker = named if text.reranker == "none" else text.reranker
    depth = profile.medrgag.per_source
    return text.model_copy(update={"retriever": "bm25", "reranker": reranker, "rerank_depth": depth})


def version(profile: Profile) -> str:
    """What shapes the chunks that are found, and what is done without a model."""
    return f"{text_fingerprint(text_settings(profile))} {embedded.VERSION}".strip()


def prompts(profile: Profile) -> Mapping[str, str]:
    """The prompts of the tasks that are done, and done by a model."""
    settings, kinds = profile.medrgag, list[StepKind]()
    if profile.helper.name == "llm":
        kinds += ["summarize", "explore"] * (settings.generation and settings.completion)
        kinds += ["select"] * settings.selection
    if profile.helper.generator == "llm":
        kinds += ["generate"] * settings.generation
    return helper_versions(*kinds)


def knowledge_stages(resources: Resources, *, order: Order = as_they_stand, blind: bool = False) -> list[Stage]:
    """The stages between what was found and the reader, as far as the settings leave them in.

    Parameters
    ----------
    order : of what is selected
    blind : the options are kept from them
    """
    profile, settings = resources.profile, resources.profile.medrgag
    helper, writer, at_once = resources.helper_chat, resources.generator_chat, resources.profile.calls.in_flight
    stages: list[Stage] = []
    if settings.generation:
        words = profile.text.model_copy(update={"retriever": "bm25", "reranker": "none"})
        corpus = ChunkEvidence(resources.under(profile.model_copy(update={"text": words})))
        generator = prompted.PromptedGenerator(writer, at_once) if writer else embedded.ExtractingGenerator(corpus)
        if settings.completion:
            summarizer = prompted.PromptedSummarizer(helper, at_once) if helper else embedded.ExtractingSummarizer()
            explorer = prompted.PromptedExplorer(helper) if helper else embedded.WordExplorer()
            stages += [Summarize(summarizer, blind=blind), Explore(explorer, settings.gaps, blind=blind)]
        stages += [(Write if settings.completion else WriteForQuestion)(generator, settings.generated), ShowWritten()]
    if settings.selection:
        integrator = prompted.PromptedIntegrator(helper) if helper else embedded.CoveringIntegrator()
        stages.append(Select(integrator, settings.selected, order=order, blind=blind))
    return stages


@register(
    "medrgag",
    "MedRGAG: chunks of each source, documents written on what they lack, and a choice of both",
    version=version,
    prompts=prompts,
)
def compose(resources: Resources) -> System:
    """Compose what ``medrgag`` of the profile leaves in; its ablations are arms."""
    profile, settings = resources.profile, resources.profile.medrgag
    loop = profile.loop.model_copy(update={"max_rounds": 1})
    source = BalancedChunks(resources.under(profile.model_copy(update={"text": text_settings(profile)})))
    found = [Retrieve(source), KeepBest(settings.retrieved), Present(source, settings.retrieved)]
    return Composed(
        loop,
        *(found if settings.retrieval else [PresentNothing()]),
        *knowledge_stages(resources, order=by_score(source.relevance)),
        Read(resources.reader, loop),
    )
