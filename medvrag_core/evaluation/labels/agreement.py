"""Agreement of two raters.

Kappa says how much two raters agree beyond chance, and depends on how common relevant pages are; prevalence and raw
agreement therefore always stand beside it. Labels of one question are not independent, so intervals draw questions.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from medvrag_core.errors import InputError
from medvrag_core.evaluation.labels.relevance import Pair, RelevanceLabel, is_relevant
from medvrag_core.evaluation.statistics.means import Estimate, interval_around, resampled_sums
from medvrag_core.records import Record
from medvrag_core.settings import EvaluationSettings

_SAME = 1e-12


class Agreement(Record):
    """Two raters on the same pages.

    The counts are of pages as labeled. Shares and kappa weight a page by 1 / probability where labels say how likely
    it was to be drawn, so that they speak of the pool and not of the sample.
    """

    a: str
    b: str
    questions: int = Field(description="questions with a page that both labeled clearly; these are drawn")
    pages: int = Field(description="pages that both labeled relevant or not")
    both_relevant: int
    only_a: int = Field(description="relevant to a alone")
    only_b: int
    neither: int
    labels_a: dict[str, int] = Field(description="all labels of a by kind; unread: replies without a label")
    labels_b: dict[str, int]
    labeled_once: int = Field(description="pages that only one of the two labeled")
    unclear: int = Field(description="pages that both labeled, one of them unsure or unread")
    weighted: bool
    raw: Estimate = Field(description="share of pages on which they agree")
    prevalence_a: Estimate = Field(description="share of pages relevant to a")
    prevalence_b: Estimate
    kappa: Estimate | None = Field(description="Cohen's kappa; null where it is undefined")
    undefined: str = Field("", description="why kappa is undefined")
    undefined_draws: int = Field(description="resamples in which kappa is undefined; left out of its interval")
    one_kappa: bool = Field(description="all resamples give one kappa, so that its interval shows no uncertainty")
    confidence: float


def agreement(
    a: Sequence[RelevanceLabel], b: Sequence[RelevanceLabel], settings: EvaluationSettings, *, partly: bool = False
) -> Agreement:
    """Compare two raters.

    Parameters
    ----------
    a, b : labels of one rater each, one a pair
    settings : samples, seed and confidence of the bootstrap over questions
    partly : whether partly relevant counts as relevant

    Raises
    ------
    InputError : no page was labeled clearly by both, or they name different probabilities for one page
    """
    table = RaterTable(a, b, partly=partly)
    if not table.pairs:
        raise InputError(
            "no page was labeled relevant or not by both raters", way_out="give labels of the same questions and pages"
        )
    drawn, seen = resampled_sums(table.by_question(), settings), table.cells.sum(axis=0)
    n = len(table.questions)
    kappa = None if (why := _undefined(seen)) else _kappa_of(seen)
    draws = kappas(drawn.reshape(-1, 2, 2))
    defined = draws[np.isfinite(draws)]
    both, only_a, only_b, neither = map(int, table.counts)
    return Agreement(
        a=a[0].rater,
        b=b[0].rater,
        questions=n,
        pages=len(table.pairs),
        both_relevant=both,
        only_a=only_a,
        only_b=only_b,
        neither=neither,
        labels_a=_kinds(a),
        labels_b=_kinds(b),
        labeled_once=len(a) + len(b) - 2 * len(table.shared),
        unclear=len(table.shared) - len(table.pairs),
        weighted=table.weighted,
        raw=_share(seen, drawn, (0, 3), n, settings),
        prevalence_a=_share(seen, drawn, (0, 1), n, settings),
        prevalence_b=_share(seen, drawn, (0, 2), n, settings),
        kappa=None if kappa is None else interval_around(kappa, defined, n, settings, lowest=-1.0),
        undefined=why,
        undefined_draws=len(draws) - len(defined),
        one_kappa=len(defined) > 0 and float(np.ptp(defined)) < _SAME,
        confidence=settings.confidence,
    )


class RaterTable:
    """Pairs that both raters labeled clearly.

    Parameters
    ----------
    a, b : labels of one rater each
    partly : whether partly relevant counts as relevant

    Attributes
    ----------
    shared : pairs that both labeled, sorted
    pairs : those that both labeled relevant or not
    cells : a row a pair, 1 / probability in one column: relevant to both, to a alone, to b alone, to neither
    counts : column sums of the pairs themselves
    questions : ids, sorted
    """

    def __init__(self, a: Sequence[RelevanceLabel], b: Sequence[RelevanceLabel], *, partly: bool) -> None:
        first, second = ({label.pair: label for label in side} for side in (a, b))
        self.shared = sorted(first.keys() & second.keys())
        self.pairs: list[Pair] = []
        rows, weights = [], []
        for pair in self.shared:
            x, y = (is_relevant(side[pair].label, partly=partly) for side in (first, second))
            if x is None or y is None:
                continue
            self.pairs.append(pair)
            rows.append([x and y, x and not y, y and not x, not x and not y])
            weights.append(1 / _probability(first[pair], second[pair]))
        cells = np.array(rows, dtype=np.float64).reshape(-1, 4)
        self.counts = cells.sum(axis=0).astype(int)
        self.cells = cells * np.array(weights, dtype=np.float64)[:, None]
        self.weighted = len(set(weights)) > 1
        self.questions, self._of = np.unique([pair[0] for pair in self.pairs], return_inverse=True)

    def by_question(self) -> NDArray[np.float64]:
        """The cells summed by question, shape (questions, 4)."""
        sums = np.zeros((len(self.questions), 4))
        np.add.at(sums, self._of, self.cells)
        return sums


def _probability(a: RelevanceLabel, b: RelevanceLabel) -> float:
    told = {label.probability for label in (a, b) if label.probability is not None}
    if len(told) > 1:
        raise InputError(f"question '{a.question_id}', page '{a.page_id}': drawn with two probabilities {sorted(told)}")
    return told.pop() if told else 1.0


def _kinds(labels: Sequence[RelevanceLabel]) -> dict[str, int]:
    return dict(sorted(Counter(label.label or "unread" for label in labels).items()))


def _undefined(table: NDArray[np.float64]) -> str:
    both, only_a, only_b, neither = table
    if not (only_a or only_b or neither):
        return "both raters call every page relevant: chance alone would agree as often"
    if not (both or only_a or only_b):
        return "both raters call no page relevant: chance alone would agree as often"
    return ""


def _kappa_of(table: NDArray[np.float64]) -> float:
    from statsmodels.stats.inter_rater import cohens_kappa

    with warnings.catch_warnings():
        # Its standard error divides by zero in tables with an empty row; that error is not used.
        warnings.simplefilter("ignore", RuntimeWarning)
        return float(cohens_kappa(table.reshape(2, 2), return_results=False))


def kappas(tables: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cohen's kappa of square tables, shape (samples, k, k); nan where both raters know one label alone."""
    n = tables.sum(axis=(1, 2))
    with np.errstate(divide="ignore", invalid="ignore"):
        observed = np.trace(tables, axis1=1, axis2=2) / n
        chance = (tables.sum(axis=1) * tables.sum(axis=2)).sum(axis=1) / n**2
        found = np.where(1 - chance > _SAME, (observed - chance) / (1 - chance), np.nan)
    # Rounded, so that a kappa of zero is one, and not a negative hair's breadth.
    return np.asarray(np.round(found, 12) + 0.0, dtype=np.float64)


def _share(
    seen: NDArray[np.float64],
    drawn: NDArray[np.float64],
    cells: tuple[int, int],
    n: int,
    settings: EvaluationSettings,
) -> Estimate:
    chosen = list(cells)
    shares = drawn[:, chosen].sum(axis=1) / drawn.sum(axis=1)
    return interval_around(float(seen[chosen].sum() / seen.sum()), shares, n, settings)
