"""Rankings by name, over the same page ids, so that any of them can be scored beside the others.

What :func:`register_retriever` decorates is known by its name, in this package and in a file of one's own. Each text
arm is such a ranking too: pages in the order of the best chunk that they hold words of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tqdm import tqdm

from medvrag_core.errors import InputError
from medvrag_core.filter.mapreduce import MapReduceFilter
from medvrag_core.index.fusion import reciprocal_rank_fusion
from medvrag_core.reasoning.source import retrieve
from medvrag_core.records import FilterDecision, Hit, Query
from medvrag_core.settings import Profile
from medvrag_core.systems import medrag, text_rag
from medvrag_core.systems.base import SystemEntry, catalog
from medvrag_core.systems.medvrag import PageEvidence
from medvrag_core.systems.registration import require_free_name
from medvrag_core.systems.resources import Resources

Retriever = Callable[[Resources, str, int], tuple[Hit, ...]]
"""From an opened run, a query and a number of pages to so many pages at most, best first."""


@dataclass(frozen=True)
class RetrieverEntry:
    """A retriever by name; ``text_alone``: it needs no page vectors and no index of them."""

    search: Retriever
    text_alone: bool = False


RETRIEVERS: dict[str, RetrieverEntry] = {}


def register_retriever(name: str, *, text_alone: bool = False) -> Callable[[Retriever], Retriever]:
    """Decorator that makes a ranking known under ``name``.

    Raises
    ------
    InputError
        Another retriever or a text arm has the name, or it is no plain name.
    """

    def add(search: Retriever) -> Retriever:
        require_free_name("retriever", name, search, _known)
        RETRIEVERS[name] = RetrieverEntry(search, text_alone)
        return search

    return add


def _known() -> dict[str, Callable[..., Any]]:
    arms = {name: entry.make for name, entry in text_arms().items()}
    return {**arms, **{name: entry.search for name, entry in RETRIEVERS.items()}}


@register_retriever("stage1")
def stage1(resources: Resources, text: str, k: int) -> tuple[Hit, ...]:
    """Stage 1 in the mode of the profile."""
    return resources.index.search(resources.encoder.encode_query(text), k).hits


@register_retriever("exact")
def exact(resources: Resources, text: str, k: int) -> tuple[Hit, ...]:
    """Two-way late interaction over every page."""
    return resources.exact_index.search(resources.encoder.encode_query(text), k).hits


@register_retriever("bm25", text_alone=True)
def bm25(resources: Resources, text: str, k: int) -> tuple[Hit, ...]:
    """BM25 over page text."""
    return resources.bm25.search(text, k)


@register_retriever("hybrid")
def hybrid(resources: Resources, text: str, k: int) -> tuple[Hit, ...]:
    """Reciprocal rank fusion of ``stage1`` and ``bm25``, each to depth 100 or ``k``.

    A page that shares no word with the query has no place in the ranking by words.
    """
    depth = max(k, 100)
    by_words = [hit.page_id for hit in bm25(resources, text, depth) if hit.score > 0]
    return reciprocal_rank_fusion([[hit.page_id for hit in stage1(resources, text, depth)], by_words], k)


@register_retriever("filtered")
def filtered(resources: Resources, text: str, k: int) -> tuple[Hit, ...]:
    """Stage 1 followed by the Stage-2 filter; at most N2 pages, scored by 1 / rank."""
    kept = filter_decision(resources, text).kept[:k]
    return tuple(Hit(page_id=page_id, score=1.0 / rank, rank=rank) for rank, page_id in enumerate(kept, start=1))


def filter_decision(resources: Resources, text: str, **overrides: int) -> FilterDecision:
    """What the filter makes of the Stage-1 candidates of a query; ``overrides`` are fields of FilterSettings."""
    settings = resources.profile.filter.model_copy(update=overrides)
    return retrieve(PageEvidence(resources), MapReduceFilter(resources.ranker, settings), text)[1]


def find_retriever(name: str) -> Retriever:
    """A retriever by name, or the ranking of a text arm; InputError lists the names there are."""
    if name in RETRIEVERS:
        return RETRIEVERS[name].search
    if name in (arms := text_arms()):
        return partial(_pages_of_chunks, arms[name])
    raise InputError(f"there is no retriever '{name}'", way_out=f"choose one of {', '.join([*RETRIEVERS, *arms])}")


def text_arms() -> dict[str, SystemEntry]:
    """Systems that search text chunks with the question, by name."""
    made_by = (text_rag.compose, text_rag.compose_iterative, medrag.compose)
    return {name: entry for name, entry in catalog().items() if entry.make in made_by}


def depth_of(arm: SystemEntry, profile: Profile) -> int:
    """How many chunks the search of a text arm gives, under the arm's own settings."""
    return medrag.depth(profile.medrag.snippets) if arm.make is medrag.compose else profile.index.candidates


def reads_text_alone(name: str) -> bool:
    """Whether a retriever needs no page vectors and no index of them."""
    return RETRIEVERS[name].text_alone if name in RETRIEVERS else name in text_arms()


def _pages_of_chunks(arm: SystemEntry, resources: Resources, text: str, k: int) -> tuple[Hit, ...]:
    """The ``k`` pages whose best chunks rank highest among the candidates of a text arm, scored as these chunks.

    A chunk over the end of a page stands for each of its pages, in order of how many of its words they hold. Else a
    page of few words, which has the most words of no chunk, could not be found however good the chunk.
    """
    own = resources.under(arm.settle(resources.profile))
    best: dict[str, Hit] = {}
    for hit in own.text_search.search(text, depth_of(arm, own.profile)).hits:
        chunk = own.chunks[hit.page_id]
        for page_id in (chunk.page_id, *chunk.also_on):
            best.setdefault(page_id, Hit(page_id=page_id, score=hit.score, rank=len(best) + 1))
    return tuple(best.values())[:k]


def rank_all(search: Retriever, resources: Resources, queries: Sequence[Query], k: int) -> dict[str, tuple[Hit, ...]]:
    """Ranked pages by query id."""
    return {
        query.id: search(resources, query.text, k)
        for query in tqdm(queries, desc="retrieve", unit="query", disable=None)
    }
