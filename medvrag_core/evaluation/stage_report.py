"""Retrieval of one system measured as such: recall of each stage, what the filter lost, what the index missed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from medvrag_core.evaluation.exact_overlap import ExactOverlap, exact_overlap
from medvrag_core.evaluation.filter_loss import FilterLoss, filter_loss
from medvrag_core.evaluation.retrieval import Gold
from medvrag_core.evaluation.stage_recall import StageRecall, depths_of, stage_recall, with_labels
from medvrag_core.records import Query, Record, Trace
from medvrag_core.settings import Profile
from medvrag_core.systems.resources import Resources


class StageReport(Record):
    """All of it in one record."""

    recall: StageRecall
    filter_loss: FilterLoss
    exact: ExactOverlap | None = Field(None, description="the index beside exact search, where it was asked for")


def stage_report(
    traces: Sequence[Trace],
    profile: Profile,
    *,
    rounds: Literal["first", "any"] = "first",
    labels: Gold | None = None,
    cuts: Sequence[int] = (10, 100),
    search: Resources | None = None,
) -> StageReport:
    """Measure retrieval from the traces of one arm.

    Parameters
    ----------
    traces : of one arm
    profile : the one they were made with; says how many pages each stage may hand on
    rounds : round 1, or all rounds together
    labels : relevance labels to use in place of gold pages
    cuts : depths beside those of the profile
    search : to search the queries of round 1 again, with the index and exactly

    Raises
    ------
    InputError : as :func:`~medvrag_core.evaluation.stage_recall.stage_recall` does
    """
    if labels is not None:
        traces = with_labels(traces, labels)
    depths = depths_of(profile, cuts)
    overlap = None
    if search is not None:
        queries = [Query(id=t.question.id, text=t.rounds[0].query) for t in traces if t.rounds]
        overlap = exact_overlap(search, queries, ks=depths["candidates"])
    return StageReport(
        recall=stage_recall(traces, depths, profile.evaluation, rounds=rounds, labels=labels),
        filter_loss=filter_loss(traces, rounds=rounds, confidence=profile.evaluation.confidence),
        exact=overlap,
    )
