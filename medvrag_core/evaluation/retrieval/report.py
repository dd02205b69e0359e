"""Retrieval of one system measured as such: recall of each stage, what the filter lost, what the index missed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Literal

from pydantic import Field

from medvrag_core.errors import InputError
from medvrag_core.evaluation.labels.corrected import Correction, corrected_share
from medvrag_core.evaluation.labels.relevance import Pair, RelevanceLabel, as_gold
from medvrag_core.evaluation.retrieval.exact_overlap import ExactOverlap, exact_overlap
from medvrag_core.evaluation.retrieval.filter_loss import FateCount, FilterLoss
from medvrag_core.evaluation.retrieval.stages import (
    Stage,
    StageCount,
    StageRecall,
    depths_of,
    first_pages,
    looked_at,
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
    exact: ExactOverlap | None = Field(None, description="the modes of the index, where they were asked for")


def stage_report(
    traces: Iterable[Trace],
    profile: Profile,
    *,
    rounds: Literal["first", "any"] = "first",
    labels: Sequence[RelevanceLabel] | None = None,
    people: Sequence[RelevanceLabel] | None = None,
    partly: bool = False,
    cuts: Sequence[int] = (10, 100),
    search: Resources | None = None,
) -> StageReport:
    """Measure retrieval from the traces of one arm, in one pass that keeps none of them.

    Parameters
    ----------
    traces : of one arm
    profile : the one they were made with; says how many pages each stage may hand on
    rounds : round 1, or all rounds together
    labels : of a judge, or of one rater, to use in place of gold pages
    people : labels of some of the same pages by a person, to correct those of a judge
    partly : whether partly relevant counts as relevant
    cuts : depths beside those of the profile
    search : to search the queries of round 1 again, in every mode of the index

    Raises
    ------
    InputError : as :func:`~medvrag_core.evaluation.retrieval.stages.stage_recall` and
        :func:`~medvrag_core.evaluation.labels.corrected.corrected_share` do
    """
    settings, depths = profile.evaluation, depths_of(profile, cuts)
    gold = None if labels is None else as_gold(labels, partly=partly)
    known = {label.pair for label in labels or ()}
    recall, fates = StageCount(depths, rounds, gold), FateCount(rounds)
    kept: defaultdict[tuple[Stage, int], set[Pair]] = defaultdict(set)
    queries, any_gold = [], False
    for trace in traces:
        trace = trace if gold is None else with_labels(trace, gold)
        recall.add(trace)
        fates.add(trace)
        any_gold |= bool(trace.question.gold_pages)
        if search is not None and trace.rounds:
            queries.append(Query(id=trace.question.id, text=trace.rounds[0].query))
        if people is not None:
            for stage, ks in depths.items():
                for k in ks:
                    pages = first_pages(stage, looked_at(trace, rounds), k)
                    kept[stage, k] |= {(trace.question.id, page) for page in pages} & known
    if gold is not None and not any_gold:
        raise InputError(
            "the labels call no page of these questions relevant, so there is nothing to recall",
            way_out="see what `medvrag agreement` makes of the rater",
        )
    corrected: tuple[CorrectedRow, ...] = ()
    if labels is not None and people is not None:
        corrected = tuple(
            CorrectedRow(stage=stage, k=k, recall=corrected_share(labels, people, settings, kept=pairs, partly=partly))
            for (stage, k), pairs in kept.items()
        )
    return StageReport(
        recall=recall.recall(settings),
        filter_loss=fates.loss(settings.confidence),
        corrected=corrected,
        exact=None if search is None else exact_overlap(search, queries, ks=depths["candidates"]),
    )
