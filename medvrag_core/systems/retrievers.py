"""Rankings by name, over the same page ids, so that any of them can be scored beside the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tqdm import tqdm

from medvrag_core.errors import InputError
from medvrag_core.filter.base import Candidate
from medvrag_core.filter.mapreduce import MapReduceFilter
from medvrag_core.index.fusion import reciprocal_rank_fusion
from medvrag_core.records import FilterDecision, Hit, Query
from medvrag_core.systems.resources import Resources

Retriever = Callable[[Resources, str, int], tuple[Hit, ...]]


def stage1(resources: Resources, text: str, k: int) -> tuple[Hit, ...]:
    """Stage 1 in the mode of the profile."""
    return resources.index.search(resources.encoder.encode_query(text), k).hits


def exact(resources: Resources, text: str, k: int) -> tuple[Hit, ...]:
    """Two-way late interaction over every page."""
    return resources.exact_index.search(resources.encoder.encode_query(text), k).hits


def bm25(resources: Resources, text: str, k: int) -> tuple[Hit, ...]:
    """BM25 over page text."""
    return resources.bm25.search(text, k)


def hybrid(resources: Resources, text: str, k: int) -> tuple[Hit, ...]:
    """Reciprocal rank fusion of ``stage1`` and ``bm25``, each to depth 100 or ``k``."""
    depth = max(k, 100)
    rankings = [[hit.page_id for hit in method(resources, text, depth)] for method in (stage1, bm25)]
    return reciprocal_rank_fusion(rankings, k)


def filtered(resources: Resources, text: str, k: int) -> tuple[Hit, ...]:
    """Stage 1 followed by the Stage-2 filter; at most N2 pages, scored by 1 / rank."""
    kept = filter_decision(resources, text).kept[:k]
    return tuple(Hit(page_id=page_id, score=1.0 / rank, rank=rank) for rank, page_id in enumerate(kept, start=1))


def filter_decision(resources: Resources, text: str, **overrides: int) -> FilterDecision:
    """What the filter makes of the Stage-1 candidates of a query; ``overrides`` are fields of FilterSettings."""
    hits = stage1(resources, text, resources.profile.index.candidates)
    summaries = resources.store.summaries
    candidates = [
        Candidate(page_id=h.page_id, summary=summaries[h.page_id].text, rank=h.rank, score=h.score) for h in hits
    ]
    settings = resources.profile.filter.model_copy(update=overrides)
    return MapReduceFilter(resources.ranker, settings).select(text, candidates)


RETRIEVERS: dict[str, Retriever] = {f.__name__: f for f in (stage1, exact, bm25, hybrid, filtered)}


def find_retriever(name: str) -> Retriever:
    """A retriever by name; InputError lists the names there are."""
    if name not in RETRIEVERS:
        raise InputError(f"there is no retriever '{name}'", way_out=f"choose one of {', '.join(RETRIEVERS)}")
    return RETRIEVERS[name]


def rank_all(search: Retriever, resources: Resources, queries: Sequence[Query], k: int) -> dict[str, tuple[Hit, ...]]:
    """Ranked pages by query id."""
    return {
        query.id: search(resources, query.text, k)
        for query in tqdm(queries, desc="retrieve", unit="query", disable=None)
    }
