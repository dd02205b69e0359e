"""Retrieval quality side by side: several retrievers, or one filter under several weights, on the same questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from medvrag_core.errors import InputError
from medvrag_core.evaluation.retrieval import RetrievalReport, retrieval_report
from medvrag_core.records import Query, Question
from medvrag_core.systems.resources import Resources
from medvrag_core.systems.retrievers import filtered, find_retriever, rank_all

CUTOFFS = (1, 3, 5, 10, 20, 50, 100)


def gold_pages(questions: Sequence[Question]) -> dict[str, dict[str, int]]:
    """Relevance labels by question id: every gold page counts 1; questions without gold pages are left out."""
    return {q.id: dict.fromkeys(q.gold_pages, 1) for q in questions if q.gold_pages}


def as_queries(questions: Sequence[Question]) -> list[Query]:
    """Questions as Stage 1 sees them: their text without the options (MIRAGE's rule)."""
    return [Query(id=q.id, text=q.question) for q in questions]


def compare_retrievers(
    resources: Resources,
    queries: Sequence[Query],
    gold: Mapping[str, Mapping[str, int]],
    names: Sequence[str] = ("stage1", "exact", "bm25", "hybrid"),
    *,
    cutoffs: Sequence[int] = CUTOFFS,
) -> dict[str, RetrievalReport]:
    """Reports by name of the retriever, each over the queries that have gold pages."""
    labeled = _labeled(queries, gold)
    return {
        name: retrieval_report(rank_all(find_retriever(name), resources, labeled, max(cutoffs)), gold, ks=cutoffs)
        for name in names
    }


def compare_filter_weights(
    resources: Resources,
    queries: Sequence[Query],
    gold: Mapping[str, Mapping[str, int]],
    weights: Sequence[float] = (0.0, 0.3, 0.5, 0.7, 1.0),
    *,
    cutoffs: Sequence[int] = (1, 3, 5, 10, 20),
) -> dict[str, RetrievalReport]:
    """What the embedded ranker's trust in Stage 1 does to the pages a reader gets; 1.0 is Stage 1 alone."""
    labeled = _labeled(queries, gold)
    reports = {}
    for weight in weights:
        settings = resources.profile.filter.model_copy(update={"ranker": "embedded", "stage1_weight": weight})
        other = Resources(resources.workspace, resources.profile.model_copy(update={"filter": settings}))
        reports[f"stage1_weight {weight:g}"] = retrieval_report(
            rank_all(filtered, other, labeled, max(cutoffs)), gold, ks=cutoffs
        )
    return reports


def _labeled(queries: Sequence[Query], gold: Mapping[str, Mapping[str, int]]) -> list[Query]:
    labeled = [query for query in queries if query.id in gold]
    if not labeled:
        raise InputError("no query has a gold page", way_out="add gold_pages to the question file")
    return labeled
