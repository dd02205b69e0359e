"""Recall stage by stage, from stored traces: among the candidates, kept by the filter, shown to the reader.

The stages are those of paper sections 3.2 to 3.4. All that a stage lets through holds all that the next one does, so
at full depth recall can only fall, and the largest step is the stage to repair. At a shallower depth a stage that puts
pages in another order can gain as well.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
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
    chunks: bool = Field(
        False, description="text chunks were ranked; one counts for the page with most of its words and for no other"
    )
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
    traces: Iterable[Trace],
    depths: Mapping[Stage, Sequence[int]],
    settings: EvaluationSettings,
    *,
    rounds: Literal["first", "any"] = "first",
    labels: Gold | None = None,
) -> StageRecall:
    """Recall of each stage with bootstrap intervals over questions; the arithmetic is that of ir-measures.

    Parameters
    ----------
    traces : of one arm, looked at one by one and not kept; relevant are the gold pages of their questions
    depths : cut-offs of every stage, see :func:`depths_of`
    rounds : ``first``: round 1; ``any``: the first k pages of every round together
    labels : where the gold pages come from labels (see :func:`with_labels`), those labels; a page without one counts
        as not relevant, so the report tells how many had one

    Raises
    ------
    InputError : no trace, several arms, no question with a gold page, or a system that retrieves nothing

    Notes
    -----
    Chunks stand for the page that their id names, once, at their best place. Words that a chunk has of another
    page do not count as that page, here as in the error classes, which go by the same ids; so a page that has the most
    words of no chunk cannot be found. A trace does not hold the other pages of a chunk.
    """
    count = StageCount(depths, rounds, labels)
    for trace in traces:
        count.add(trace)
    return count.recall(settings)


class StageCount:
    """What :func:`stage_recall` needs of each trace, so that several reports can look at a trace in one pass.

    Of every ranking only the part through its last gold page is kept: what follows changes no number.
    """

    def __init__(
        self,
        depths: Mapping[Stage, Sequence[int]],
        rounds: Literal["first", "any"] = "first",
        labels: Gold | None = None,
    ) -> None:
        self._depths = {stage: sorted(depths[stage]) for stage in STAGES}
        self._rounds = rounds
        self._labels = labels
        self._heads: list[Trace] = []
        self._gold: dict[str, dict[str, int]] = {}
        self._found: defaultdict[tuple[Stage, int], dict[str, list[str]]] = defaultdict(dict)
        self._passed: Counter[tuple[Stage, int]] = Counter()
        self._judged: Counter[tuple[Stage, int]] = Counter()
        self._unranked = 0
        self._chunks = False
        self._searched = False

    def add(self, trace: Trace) -> None:
        """Look at one more trace."""
        question = trace.question
        self._heads.append(trace.model_copy(update={"rounds": ()}))
        self._searched |= any(round_.stage1 for round_ in trace.rounds)
        self._chunks |= any(page_of(hit.page_id) != hit.page_id for round_ in trace.rounds for hit in round_.stage1[:1])
        if not question.gold_pages:
            return
        looked = looked_at(trace, self._rounds)
        self._gold[question.id] = dict.fromkeys(question.gold_pages, 1)
        self._unranked += not any(round_.stage1 for round_ in looked)
        labeled = {} if self._labels is None else self._labels.get(question.id, {})
        for stage, depths in self._depths.items():
            for k in depths:
                pages = first_pages(stage, looked, k)
                self._found[stage, k][question.id] = _through_last(pages, question.gold_pages)
                self._passed[stage, k] += len(pages)
                self._judged[stage, k] += sum(page in labeled for page in pages)

    def recall(self, settings: EvaluationSettings) -> StageRecall:
        """The report on all of them; raises what :func:`stage_recall` raises."""
        require_one_arm(self._heads)
        first = self._heads[0]
        if not self._searched:
            raise InputError(f"system '{first.system}' retrieves nothing", way_out="choose a system that searches")
        rows, ranks = [], []
        for stage, depths in self._depths.items():
            for k in depths:
                passed = self._passed[stage, k]
                judged = self._judged[stage, k] / passed if self._labels is not None and passed else None
                rows.append(_row(stage, k, self._found[stage, k], self._gold, judged, settings))
            if self._rounds == "first":
                scores = question_scores(self._found[stage, depths[-1]], self._gold, ks=())
                ndcg, mrr = (mean_of(scores.values[name], settings) for name in ("nDCG@10", "MRR"))
                ranks.append(StageRank(stage=stage, ndcg_at_10=ndcg, mrr=mrr))
        return StageRecall(
            system=first.system,
            profile=first.profile,
            rounds=self._rounds,
            gold="gold_pages" if self._labels is None else "labels",
            questions=len(self._gold),
            without_gold=len(self._heads) - len(self._gold),
            unranked=self._unranked,
            gold_pages=sum(map(len, self._gold.values())),
            chunks=self._chunks,
            confidence=settings.confidence,
            rows=tuple(rows),
            ranks=tuple(ranks),
        )


def looked_at(trace: Trace, rounds: Literal["first", "any"]) -> tuple[Round, ...]:
    """Round 1, or all rounds."""
    return trace.rounds[:1] if rounds == "first" else trace.rounds


def with_labels(trace: Trace, labels: Gold) -> Trace:
    """A trace with the pages labeled relevant as gold pages; the question's own gold pages are put aside."""
    relevant = tuple(page for page, level in labels.get(trace.question.id, {}).items() if level > 0)
    return trace.model_copy(update={"question": trace.question.model_copy(update={"gold_pages": relevant})})


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


def _through_last(pages: Sequence[str], gold: Collection[str]) -> list[str]:
    """The beginning of a ranking, up to the last gold page in it.

    >>> _through_last(["a", "b", "c", "d"], {"a", "c", "e"})
    ['a', 'b', 'c']
    """
    last = max((place for place, page in enumerate(pages, start=1) if page in gold), default=0)
    return list(pages[:last])


def _row(
    stage: Stage,
    k: int,
    found: Mapping[str, Sequence[str]],
    gold: Gold,
    judged: float | None,
    settings: EvaluationSettings,
) -> StageRow:
    most = max(1, *map(len, found.values())) if found else 1
    values = question_scores(found, gold, ks=(most,)).values
    recall = values[f"recall@{most}"]
    return StageRow(
        stage=stage,
        k=k,
        recall=mean_of(recall, settings),
        any_gold=mean_of(values[f"any_gold@{most}"], settings),
        all_gold=mean_of(np.isclose(recall, 1.0), settings),
        judged=judged,
    )
