"""Everything a system may be composed of, opened from a finished run on first use."""

from __future__ import annotations

from functools import cached_property

from medvrag_core.corpus.chunks import chunk_pages
from medvrag_core.corpus.store import CorpusStore
from medvrag_core.encoders.base import PageEncoder
from medvrag_core.encoders.factory import make_page_encoder, make_text_encoder
from medvrag_core.encoders.vectors import VectorStore
from medvrag_core.errors import MismatchError
from medvrag_core.filter.base import ShardRanker
from medvrag_core.filter.embedded_ranker import EmbeddedRanker
from medvrag_core.index.base import PageIndex
from medvrag_core.index.build import open_index
from medvrag_core.index.lexical import Bm25Index
from medvrag_core.index.text_index import TextIndex, ensure_text_index
from medvrag_core.reasoning.reader import Reader
from medvrag_core.runs.workspace import Workspace
from medvrag_core.settings import Profile


class Resources:
    """Opened stages of one run under one profile.

    Parameters
    ----------
    workspace : a run with a finished corpus, and a finished index for systems that search it
    profile : resolved settings
    """

    def __init__(self, workspace: Workspace, profile: Profile) -> None:
        self.workspace = workspace
        self.profile = profile

    @cached_property
    def store(self) -> CorpusStore:
        """Pages, layouts, images, summaries."""
        return CorpusStore.open(self.workspace.corpus)

    @cached_property
    def vectors(self) -> VectorStore:
        """Page vectors."""
        return VectorStore.open(self.workspace.vectors)

    @cached_property
    def encoder(self) -> PageEncoder:
        """The encoder in the state in which it encoded the pages of this run.

        Raises MismatchError with both fingerprints if the pages were encoded by another one.
        """
        encoder = make_page_encoder(self.profile.encoder)
        made_by, now = self.vectors.manifest.encoder, encoder.fingerprint
        if made_by != now:
            raise MismatchError(
                f"{self.workspace.vectors}: pages were encoded by {made_by}, queries would be by {now}",
                way_out="use the profile of the run, or index the pages again",
            )
        encoder.load(self.workspace.vectors / "encoder")
        return encoder

    @cached_property
    def index(self) -> PageIndex:
        """Stage 1 in the mode of the profile."""
        return open_index(self.vectors, self.profile.index, self.workspace.index)

    @cached_property
    def exact_index(self) -> PageIndex:
        """The exhaustive reference over the same pages."""
        settings = self.profile.index.model_copy(update={"mode": "exact"})
        return open_index(self.vectors, settings, self.workspace.index)

    @cached_property
    def bm25(self) -> Bm25Index:
        """BM25 over page text."""
        return Bm25Index([p.page_id for p in self.store.pages], [p.text for p in self.store.pages])

    @cached_property
    def text_index(self) -> TextIndex:
        """Dense index over text chunks, built on first use."""
        settings = self.profile.text
        chunks = chunk_pages(self.store.pages, tokens=settings.chunk_tokens, overlap=settings.overlap_tokens)
        return ensure_text_index(
            chunks,
            make_text_encoder(settings),
            self.workspace.root / "text",
            corpus_fingerprint=self.store.fingerprint,
        )

    @cached_property
    def ranker(self) -> ShardRanker:
        """The ranker that the filter drives."""
        if self.profile.filter.ranker == "embedded":
            return EmbeddedRanker(self.profile.filter.stage1_weight)
        from medvrag_core.filter.llm_ranker import LlmRanker
        from medvrag_core.models.openai_client import OpenAIChat

        return LlmRanker(OpenAIChat(self.profile.filter_model))

    @cached_property
    def reader(self) -> Reader:
        """The reader of the profile."""
        if self.profile.reader.name == "evidence":
            from medvrag_core.reasoning.evidence_reader import EvidenceReader

            return EvidenceReader(self.profile.reader)
        if self.profile.reader.name == "likelihood":
            from medvrag_core.reasoning.likelihood_reader import LikelihoodReader

            return LikelihoodReader(self.profile.reader, self.profile.reader_model)
        from medvrag_core.models.openai_client import OpenAIChat
        from medvrag_core.reasoning.vlm_reader import VlmReader

        return VlmReader(OpenAIChat(self.profile.reader_model))

    def close(self) -> None:
        """Stop what was started."""
        if "reader" in self.__dict__:
            self.reader.close()
