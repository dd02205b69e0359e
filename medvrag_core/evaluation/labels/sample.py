"""Which pages people label: a stratified random sample, its probabilities recorded, in an order of each rater's own."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from pydantic import Field

from medvrag_core.errors import InputError
from medvrag_core.evaluation.labels.judge import judging_pool
from medvrag_core.evaluation.labels.relevance import Pair, RelevanceLabel
from medvrag_core.reasoning.sameness import page_of
from medvrag_core.records import Record, Trace


class LabelTask(Record):
    """One page to label. The stratum is for the analysis; a rater never sees it."""

    question_id: str
    page_id: str
    stratum: str
    probability: float = Field(gt=0, le=1, description="pages drawn from the stratum / pages in it")


def strata_of(traces: Sequence[Trace], judge: Iterable[RelevanceLabel] = (), *, depth: int = 10) -> dict[Pair, str]:
    """Every page of the judging pool by how far it came in round 1 and what the judge says.

    A simple sample would mostly hold pages that everybody rejects; with a share of every stratum the errors of a judge
    and of a stage can both be seen.
    """
    said = {label.pair: label.label or "unread" for label in judge}
    strata: dict[Pair, str] = {}
    pool = judging_pool(traces, "both", depth)
    for trace in traces:
        for round_ in trace.rounds[:1]:
            shown, kept = ({*map(page_of, ids)} for ids in (round_.shown, round_.filter.kept))
            for page in pool[trace.question.id]:
                stage = "shown" if page in shown else "kept" if page in kept else "candidate"
                pair = (trace.question.id, page)
                strata[pair] = f"{stage}, {said.get(pair, 'not judged').replace('_', ' ')}"
    return strata


def draw_sample(strata: Mapping[Pair, str], each: int, *, seed: int = 42) -> tuple[LabelTask, ...]:
    """``each`` pages of every stratum, all of a smaller one; the same for everybody who gives the same seed.

    Raises InputError when there is nothing to draw from.
    """
    if not strata or each < 1:
        raise InputError("there is no page to draw", way_out="give strata with pages, and at least one page of each")
    members: defaultdict[str, list[Pair]] = defaultdict(list)
    for pair in sorted(strata):
        members[strata[pair]].append(pair)
    draw = random.Random(seed)
    tasks = []
    for stratum in sorted(members):
        pairs = members[stratum]
        chosen = draw.sample(pairs, min(each, len(pairs)))
        tasks += [
            LabelTask(question_id=q, page_id=p, stratum=stratum, probability=len(chosen) / len(pairs))
            for q, p in chosen
        ]
    return tuple(tasks)


def rater_order(tasks: Sequence[LabelTask], rater: str) -> list[LabelTask]:
    """The tasks shuffled by the rater's name, so that fatigue falls on other pages for each rater; repeatable."""
    ordered = sorted(tasks, key=lambda task: (task.question_id, task.page_id))
    random.Random(f"order of {rater}").shuffle(ordered)
    return ordered
