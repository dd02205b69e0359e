"""Retrieval quality side by side: several retrievers, or one filter under several weights, on the same questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field

from medvrag_core.errors import InputError
from medvrag_core.evaluation.retrieval.metrics import QuestionScores, RetrievalReport, question_scores, report_of
from medvrag_core.evaluation.retrieval.paired import PairedRetrieval, paired_retrieval
from medvrag_core.records import Query, Question, Record
from medvrag_core.settings import EvaluationSettings
from medvrag_core.systems.resources import Resources
from medvrag_core.systems.retrievers import filtered, find_retriever, rank_all

CUTOFFS = (1, 3, 5, 10, 20, 50, 100)


class RetrieverComparison(Record):
    """What each ranking is worth, and each against a baseline on the same questions."""

    reports: dict[str, RetrievalReport] = Field(description="by name of the ranking")
    paired: tuple[PairedRetrieval, ...] = Field(description="every other ranking against the baseline, one family")


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
) -> RetrieverComparison:
    """Retrievers by name over the queries that have gold pages, each compared with the first."""
    labeled = _labeled(queries, gold)
    scores = {
        name: question_scores(rank_all(find_retriever(name), resources, labeled, max(cutoffs)), gold, ks=cutoffs)
        for name in names
    }
    return _comparison(scores, names[0], cutoffs, resources.profile.evaluation)


def compare_filter_weights(
    resources: Resources,
    queries: Sequence[Query],
    gold: Mapping[str, Mapping[str, int]],
    weights: Sequence[float] = (0.0, 0.3, 0.5, 0.7, 1.0),
    *,
    cutoffs: Sequence[int] = (1, 3, 5, 10, 20),
) -> RetrieverComparison:
    """What the embedded ranker's trust in Stage 1 does to the pages a reader gets.

    Each weight is compared with the last; 1.0 is Stage 1 alone.
    """
    labeled = _labeled(queries, gold)
    scores = {}
    for weight in weights:
        settings = resources.profile.filter.model_copy(update={"ranker": "embedded", "stage1_weight": weight})
        other = Resources(resources.workspace, resources.profile.model_copy(update={"filter": settings}))
        scores[f"stage1_weight {weight:g}"] = question_scores(
            rank_all(filtered, other, labeled, max(cutoffs)), gold, ks=cutoffs
        )
    return _comparison(scores, f"stage1_weight {weights[-1]:g}", cutoffs, resources.profile.evaluation)


def _comparison(
    scores: Mapping[str, QuestionScores], baseline: str, cutoffs: Sequence[int], settings: EvaluationSettings
) -> RetrieverComparison:
    return RetrieverComparison(
        reports={name: report_of(found, cutoffs) for name, found in scores.items()},
        paired=paired_retrieval(scores, baseline, settings),
    )


def _labeled(queries: Sequence[Query], gold: Mapping[str, Mapping[str, int]]) -> list[Query]:
    labeled = [query for query in queries if query.id in gold]
    if not labeled:
        raise InputError("no query has a gold page", way_out="add gold_pages to the question file")
    return labeled
