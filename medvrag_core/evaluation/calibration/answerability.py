"""Questions that the corpus cannot answer: whether a system is less sure of them, and can hold them back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from medvrag_core.errors import InputError
from medvrag_core.evaluation.calibration.confidence import stated_share
from medvrag_core.evaluation.calibration.reliability import RESAMPLES
from medvrag_core.evaluation.endings import Answered
from medvrag_core.evaluation.scoring import score
from medvrag_core.evaluation.statistics.means import Estimate
from medvrag_core.evaluation.statistics.resampling import percentile_interval
from medvrag_core.evaluation.statistics.shares import Share, share_of
from medvrag_core.records import Record
from medvrag_core.settings import EvaluationSettings


class HeldBack(Record):
    """What a threshold does that was chosen on other questions."""

    threshold: float = Field(description="answers of at least this confidence are given")
    answerable: Share = Field(description="answerable questions held back, which is a loss")
    unanswerable: Share = Field(description="unanswerable questions held back, which is the aim")
    right_before: Share = Field(description="right answers of all answerable questions")
    right_given: Share = Field(description="right answers of the answerable questions that are still answered")


class AnswerabilityReport(Record):
    """Confidence on answerable against unanswerable questions of one arm."""

    system: str
    answerable: int
    unanswerable: int
    auroc: Estimate = Field(
        description="chance that an answerable question gets the higher confidence; half without any knowledge"
    )
    p_value: float = Field(description="Mann-Whitney test, two-sided")
    held_back: HeldBack | None = Field(None, description="null where there were no other questions to choose on")


def answerability_report(
    answerable: Sequence[Answered],
    unanswerable: Sequence[Answered],
    settings: EvaluationSettings,
    *,
    chosen_on: tuple[Sequence[Answered], Sequence[Answered]] | None = None,
) -> AnswerabilityReport:
    """The confidence of a question without an answer given is 0: it was held back already.

    Parameters
    ----------
    answerable, unanswerable : traces of one arm
    chosen_on : the same two of other questions, on which the threshold is chosen, see :func:`best_threshold`

    Raises
    ------
    InputError : a list is empty, or a reply tells no shares
    """
    yes, no = confidences_of(answerable), confidences_of(unanswerable)
    held = None
    if chosen_on is not None:
        threshold = best_threshold(*map(confidences_of, chosen_on))
        held = _held_back(answerable, yes, no, threshold, settings)
    from scipy.stats import mannwhitneyu

    rng = np.random.default_rng(settings.seed)
    draws = np.array(
        [
            auroc(yes[rng.integers(0, len(yes), len(yes))], no[rng.integers(0, len(no), len(no))])
            for _ in range(min(RESAMPLES, settings.bootstrap_samples))
        ]
    )
    low, high = percentile_interval(draws, settings.confidence)
    return AnswerabilityReport(
        system=answerable[0].system,
        answerable=len(yes),
        unanswerable=len(no),
        auroc=Estimate(value=auroc(yes, no), low=low, high=high),
        p_value=float(mannwhitneyu(yes, no).pvalue),
        held_back=held,
    )


def confidences_of(traces: Sequence[Answered]) -> NDArray[np.float64]:
    """Stated share of the answer of every trace, 0 where none was given, float, shape (n,).

    Raises InputError for no trace.
    """
    if not traces:
        raise InputError("there are no answers to take a confidence of")
    return np.array([0.0 if trace.label is None else stated_share(trace) for trace in traces])


def auroc(higher: NDArray[np.float64], lower: NDArray[np.float64]) -> float:
    """Share of pairs in which the first is larger; equal ones count a half.

    >>> auroc(np.array([0.9, 0.5]), np.array([0.5]))
    0.75
    """
    difference = higher[:, None] - lower[None, :]
    return float((np.sign(difference).mean() + 1) / 2)


def best_threshold(answerable: NDArray[np.float64], unanswerable: NDArray[np.float64]) -> float:
    """The confidence that parts them best: largest share of unanswerable less share of answerable ones held back.

    The lowest of several that do as well, so that as much as possible is answered (Youden's index).

    >>> best_threshold(np.array([0.9, 0.8]), np.array([0.3, 0.8]))
    0.8
    """
    levels = np.unique(np.concatenate([answerable, unanswerable]))
    gains = [(unanswerable < level).mean() - (answerable < level).mean() for level in levels]
    return float(levels[int(np.argmax(gains))])


def _held_back(
    answerable: Sequence[Answered],
    yes: NDArray[np.float64],
    no: NDArray[np.float64],
    threshold: float,
    settings: EvaluationSettings,
) -> HeldBack:
    right = np.array([score(trace) for trace in answerable], dtype=bool)
    given = yes >= threshold

    def share(hits: NDArray[np.bool_]) -> Share:
        return share_of(int(hits.sum()), len(hits), confidence=settings.confidence)

    return HeldBack(
        threshold=threshold,
        answerable=share(~given),
        unanswerable=share(no < threshold),
        right_before=share(right),
        right_given=share(right[given]),
    )
