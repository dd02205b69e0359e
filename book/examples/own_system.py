"""A retriever, a stage, a reader and three systems of one's own, in one file.

Chapter 15 explains it part by part, and gives the commands that take it with ``--module book/examples/own_system.py``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import ClassVar

from medvrag_core.corpus.store import CorpusStore
from medvrag_core.filter.mapreduce import MapReduceFilter
from medvrag_core.index.lexical import Bm25Index, tokenize
from medvrag_core.reasoning.composition import RoundState, Stage
from medvrag_core.reasoning.reader import Reader
from medvrag_core.reasoning.stages import Filter, Present, Read, Retrieve
from medvrag_core.records import FilterDecision, Hit, ReaderInput, ReaderReply, SearchResult
from medvrag_core.systems.base import Composed, System, register
from medvrag_core.systems.medvrag import PageEvidence
from medvrag_core.systems.resources import Resources
from medvrag_core.systems.retrievers import register_retriever


@register_retriever("title_words", text_alone=True)
def title_words(resources: Resources, text: str, k: int) -> tuple[Hit, ...]:
    """The best pages by BM25, where every page has the words of its article's title too."""
    return _title_index(resources.store).search(text, k)


@lru_cache(maxsize=1)
def _title_index(store: CorpusStore) -> Bm25Index:
    titles = {article.article_id: article.title for article in store.articles}
    texts = [f"{titles[page.article_id]}\n{page.text}" for page in store.pages]
    return Bm25Index([page.page_id for page in store.pages], texts, stemming=True)


class TitledPages(PageEvidence):
    """Pages as MedVRAG shows them, found by words of text and title."""

    def search(self, query: str) -> SearchResult:
        """As many candidates as MedVRAG has."""
        return SearchResult(hits=title_words(self.resources, query, self.resources.profile.index.candidates))


class OneOfEachArticle(Stage):
    """Keeps the best page of every article, so that the reader sees as many articles as it sees pages."""

    needs: ClassVar = ("found",)
    makes: ClassVar = ("decision",)

    def run(self, state: RoundState) -> RoundState:
        """Called once a round, from several threads at a time, so a stage keeps nothing of its own."""
        assert state.found is not None
        best: dict[str, str] = {}
        for hit in state.found.hits:
            best.setdefault(hit.page_id.rpartition("#p")[0], hit.page_id)
        return state.made(decision=FilterDecision(kept=tuple(best.values())))


class CountingReader(Reader):
    """Answers with the option whose words stand most often on the pages that it is shown."""

    name = "counting"

    @property
    def fingerprint(self) -> str:
        """Change it whenever the same pages could get another answer."""
        return "counting-1"

    def read(self, given: ReaderInput) -> ReaderReply:
        """Reply in the format that the loop reads; ``option_scores`` let calibration look at it too."""
        words = [word for item in given.evidence for word in tokenize(item.text, stemming=True)]
        counts = {
            label: 1 + sum(words.count(word) for word in set(tokenize(text, stemming=True)))
            for label, text in given.question.options.items()
        }
        best = max(counts, key=lambda label: counts[label])
        total = sum(counts.values())
        return ReaderReply(
            text=f"Its words stand here {counts[best] - 1} times.\n<answer>{best}</answer>",
            model=self.fingerprint,
            option_scores={label: count / total for label, count in counts.items()},
        )

    def refine(self, given: ReaderInput) -> ReaderReply:
        """The next query, where a loop asks for one without showing the options; this reader has no better one."""
        return ReaderReply(text=f"<query_update>{given.question.question}</query_update>", model=self.fingerprint)


ONE_ROUND = {"loop.max_rounds": 1}
"""Settings that make the systems below what they are, whatever the profile has."""


@register("titles", "page_single with pages found by words of text and title", overrides=ONE_ROUND)
def titles(resources: Resources) -> System:
    """A retriever of one's own; all else is MedVRAG's."""
    loop, source = resources.profile.loop, TitledPages(resources)
    return Composed(
        loop,
        Retrieve(source),
        Filter(source, MapReduceFilter(resources.ranker, resources.profile.filter)),
        Present(source, loop.pages_shown, loop.summaries_shown),
        Read(resources.reader, loop),
    )


@register("titles_spread", "titles with the best page of each article in place of the filter", overrides=ONE_ROUND)
def titles_spread(resources: Resources) -> System:
    """A stage of one's own in the place of one of MedVRAG's."""
    loop, source = resources.profile.loop, TitledPages(resources)
    return Composed(
        loop,
        Retrieve(source),
        OneOfEachArticle(),
        Present(source, loop.pages_shown, loop.summaries_shown),
        Read(resources.reader, loop),
    )


@register("titles_counted", "titles_spread with a reader that counts the words of the options", overrides=ONE_ROUND)
def titles_counted(resources: Resources) -> System:
    """A reader of one's own on top."""
    loop, source = resources.profile.loop, TitledPages(resources)
    return Composed(
        loop,
        Retrieve(source),
        OneOfEachArticle(),
        Present(source, loop.pages_shown, loop.summaries_shown),
        Read(CountingReader(), loop),
    )
