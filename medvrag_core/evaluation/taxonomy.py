"""Where a wrong answer came from, read off the stored outputs of every stage (paper section 4.5)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import IntEnum
from typing import Literal

from pydantic import Field

from medvrag_core.errors import MedvragError
from medvrag_core.evaluation.proportions import wilson
from medvrag_core.evaluation.scoring import require_one_arm, score
from medvrag_core.records import Record, Round, Trace

ErrorClass = Literal[
    "retrieval_miss",
    "filter_miss",
    "not_shown",
    "round_drift",
    "misread",
    "no_retrieval",
    "unlabeled",
    "unparsed",
    "truncated",
    "refused",
    "error",
]
ERROR_CLASSES: tuple[ErrorClass, ...] = (
    "retrieval_miss",
    "filter_miss",
    "not_shown",
    "round_drift",
    "misread",
    "no_retrieval",
    "unlabeled",
    "unparsed",
    "truncated",
    "refused",
    "error",
)


class _Reached(IntEnum):
    """How far a gold page came; the value orders the stages."""

    RETRIEVAL_MISS = 0
    FILTER_MISS = 1
    NOT_SHOWN = 2
    ROUND_DRIFT = 3
    MISREAD = 4


class ErrorRow(Record):
    """One class of wrong answers; ``share`` is of all wrong answers, with its Wilson interval."""

    error_class: ErrorClass
    count: int
    share: float
    low: float
    high: float


class ErrorTaxonomy(Record):
    """All wrong answers of one system, each in exactly one class."""

    system: str
    profile: str
    n: int = Field(description="questions")
    wrong: int = Field(description="questions not answered with the gold option, whatever the reason")
    need: Literal["any", "all"]
    rows: tuple[ErrorRow, ...]


def page_of(evidence_id: str) -> str:
    """The page that a page id or a chunk id speaks of.

    >>> page_of("PMC1#p12"), page_of("PMC1#p12#c3")
    ('PMC1#p12', 'PMC1#p12')
    """
    found = re.match(r".+#p[0-9]+", evidence_id)
    return found.group() if found else evidence_id


def classify_error(trace: Trace, relevant: AbstractSet[str], *, need: Literal["any", "all"] = "any") -> ErrorClass:
    """The class of one wrong answer.

    A gold page can be lost at four places, and one that was not lost was misread:

    - ``retrieval_miss``: in no round among the candidates of Stage 1 (top N1);
    - ``filter_miss``: among the candidates, but in no round kept by the filter (top N2);
    - ``not_shown``: kept, but ranked below the pages that the reader saw;
    - ``round_drift``: shown or kept in an earlier round, gone after the query was refined;
    - ``misread``: shown in the last round, and the answer is still wrong.

    The paper has four classes and calls them mutually exclusive, yet defines a retrieval miss as
    "no relevant page in the top-100", which contains its filter miss, "in the top-2,000 but dropped
    by Stage 2". Here a retrieval miss means not in the top N1, so that every error has one class.
    ``not_shown`` is ours: the paper has no name for a page that passed the filter at rank 11 to 100.

    Other classes keep what cannot be judged apart: ``error``, ``unparsed``, ``truncated`` and ``refused`` (no
    answer to explain), ``unlabeled`` (no gold page), ``no_retrieval`` (a system that retrieves nothing).

    Parameters
    ----------
    trace : a trace that does not end in the gold option
    relevant : gold page ids
    need : ``any``: judge by the gold page that came furthest (as the paper does); ``all``: by the
        one that was lost first, for questions that need several pages

    Raises
    ------
    MedvragError : the trace is right
    """
    if score(trace):
        raise MedvragError(f"question '{trace.question.id}' was answered right", way_out="classify wrong answers only")
    if trace.outcome != "answered":
        return trace.outcome
    if not relevant:
        return "unlabeled"
    rounds = [_pages_by_stage(r) for r in trace.rounds]
    if not any(candidates for candidates, _, _ in rounds):
        return "no_retrieval"
    reached = [_reached(page, rounds) for page in relevant]
    place = max(reached) if need == "any" else min(reached)
    return ERROR_CLASSES[place]


def error_taxonomy(
    traces: Sequence[Trace],
    relevant: Mapping[str, AbstractSet[str]] | None = None,
    *,
    need: Literal["any", "all"] = "any",
    confidence: float = 0.95,
) -> ErrorTaxonomy:
    """Count the classes over all wrong answers of one system.

    ``relevant`` maps question ids to gold pages; without it the gold pages of the questions are
    used. Classes without a case are left out, except the five that say where evidence was lost.
    """
    require_one_arm(traces)
    counts = dict.fromkeys(ERROR_CLASSES, 0)
    for trace in traces:
        if not score(trace):
            gold = frozenset(trace.question.gold_pages) if relevant is None else relevant.get(trace.question.id, set())
            counts[classify_error(trace, gold, need=need)] += 1
    wrong = sum(counts.values())
    rows = []
    for name in ERROR_CLASSES:
        if counts[name] or name in ERROR_CLASSES[: len(_Reached)]:
            low, high = wilson(counts[name], wrong, confidence=confidence)
            share = counts[name] / wrong if wrong else 0.0
            rows.append(ErrorRow(error_class=name, count=counts[name], share=share, low=low, high=high))
    first = traces[0]
    return ErrorTaxonomy(
        system=first.system, profile=first.profile, n=len(traces), wrong=wrong, need=need, rows=tuple(rows)
    )


_Stages = tuple[frozenset[str], frozenset[str], frozenset[str]]


def _pages_by_stage(round_: Round) -> _Stages:
    """Pages among the candidates, kept, and shown; each contains the next, whatever the arm stored."""
    shown = frozenset(page_of(i) for i in round_.shown)
    kept = shown | {page_of(i) for i in round_.filter.kept}
    return kept | {page_of(hit.page_id) for hit in round_.stage1}, kept, shown


def _reached(page: str, rounds: Sequence[_Stages]) -> _Reached:
    _, last_kept, last_shown = rounds[-1]
    if page in last_shown:
        return _Reached.MISREAD
    if any(page in shown or (page in kept and page not in last_kept) for _, kept, shown in rounds[:-1]):
        return _Reached.ROUND_DRIFT
    if page in last_kept:
        return _Reached.NOT_SHOWN
    if any(page in candidates for candidates, _, _ in rounds):
        return _Reached.FILTER_MISS
    return _Reached.RETRIEVAL_MISS
