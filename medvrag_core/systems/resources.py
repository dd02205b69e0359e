"""Everything a system may be composed of, opened from a finished run on first use."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Generic, Literal, Self, TypeVar, overload

from medvrag_core.cluster.index_servers import served_index
from medvrag_core.corpus.captions import Caption, Captioner, ModelCaptioner, RegionCaptioner, ensure_captions
from medvrag_core.corpus.chunks import TextChunk, chunk_pages
from medvrag_core.corpus.page_text import text_of_page
from medvrag_core.corpus.store import CorpusStore
from medvrag_core.encoders.base import PageEncoder
from medvrag_core.encoders.factory import make_page_encoder
from medvrag_core.encoders.minilm import load_minilm
from medvrag_core.encoders.vectors import VectorStore
from medvrag_core.filter.base import ShardRanker
from medvrag_core.filter.embedded_ranker import EmbeddedRanker
from medvrag_core.index.base import PageIndex
from medvrag_core.index.build import open_index
from medvrag_core.index.chunk_search import ChunkSearch
from medvrag_core.index.coarse_to_fine import CoarseToFineIndex
from medvrag_core.index.lexical import Bm25Index
from medvrag_core.index.text_factory import make_chunk_search
from medvrag_core.models.base import ChatModel
from medvrag_core.models.limits import CallLimits
from medvrag_core.models.local_server import ServerScorer
from medvrag_core.models.open_chat import stored_chat
from medvrag_core.models.store import CallStore
from medvrag_core.models.stored_chat import StoredChat
from medvrag_core.models.text_scorer import StoredScorer
from medvrag_core.reasoning.reader import Reader
from medvrag_core.records import Page, Question
from medvrag_core.runs.workspace import Workspace
from medvrag_core.settings import ModelSettings, Profile
from medvrag_core.systems.precedent import Precedent

T = TypeVar("T")


class _Opened(Generic[T]):
    """A stage that is opened on first use, once for all arms of a run whose settings of it are the same."""

    def __init__(self, make: Callable[[Resources], T], shaped_by: tuple[str, ...]) -> None:
        self.make = make
        self.shaped_by = shaped_by
        self.__doc__ = make.__doc__

    @overload
    def __get__(self, owner: None, kind: type) -> Self: ...

    @overload
    def __get__(self, owner: Resources, kind: type) -> T: ...

    def __get__(self, owner: Resources | None, kind: type) -> T | Self:
        if owner is None:
            return self
        key = (self.make.__name__, *(attrgetter(name)(owner.profile) for name in self.shaped_by))
        if key not in owner.pool:
            owner.pool[key] = self.make(owner)
        made: T = owner.pool[key]
        return made


def opened(*shaped_by: str) -> Callable[[Callable[[Any], T]], _Opened[T]]:
    """Decorator for a stage; ``shaped_by`` are the parts of the profile that it depends on, such as ``index``."""

    def wrap(make: Callable[[Any], T]) -> _Opened[T]:
        return _Opened(make, shaped_by)

    return wrap


class Resources:
    """Opened stages of one run under one profile.

    Parameters
    ----------
    workspace : a run with a finished corpus, and a finished index for systems that search it
    profile : resolved settings

    Attributes
    ----------
    limits : bounds that all models of the run share
    searching : held while a query is encoded, and while it is searched in this process; questions side by side wait
        for models and for servers, not for each other
    pool : what has been opened, with the settings that shaped it
    asked : the questions under way, for a control that shows the pages of another question
    precedents : answers of the arm that a control leans on, by question id
    """

    def __init__(self, workspace: Workspace, profile: Profile) -> None:
        self.workspace = workspace
        self.profile = profile
        self.searching = threading.Lock()
        self.limits = CallLimits(profile.calls)
        self.pool: dict[tuple[Any, ...], Any] = {}
        self.asked: Sequence[Question] = ()
        self.precedents: Mapping[str, Precedent] = {}
        self._models: list[StoredChat] = []

    def under(
        self,
        profile: Profile,
        *,
        asked: Sequence[Question] | None = None,
        precedents: Mapping[str, Precedent] | None = None,
    ) -> Resources:
        """The same run under other settings, for an arm; what these leave as it is, is opened once for both."""
        view = Resources(self.workspace, profile)
        view.searching, view.limits, view.pool, view._models = self.searching, self.limits, self.pool, self._models
        view.asked = self.asked if asked is None else asked
        view.precedents = self.precedents if precedents is None else precedents
        return view

    @opened()
    def store(self) -> CorpusStore:
        """Pages, layouts, images, summaries."""
        return CorpusStore.open(self.workspace.corpus)

    @opened()
    def vectors(self) -> VectorStore:
        """Page vectors."""
        return VectorStore.open(self.workspace.vectors)

    @opened("encoder")
    def encoder(self) -> PageEncoder:
        """The encoder in the state in which it encoded the pages of this run.

        Raises MismatchError that names each field in which the encoder of the profile is another one.
        """
        encoder = make_page_encoder(self.profile.encoder)
        self.vectors.load_encoder(encoder)
        return encoder

    @opened("index", "ray")
    def index(self) -> PageIndex:
        """Stage 1 in the mode of the profile, here or by actors of Ray."""
        if self.profile.ray.asked_for and self.profile.ray.index_servers:
            return served_index(self.workspace, self.vectors, self.profile)
        return open_index(self.vectors, self.profile.index, self.workspace.index)

    @opened("index")
    def exact_index(self) -> PageIndex:
        """Mode ``exact`` over the same pages: every page is scored."""
        return self._index_in("exact")

    @opened("index")
    def paper_index(self) -> CoarseToFineIndex:
        """The paper's Stage 1 over the same pages."""
        index = self._index_in("paper")
        assert isinstance(index, CoarseToFineIndex)
        return index

    def _index_in(self, mode: Literal["exact", "paper"]) -> PageIndex:
        settings = self.profile.index.model_copy(update={"mode": mode})
        return open_index(self.vectors, settings, self.workspace.index)

    @opened()
    def bm25(self) -> Bm25Index:
        """BM25 over page text, words as they are written."""
        return Bm25Index([p.page_id for p in self.store.pages], [p.text for p in self.store.pages])

    @opened("serve.summary_model")
    def captioner(self) -> Captioner:
        """The vision-language model that describes pages offline, or the stand-in where there is none."""
        model = self.profile.serve.summary_model
        return ModelCaptioner(self.chat(model)) if model.model else RegionCaptioner()

    @opened("serve.summary_model")
    def captions(self) -> dict[str, Caption]:
        """The caption of every page by page id; those that are missing are made on first use."""
        calls = self.profile.calls
        return ensure_captions(
            self.store,
            self.captioner,
            self.workspace.text,
            at_once=calls.in_flight if self.profile.serve.summary_model.model else 1,
            stop=lambda: self.limits.stop("stopped"),
        )

    @opened("text.chunk_tokens", "text.overlap_tokens", "text.page_text", "serve.summary_model")
    def chunks(self) -> dict[str, TextChunk]:
        """Text chunks of the corpus by id, the same for every encoder: cut by the vocabulary of BERT."""
        settings = self.profile.text

        def layout_of(page: Page) -> str:
            if settings.page_text == "captions":
                return self.captions[page.page_id].text
            return text_of_page(page, self.store.layout(page.page_id), settings.page_text)

        made = chunk_pages(
            self.store.pages,
            tokens=settings.chunk_tokens,
            overlap=settings.overlap_tokens,
            count=load_minilm().count_tokens,
            layout_of=None if settings.page_text == "reading_order" else layout_of,
            titles={article.article_id: article.title for article in self.store.articles},
        )
        return {chunk.chunk_id: chunk for chunk in made}

    @opened("text", "encoder", "index.backward_weight", "serve.summary_model")
    def text_search(self) -> ChunkSearch:
        """Search over text chunks as the text settings describe it; its vectors are made on first use."""
        return make_chunk_search(
            self.chunks,
            self.profile.text,
            self.profile.encoder,
            self.workspace.text,
            corpus_fingerprint=self.store.fingerprint,
            backward=self.profile.index.backward_weight,
        )

    @opened()
    def calls(self) -> CallStore:
        """The call store of the run."""
        return CallStore(self.workspace.calls)

    def chat(self, settings: ModelSettings) -> ChatModel:
        """A model behind the call store; its server is first looked for when a call has to be paid for."""
        model = stored_chat(settings, self.profile.calls, self.limits, self.calls)
        self._models.append(model)
        return model

    @opened("helper.name", "helper_model")
    def helper_chat(self) -> ChatModel | None:
        """The model for tasks beside the reader's; None where they are done without one."""
        return self.chat(self.profile.helper_model) if self.profile.helper.name == "llm" else None

    @opened("helper.generator", "generator_model")
    def generator_chat(self) -> ChatModel | None:
        """The model that writes documents; None where there is none."""
        return self.chat(self.profile.generator_model) if self.profile.helper.generator == "llm" else None

    def tally(self) -> dict[str, int]:
        """Calls so far: asked of a model, and found in the store."""
        counts: Counter[str] = Counter()
        for model in self._models:
            counts += model.tally
        return dict(counts)

    @opened("filter", "filter_model")
    def ranker(self) -> ShardRanker:
        """The ranker that the filter drives."""
        if self.profile.filter.ranker == "embedded":
            return EmbeddedRanker(self.profile.filter.stage1_weight)
        from medvrag_core.filter.llm_ranker import LlmRanker

        return LlmRanker(self.chat(self.profile.filter_model), side_by_side=self.profile.calls.in_flight)

    @opened("reader", "reader_model", "loop.overflow")
    def reader(self) -> Reader:
        """The reader of the profile."""
        if self.profile.reader.name == "evidence":
            from medvrag_core.reasoning.evidence_reader import EvidenceReader

            return EvidenceReader(self.profile.reader)
        if self.profile.reader.name == "likelihood":
            from medvrag_core.reasoning.likelihood_reader import LikelihoodReader

            model = self.profile.reader_model
            scorer = StoredScorer(model, self.calls, self.profile.calls, lambda: ServerScorer(model))
            return LikelihoodReader(self.profile.reader, model, scorer)
        from medvrag_core.reasoning.vlm_reader import VlmReader

        return VlmReader(
            self.chat(self.profile.reader_model), overflow=self.profile.loop.overflow, pages=self.profile.reader.pages
        )

    @opened("filter", "reader", "text.page_text", "serve.summary_model")
    def prompt_versions(self) -> dict[str, str]:
        """Digest of the prompt in force for each purpose for which this profile calls a model."""
        from medvrag_core.corpus import captions
        from medvrag_core.filter import llm_ranker
        from medvrag_core.reasoning import prompts

        versions: dict[str, str] = {}
        if self.profile.filter.ranker == "llm":
            versions |= dict.fromkeys(("filter_map", "filter_reduce"), llm_ranker.prompt_version())
        if self.profile.reader.name == "vlm":
            versions |= prompts.prompt_versions()
        if self.profile.text.page_text == "captions" and self.profile.serve.summary_model.model:
            versions["caption"] = captions.prompt_version()
        return versions

    def close(self) -> None:
        """Stop what was started and close the call store."""
        for (name, *_), made in self.pool.items():
            if name == "reader":
                made.close()
        for model in self._models:
            model.close()
        if (calls := self.pool.pop(("calls",), None)) is not None:
            calls.close()
