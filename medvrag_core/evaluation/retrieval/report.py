"""Retrieval of one system measured as such: recall of each stage, what the filter lost, what the index missed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field

from medvrag_core.errors import InputError
from medvrag_core.evaluation.labels.corrected import Correction, corrected_share
from medvrag_core.evaluation.labels.relevance import Pair, RelevanceLabel, as_gold
from medvrag_core.evaluation.retrieval.exact_overlap import ExactOverlap, exact_overlap
from medvrag_core.evaluation.retrieval.filter_loss import FilterLoss, filter_loss
from medvrag_core.evaluation.retrieval.stages import (
    Stage,
    StageRecall,
    depths_of,
    first_pages,
    stage_recall,
    with_labels,
)
from medvrag_core.records import Query, Record, Trace
from medvrag_core.settings import Profile
from medvrag_core.systems.resources import Resources


class CorrectedRow(Record):
    """Relevant pages that a stage let through, of all relevant pages of the judged pool."""

    stage: Stage
    k: int
    recall: Correction


class StageReport(Record):
    """All of it in one record."""

    recall: StageRecall
    filter_loss: FilterLoss
    corrected: tuple[CorrectedRow, ...] = Field((), description="recall by a judge's labels, corrected by people's")
    exact: ExactOverlap | None = Field(None, description="the index beside exact search, where it was asked for")


def stage_report(
    traces: Sequence[Trace],
    profile: Profile,
    *,
    rounds: Literal["first", "any"] = "first",
    labels: Sequence[RelevanceLabel] | None = None,
    people: Sequence[RelevanceLabel] | None = None,
    partly: bool = False,
    cuts: Sequence[int] = (10, 100),
    search: Resources | None = None,
) -> StageReport:
    """Measure retrieval from the traces of one arm.

    Parameters
    ----------
    traces : of one arm
    profile : the one they were made with; says how many pages each stage may hand on
    rounds : round 1, or all rounds together
    labels : of a judge, or of one rater, to use in place of gold pages
    people : labels of some of the same pages by a person, to correct those of a judge
    partly : whether partly relevant counts as relevant
    cuts : depths beside those of the profile
    search : to search the queries of round 1 again, with the index and exactly

    Raises
    ------
    InputError : as :func:`~medvrag_core.evaluation.retrieval.stages.stage_recall` and
        :func:`~medvrag_core.evaluation.labels.corrected.corrected_share` do
    """
    settings, depths = profile.evaluation, depths_of(profile, cuts)
    gold = None if labels is None else as_gold(labels, partly=partly)
    if gold is not None:
        traces = with_labels(traces, gold)
        if not any(trace.question.gold_pages for trace in traces):
            raise InputError(
                "the labels call no page of these questions relevant, so there is nothing to recall",
                way_out="see what `medvrag agreement` makes of the rater",
            )
    corrected: tuple[CorrectedRow, ...] = ()
    if labels is not None and people is not None:
        kept = _kept_pairs(traces, depths, rounds)
        corrected = tuple(
            CorrectedRow(stage=stage, k=k, recall=corrected_share(labels, people, settings, kept=pairs, partly=partly))
            for (stage, k), pairs in kept.items()
        )
    overlap = None
    if search is not None:
        queries = [Query(id=t.question.id, text=t.rounds[0].query) for t in traces if t.rounds]
        overlap = exact_overlap(search, queries, ks=depths["candidates"])
    return StageReport(
        recall=stage_recall(traces, depths, settings, rounds=rounds, labels=gold),
        filter_loss=filter_loss(traces, rounds=rounds, confidence=settings.confidence),
        corrected=corrected,
        exact=overlap,
    )


def _kept_pairs(
    traces: Sequence[Trace], depths: Mapping[Stage, Sequence[int]], rounds: Literal["first", "any"]
) -> dict[tuple[Stage, int], set[Pair]]:
    """Questions and pages that every stage let through, by stage and depth."""
    looked = {t.question.id: t.rounds[:1] if rounds == "first" else t.rounds for t in traces}
    return {
        (stage, k): {(question, page) for question, of in looked.items() for page in first_pages(stage, of, k)}
        for stage, ks in depths.items()
        for k in ks
    }
