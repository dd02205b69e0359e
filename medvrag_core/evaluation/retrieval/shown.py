"""How many of the gold pages a reader got to see, whatever brought them: the one retrieval measure of all systems.

Systems stop at other depths and search in other units and rounds, so their rankings do not compare. What the reader was
shown does: pages, pages of chunks, in all rounds together. A system that shows more pages shows more gold pages, so
the number of pages stands beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from pydantic import Field

from medvrag_core.evaluation.retrieval.metrics import QuestionScores
from medvrag_core.evaluation.retrieval.paired import PairedRetrieval, paired_family
from medvrag_core.evaluation.scoring import require_one_arm
from medvrag_core.evaluation.statistics.means import Estimate, mean_of
from medvrag_core.reasoning.sameness import page_of
from medvrag_core.records import Record, Trace
from medvrag_core.settings import EvaluationSettings

GOLD_SHOWN = "gold pages shown"


@dataclass(frozen=True)
class ShownPages:
    """What one system showed its reader.

    Attributes
    ----------
    system : its name
    scores : share of the gold pages of every question that has some
    pages : different pages shown, mean of all questions
    written : different documents written and shown, mean of all questions
    """

    system: str
    scores: QuestionScores
    pages: float
    written: float


class Shown(Record):
    """What one system showed its reader, mean of a question."""

    system: str
    questions: int = Field(description="with at least one gold page; one that ended in an error counts as it went")
    gold: Estimate | None = Field(
        description="share of a question's gold pages that were shown in some round; null without gold pages"
    )
    pages: float = Field(description="different pages that were shown; a chunk counts for the page its id names")
    written: float = Field(description="documents that were written for the question and shown")


def shown_pages(traces: Iterable[Trace]) -> ShownPages:
    """Pages and documents shown by one system; traces are looked at one by one and not kept.

    Raises InputError for no trace, or several arms.
    """
    heads: list[Trace] = []
    pages: list[set[str]] = []
    written: list[int] = []
    for trace in traces:
        heads.append(trace.model_copy(update={"rounds": ()}))
        pages.append({page_of(shown) for round_ in trace.rounds for shown in round_.shown})
        written.append(len({item.text for round_ in trace.rounds for item in round_.written}))
    require_one_arm(heads)
    asked = sorted(
        ((head.question, shown) for head, shown in zip(heads, pages, strict=True) if head.question.gold_pages),
        key=lambda pair: pair[0].id,
    )
    scores = QuestionScores(
        ids=tuple(question.id for question, _ in asked),
        ranked=np.array([bool(shown) for _, shown in asked], dtype=bool),
        values={
            GOLD_SHOWN: np.array(
                [fmean(page in shown for page in set(question.gold_pages)) for question, shown in asked],
                dtype=np.float64,
            )
        },
    )
    return ShownPages(heads[0].system, scores, fmean(map(len, pages)), fmean(written))


def shown_report(found: ShownPages, settings: EvaluationSettings) -> Shown:
    """The means, that of the gold pages with its interval."""
    gold = mean_of(found.scores.values[GOLD_SHOWN], settings) if found.scores.ids else None
    return Shown(
        system=found.system, questions=len(found.scores.ids), gold=gold, pages=found.pages, written=found.written
    )


def paired_shown(
    arms: Mapping[str, ShownPages], reference: str, settings: EvaluationSettings
) -> tuple[PairedRetrieval, ...]:
    """Gold pages shown by every arm that showed a page, against the reference on the same questions, as one family.

    Nothing where no question has a gold page.

    Raises
    ------
    InputError : the reference is not there, or arms answered other questions
    """
    scores = {name: found.scores for name, found in arms.items()}
    pairs = [(reference, name) for name, found in scores.items() if name != reference and found.ranked.any()]
    return paired_family(scores, pairs, settings, metrics=(GOLD_SHOWN,))
