from __future__ import annotations

import pytest

from medvrag_core.errors import InputError
from medvrag_core.evaluation.retrieval.retrievers import (
    as_queries,
    compare_filter_weights,
    compare_retrievers,
    gold_pages,
)
from medvrag_core.profiles.load import load_profile
from medvrag_core.records import Question
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.resources import Resources


def test_retrievers_are_compared_on_the_same_labeled_questions(
    made_run: Workspace, made_questions: list[Question]
) -> None:
    resources = Resources(made_run, load_profile("test"))
    unlabeled = made_questions[0].model_copy(update={"id": "none", "gold_pages": ()})
    questions = [*made_questions, unlabeled]
    found = compare_retrievers(resources, as_queries(questions), gold_pages(questions), cutoffs=(1, 5, 10))
    reports = found.reports
    assert set(reports) == {"stage1", "exact", "bm25", "hybrid"}
    assert all(report.n == 3 for report in reports.values())
    assert all(report.recall[5] == 1.0 for report in reports.values())
    assert reports["stage1"] == reports["exact"]
    assert {(row.a, row.b) for row in found.paired} == {("stage1", name) for name in ("exact", "bm25", "hybrid")}
    for row in found.paired:
        values = {"recall@10": lambda r: r.recall[10], "nDCG@10": lambda r: r.ndcg_at_10}[row.metric]
        assert (row.n, row.family) == (3, 6)
        assert (row.mean_a, row.mean_b) == pytest.approx((values(reports["stage1"]), values(reports[row.b])))


def test_full_trust_in_stage1_is_stage1(made_run: Workspace, made_questions: list[Question]) -> None:
    resources = Resources(made_run, load_profile("test"))
    queries, gold = as_queries(made_questions), gold_pages(made_questions)
    found = compare_filter_weights(resources, queries, gold, (0.0, 1.0), cutoffs=(1, 10))
    alone = compare_retrievers(resources, queries, gold, ("stage1",), cutoffs=(1, 10))
    assert found.reports["stage1_weight 1"] == alone.reports["stage1"]
    assert alone.paired == ()
    assert [(row.a, row.b) for row in found.paired] == [("stage1_weight 1", "stage1_weight 0")] * 2


def test_questions_without_gold_pages_cannot_be_compared(made_run: Workspace, made_questions: list[Question]) -> None:
    resources = Resources(made_run, load_profile("test"))
    with pytest.raises(InputError, match="gold_pages"):
        compare_retrievers(resources, as_queries(made_questions), {})
