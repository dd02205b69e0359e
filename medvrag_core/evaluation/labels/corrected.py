"""What a judge's labels are worth once its errors are known (Rogan and Gladen 1978).

A judge that is compared with people has a sensitivity and a specificity; from these its share of relevant pages, or a
recall that rests on its labels, is corrected.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from medvrag_core.errors import InputError
from medvrag_core.evaluation.labels.agreement import Agreement, RaterTable
from medvrag_core.evaluation.labels.relevance import Pair, RelevanceLabel, is_relevant
from medvrag_core.evaluation.statistics.means import Estimate, interval_around, resampled_sums
from medvrag_core.records import Record
from medvrag_core.settings import EvaluationSettings


class Correction(Record):
    """A judge's share of relevant pages, corrected by its errors against people.

    With ``kept`` pages the share is a recall: relevant pages among those, of all relevant pages of the pool.
    """

    pages: int = Field(description="pages that the judge labeled")
    questions: int
    apparent: Estimate = Field(description="as the judge has it")
    sensitivity: Estimate | None = Field(description="share of people's relevant pages that the judge finds")
    specificity: Estimate | None
    corrected: Estimate | None
    undefined: str = Field("", description="why there is no correction")
    undefined_draws: int = 0
    confidence: float


class RaterComparison(Record):
    """Two raters side by side, and the first one's share of relevant pages corrected by the second."""

    agreement: Agreement
    correction: Correction | None = None


def corrected_share(
    judge: Sequence[RelevanceLabel],
    people: Sequence[RelevanceLabel],
    settings: EvaluationSettings,
    *,
    kept: Collection[Pair] | None = None,
    partly: bool = False,
) -> Correction:
    """The judge's share of relevant pages, or with ``kept`` the recall of those pages, after Rogan and Gladen.

    With p the judge's share, the corrected one is (p + specificity - 1) / (sensitivity + specificity - 1), cut to 0
    to 1. The same for counts inside and outside of ``kept`` gives the recall, where the sensitivity cancels. One
    bootstrap draws questions for both the judge's share and its errors.

    The correction takes it that the judge errs inside and outside of ``kept`` alike, and that people's labels are
    right.

    Parameters
    ----------
    judge : labels of all pages of the pool
    people : labels of some of them, with the probability of each of being drawn; without one, a simple random sample
    kept : pairs that a stage let through

    Raises
    ------
    InputError : the judge labeled nothing clearly, or people labeled none of its pages
    """
    said = {x.pair: v for x in judge if (v := is_relevant(x.label, partly=partly)) is not None}
    table = RaterTable(people, judge, partly=partly)
    if not said or not table.pairs:
        raise InputError("people labeled no page that the judge labeled", way_out="label pages of the judged pool")
    inside = said.keys() if kept is None else said.keys() & set(kept)
    ids = sorted({question for question, _ in said} | {*table.questions})
    place = {question: number for number, question in enumerate(ids)}
    counts = np.zeros((len(ids), 8))
    for pair, relevant in said.items():
        counts[place[pair[0]], :2] += (relevant, 1)
        counts[place[pair[0]], 2:4] += (relevant and pair in inside, pair in inside)
    for pair, row in zip(table.pairs, table.cells, strict=True):
        counts[place[pair[0]], 4:] += row
    drawn, seen = resampled_sums(counts, settings), counts.sum(axis=0)
    recall = kept is not None
    n = len(ids)
    if recall and not seen[0]:
        raise InputError("the judge finds no relevant page in the pool, so there is no recall to speak of")
    value, sensitivity, specificity, apparent = (float(x[0]) for x in _corrected(seen[None, :], recall=recall))
    values, sensitivities, specificities, apparents = _corrected(drawn, recall=recall)
    why = _no_correction(sensitivity, specificity, value)
    usable = values[np.isfinite(values)]
    return Correction(
        pages=len(said),
        questions=n,
        apparent=interval_around(apparent, apparents[np.isfinite(apparents)], n, settings),
        sensitivity=_maybe(sensitivity, sensitivities, n, settings),
        specificity=_maybe(specificity, specificities, n, settings),
        corrected=None if why else interval_around(value, usable, n, settings),
        undefined=why,
        undefined_draws=len(values) - len(usable),
        confidence=settings.confidence,
    )


def _corrected(counts: NDArray[np.float64], *, recall: bool) -> tuple[NDArray[np.float64], ...]:
    """Corrected share, sensitivity, specificity and the judge's own share of every row; nan where undefined."""
    positive, pages, positive_in, pages_in, both, missed, false, neither = counts.T
    with np.errstate(divide="ignore", invalid="ignore"):
        sensitivity, specificity = both / (both + missed), neither / (neither + false)
        gain = np.where(sensitivity + specificity > 1, sensitivity + specificity - 1, np.nan)
        found = (positive - (1 - specificity) * pages) / gain
        found_in = (positive_in - (1 - specificity) * pages_in) / gain
        value = np.where(found > 0, found_in / found, np.nan) if recall else found / pages
        apparent = positive_in / positive if recall else positive / pages
    return np.clip(value, 0, 1), sensitivity, specificity, apparent


def _no_correction(sensitivity: float, specificity: float, value: float) -> str:
    if not np.isfinite(sensitivity):
        return "people found no relevant page, so the judge's sensitivity is unknown"
    if not np.isfinite(specificity):
        return "people found every page relevant, so the judge's specificity is unknown"
    if sensitivity + specificity <= 1:
        return "the judge is no better than chance"
    return "" if np.isfinite(value) else "the judge's errors alone explain every relevant page that it found"


def _maybe(value: float, draws: NDArray[np.float64], n: int, settings: EvaluationSettings) -> Estimate | None:
    return interval_around(value, draws[np.isfinite(draws)], n, settings) if np.isfinite(value) else None
