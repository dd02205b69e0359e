"""Recall stage by stage, from stored traces: among the candidates, kept by the filter, shown to the reader.

The stages are those of paper sections 3.2 to 3.4. All that a stage lets through holds all that the next one does, so
at full depth recall can only fall, and the largest step is the stage to repair. At a shallower depth a stage that puts
pages in another order can gain as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from medvrag_core.errors import InputError
from medvrag_core.evaluation.retrieval.metrics import Gold, question_scores
from medvrag_core.evaluation.scoring import require_one_arm
from medvrag_core.evaluation.statistics.means import Estimate, mean_of
from medvrag_core.reasoning.sameness import page_of
from medvrag_core.records import Record, Round, Trace
from medvrag_core.settings import EvaluationSettings, Profile

Stage = Literal["candidates", "kept", "shown"]
STAGES: tuple[Stage, ...] = ("candidates", "kept", "shown")

_PAGES: dict[Stage, Callable[[Round], Sequence[str]]] = {
    "candidates": lambda round_: [hit.page_id for hit in round_.stage1],
    "kept": lambda round_: round_.filter.kept,
    "shown": lambda round_: round_.shown,
}


class StageRow(Record):
    """What one stage let through, down to one depth; means over questions."""

    stage: Stage
    k: int = Field(description="first pages counted, of every round that is looked at")
    recall: Estimate = Field(description="share of a question's gold pages")
    any_gold: Estimate = Field(description="share of questions with at least one of their gold pages")
    all_gold: Estimate = Field(description="share of questions with all of their gold pages")
    judged: float | None = Field(None, description="with labels: share of these pages that somebody labeled")


class StageRank(Record):
    """How high a stage ranks gold pages, in round 1 and down to its last depth."""

    stage: Stage
    ndcg_at_10: Estimate
    mrr: Estimate


class StageRecall(Record):
    """Recall of every stage of one system; a question without any ranking counts as 0."""

    system: str
    profile: str
    rounds: Literal["first", "any"]
    gold: Literal["gold_pages", "labels"]
    questions: int = Field(description="questions with at least one gold page")
    without_gold: int = Field(description="questions that say nothing about retrieval, left out")
    unranked: int = Field(description="questions with a gold page that ended before anything was retrieved")
    gold_pages: int
    confidence: float
    rows: tuple[StageRow, ...]
    ranks: tuple[StageRank, ...] = Field(description="empty where several rounds are taken together")


def depths_of(profile: Profile, cuts: Sequence[int] = (10, 100)) -> dict[Stage, tuple[int, ...]]:
    """Depths at which the stages are cut: ``cuts``, and all that each can hand on (paper: 2,000, 100 and 10 pages).

    >>> depths_of(Profile(name="p"))
    {'candidates': (10, 100, 2000), 'kept': (10, 100), 'shown': (10,)}
    """
    most: dict[Stage, int] = {
        "candidates": profile.index.candidates,
        "kept": profile.filter.keep,
        "shown": profile.loop.pages_shown,
    }
    return {stage: tuple(sorted({k for k in cuts if k < n} | {n})) for stage, n in most.items()}


def stage_recall(
    traces: Sequence[Trace],
    depths: Mapping[Stage, Sequence[int]],
    settings: EvaluationSettings,
    *,
    rounds: Literal["first", "any"] = "first",
    labels: Gold | None = None,
) -> StageRecall:
    """Recall of each stage with bootstrap intervals over questions; the arithmetic is that of ir-measures.

    Parameters
    ----------
    traces : of one arm; relevant are the gold pages of their questions
    depths : cut-offs of every stage, see :func:`depths_of`
    rounds : ``first``: round 1; ``any``: the first k pages of every round together
    labels : where the gold pages come from labels (see :func:`with_labels`), those labels; a page without one counts
        as not relevant, so the report tells how many had one

    Raises
    ------
    InputError : no trace, several arms, no question with a gold page, or a system that retrieves nothing

    Notes
    -----
    Chunks stand for their page, once, at their best place.
    """
    require_one_arm(traces)
    if not any(round_.stage1 for trace in traces for round_ in trace.rounds):
        raise InputError(f"system '{traces[0].system}' retrieves nothing", way_out="choose a system that searches")
    gold = {t.question.id: dict.fromkeys(t.question.gold_pages, 1) for t in traces if t.question.gold_pages}
    looked = {t.question.id: t.rounds[:1] if rounds == "first" else t.rounds for t in traces if t.question.id in gold}
    rows, ranks = [], []
    for stage in STAGES:
        for k in sorted(depths[stage]):
            found = {question: first_pages(stage, of, k) for question, of in looked.items()}
            rows.append(_row(stage, k, found, gold, labels, settings))
        if rounds == "first":
            scores = question_scores(found, gold, ks=())
            ndcg, mrr = (mean_of(scores.values[name], settings) for name in ("nDCG@10", "MRR"))
            ranks.append(StageRank(stage=stage, ndcg_at_10=ndcg, mrr=mrr))
    return StageRecall(
        system=traces[0].system,
        profile=traces[0].profile,
        rounds=rounds,
        gold="gold_pages" if labels is None else "labels",
        questions=len(gold),
        without_gold=len(traces) - len(gold),
        unranked=sum(not any(round_.stage1 for round_ in of) for of in looked.values()),
        gold_pages=sum(map(len, gold.values())),
        confidence=settings.confidence,
        rows=tuple(rows),
        ranks=tuple(ranks),
    )


def with_labels(traces: Sequence[Trace], labels: Gold) -> list[Trace]:
    """The same traces with the pages labeled relevant as gold pages; the questions' own gold pages are put aside."""
    relevant = {question: tuple(p for p, level in pages.items() if level > 0) for question, pages in labels.items()}
    return [
        trace.model_copy(
            update={"question": trace.question.model_copy(update={"gold_pages": relevant.get(trace.question.id, ())})}
        )
        for trace in traces
    ]


def first_pages(stage: Stage, rounds: Sequence[Round], k: int) -> list[str]:
    """The first ``k`` pages that a stage let through in every one of the rounds, each page once."""
    found: dict[str, None] = {}
    for round_ in rounds:
        # Deep lists are long and their ids many, so nothing beyond the depth is looked at.
        pages: dict[str, None] = {}
        for evidence in _PAGES[stage](round_):
            if len(pages) == k:
                break
            pages[page_of(evidence)] = None
        found |= pages
    return list(found)


def _row(
    stage: Stage,
    k: int,
    found: Mapping[str, Sequence[str]],
    gold: Gold,
    labels: Gold | None,
    settings: EvaluationSettings,
) -> StageRow:
    most = max(1, *map(len, found.values())) if found else 1
    values = question_scores(found, gold, ks=(most,)).values
    recall = values[f"recall@{most}"]
    judged = [page in labels.get(q, {}) for q, pages in found.items() for page in pages] if labels is not None else []
    return StageRow(
        stage=stage,
        k=k,
        recall=mean_of(recall, settings),
        any_gold=mean_of(values[f"any_gold@{most}"], settings),
        all_gold=mean_of(np.isclose(recall, 1.0), settings),
        judged=sum(judged) / len(judged) if judged else None,
    )
