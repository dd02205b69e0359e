"""Filter loss: gold pages that Stage 1 found and the filter threw away, and by which call (paper section 3.3).

A page that was never among the candidates is no loss of the filter. The paper reports the filter's time alone; what it
loses is bounded by nothing but its calls, so each loss is told apart by the kind of call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from statistics import median
from typing import Literal

from pydantic import Field

from medvrag_core.evaluation.retrieval.stages import looked_at
from medvrag_core.evaluation.scoring import require_one_arm
from medvrag_core.evaluation.statistics.proportions import wilson
from medvrag_core.filter.budget import SUMMARY_CUT
from medvrag_core.reasoning.sameness import page_of
from medvrag_core.records import Record, Round, ShardDecision, Trace

Fate = Literal["lost_unseen", "lost_in_map", "lost_in_reduce", "lost_to_fallback", "kept"]
FATES: tuple[Fate, ...] = ("lost_unseen", "lost_in_map", "lost_in_reduce", "lost_to_fallback", "kept")
"""What can become of a candidate, in the order in which the further one counts."""


class FateRow(Record):
    """Gold pages with one fate; ``share`` is of the gold pages among the candidates, with its Wilson interval."""

    fate: Fate
    count: int
    share: float
    low: float
    high: float


class FilterCalls(Record):
    """The filter's calls of the rounds looked at, of all questions."""

    calls: int
    fallbacks: dict[str, int] = Field(description="calls that gave no ranking, by reason")
    repeated: int = Field(description="ids that a ranking named twice")
    strangers: int = Field(description="ids in a ranking that the call did not show")
    filled: int = Field(description="places filled in Stage-1 order, those of fallbacks among them")
    cut: int = Field(description="calls that showed a summary cut to fit the context")
    prompt_tokens_median: float | None = Field(description="over calls of a model; null where there was none")
    prompt_tokens_max: int | None


class FilterLoss(Record):
    """What one system's filter did to gold pages.

    Pages of one question are not independent, so that the intervals are somewhat too narrow where questions have
    several gold pages.
    """

    system: str
    profile: str
    rounds: Literal["first", "any"]
    questions: int = Field(description="questions with gold pages and at least one round")
    gold: int = Field(description="their gold pages")
    candidates: int = Field(description="of these, among the Stage-1 candidates")
    never_candidates: int = Field(description="the others; not a loss of the filter")
    rows: tuple[FateRow, ...] = Field(description="one a fate, kept first; the counts sum to candidates")
    calls: FilterCalls


def filter_loss(
    traces: Iterable[Trace], *, rounds: Literal["first", "any"] = "first", confidence: float = 0.95
) -> FilterLoss:
    """Count the fates of gold pages.

    Parameters
    ----------
    traces : of one arm, looked at one by one and not kept
    rounds : ``first``: what round 1 did; ``any``: over all rounds, each page by the round in which it came furthest. A
        fallback counts as further than a ranking that dropped the page, since a ranking might have kept it
    confidence : of the Wilson intervals

    Raises
    ------
    InputError : no trace, a question twice, or traces of several arms

    Notes
    -----
    Chunks stand for their page, by the chunk that came furthest. ``lost_unseen`` is a candidate that no recorded call
    showed.
    """
    count = FateCount(rounds)
    for trace in traces:
        count.add(trace)
    return count.loss(confidence)


class FateCount:
    """What :func:`filter_loss` needs of each trace, so that several reports can look at a trace in one pass."""

    def __init__(self, rounds: Literal["first", "any"] = "first") -> None:
        self._rounds = rounds
        self._heads: list[Trace] = []
        self._fates: Counter[Fate] = Counter()
        self._questions = self._gold = 0
        self._calls: list[ShardDecision] = []

    def add(self, trace: Trace) -> None:
        """Look at one more trace."""
        self._heads.append(trace.model_copy(update={"rounds": ()}))
        looked = looked_at(trace, self._rounds)
        # The lists of pages are long, and nothing below looks at them.
        self._calls += [
            call.model_copy(update={"shown": (), "kept": ()}) for round_ in looked for call in round_.filter.calls
        ]
        pages = dict.fromkeys(trace.question.gold_pages) if looked else {}
        self._questions += bool(pages)
        self._gold += len(pages)
        for page in pages:
            fates = [fate for round_ in looked for fate in _fates(page, round_)]
            if fates:
                self._fates[max(fates, key=FATES.index)] += 1

    def loss(self, confidence: float = 0.95) -> FilterLoss:
        """The report on all of them; raises what :func:`filter_loss` raises."""
        require_one_arm(self._heads)
        came_in = self._fates.total()
        return FilterLoss(
            system=self._heads[0].system,
            profile=self._heads[0].profile,
            rounds=self._rounds,
            questions=self._questions,
            gold=self._gold,
            candidates=came_in,
            never_candidates=self._gold - came_in,
            rows=tuple(_row(fate, self._fates[fate], came_in, confidence) for fate in reversed(FATES)),
            calls=_calls(self._calls),
        )


def filter_fallbacks(traces: Sequence[Trace]) -> dict[str, int]:
    """Questions with at least one filter call that gave no ranking, by reason; one with two reasons counts for both."""
    counts: Counter[str] = Counter()
    for trace in traces:
        counts.update({_reason(c) for round_ in trace.rounds for c in round_.filter.calls if c.fallback})
    return dict(sorted(counts.items()))


def _fates(page: str, round_: Round) -> Iterator[Fate]:
    """The fate of each candidate that stands for a page."""
    kept = set(round_.filter.kept)
    for hit in round_.stage1:
        if not hit.page_id.startswith(page) or page_of(hit.page_id) != page:
            continue
        if hit.page_id in kept:
            yield "kept"
            continue
        last = next((call for call in reversed(round_.filter.calls) if hit.page_id in call.shown), None)
        if last is None:
            yield "lost_unseen"
        elif hit.page_id in last.kept:  # A last reduce call that saw only the best of each shard left it behind.
            yield "lost_in_reduce"
        elif last.fallback:
            yield "lost_to_fallback"
        else:
            yield "lost_in_map" if last.phase == "map" else "lost_in_reduce"


def _calls(calls: Sequence[ShardDecision]) -> FilterCalls:
    tokens = [call.prompt_tokens for call in calls if call.prompt_tokens]
    return FilterCalls(
        calls=len(calls),
        fallbacks=dict(sorted(Counter(_reason(call) for call in calls if call.fallback).items())),
        repeated=sum(call.repeated for call in calls),
        strangers=sum(call.strangers for call in calls),
        filled=sum(call.filled for call in calls),
        cut=sum(SUMMARY_CUT in call.flags for call in calls),
        prompt_tokens_median=float(median(tokens)) if tokens else None,
        prompt_tokens_max=max(tokens, default=None),
    )


def _row(fate: Fate, count: int, n: int, confidence: float) -> FateRow:
    low, high = wilson(count, n, confidence=confidence)
    return FateRow(fate=fate, count=count, share=count / n if n else 0.0, low=low, high=high)


def _reason(call: ShardDecision) -> str:
    return call.reason or "unknown"
