"""What an arm costs for each question that it answers right and another arm does not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from medvrag_core.evaluation.cost.bill import QUANTITIES, CostReport
from medvrag_core.evaluation.endings import Answered
from medvrag_core.evaluation.scoring import score
from medvrag_core.evaluation.statistics.contrasts import Effect, compare_arms
from medvrag_core.evaluation.statistics.means import resampled_means
from medvrag_core.evaluation.statistics.resampling import percentile_interval
from medvrag_core.records import Record
from medvrag_core.settings import EvaluationSettings

Shown = Literal["more right", "fewer right", "not shown"]


class ExtraCost(Record):
    """One quantity, mean a question; differences are arm b minus arm a, with paired bootstrap intervals.

    A single question shows no spread, and has no interval.

    ``per_extra`` is the cost of one extra right answer with its Fieller interval; null unless b is shown to be right
    more often.
    """

    quantity: str
    mean_a: float
    mean_b: float
    difference: float
    low: float | None
    high: float | None
    per_extra: float | None = None
    per_extra_low: float | None = None
    per_extra_high: float | None = None


class ExtraRight(Record):
    """Cost of arm b over arm a beside what it brings.

    ``right`` is the question-weighted difference, since costs are means over questions too. ``shown`` is ``more right``
    or ``fewer right`` when its interval and its adjusted p-value both say so; else zero extra right answers cannot be
    ruled out, and the cost of one has no bound.
    """

    a: str
    b: str
    right: Effect
    over_sets: Effect | None = Field(description="the difference of the mean over sets; null where there is one set")
    family: str
    shown: Shown
    rows: tuple[ExtraCost, ...]


class Costs(Record):
    """What ``medvrag cost --json`` prints; the last two are null without a second arm."""

    cost: CostReport
    against: CostReport | None
    extra_right: ExtraRight | None


def extra_right(
    arms: Mapping[str, Sequence[Answered]],
    costs: Mapping[str, CostReport],
    pairs: Mapping[str, tuple[str, str]],
    settings: EvaluationSettings,
    *,
    family: str,
) -> list[ExtraRight]:
    """Compare the costs of arms with their right answers, question by question.

    Parameters
    ----------
    arms, costs : answers and cost report by name of the arm; questions in error count as wrong and cost what they cost
    pairs : name of a contrast to its arms ``(a, b)``
    settings : confidence, resamples and seed
    family : what the adjusted p-values are adjusted over

    Raises
    ------
    InputError : a pair names an arm that is not there, its arms did not answer the same questions, or a question has
        no gold answer
    """
    contrasts = compare_arms(arms, pairs, settings, family=family)
    sides = [(_costs(costs[a]), _costs(costs[b])) for a, b in pairs.values()]
    draws = _draws([b - a for a, b in sides], settings)
    found = []
    for made, (a, b), side, drawn in zip(contrasts, pairs.values(), sides, draws, strict=True):
        effect = next(e for e in made.estimates if e.name == "question_weighted")
        right = _right(arms[b]) - _right(arms[a])
        shown = _shown(effect, right, settings.confidence)
        rows = _rows(*side, drawn, right if shown == "more right" else None, settings.confidence)
        over_sets = next(e for e in made.estimates if e.name == "macro") if len(made.sets) > 1 else None
        extra = ExtraRight(a=a, b=b, right=effect, over_sets=over_sets, family=family, shown=shown, rows=tuple(rows))
        found.append(extra)
    return found


def _rows(
    costs_a: NDArray[np.float64],
    costs_b: NDArray[np.float64],
    draws: NDArray[np.float64],
    right: NDArray[np.float64] | None,
    confidence: float,
) -> list[ExtraCost]:
    """Rows of all quantities that an arm spent; without ``right``, no ratio."""
    rows = []
    for place, quantity in enumerate(QUANTITIES):
        a, b = costs_a[:, place], costs_b[:, place]
        # Money is not a number where an arm has no prices.
        if not (a.any() or b.any()) or np.isnan(a + b).any():
            continue
        low, high = percentile_interval(draws[:, place], confidence) if len(a) > 1 else (None, None)
        ratio = fieller_interval(b - a, right, confidence) if right is not None else None
        rows.append(
            ExtraCost(
                quantity=quantity,
                mean_a=float(a.mean()),
                mean_b=float(b.mean()),
                difference=float((b - a).mean()),
                low=low,
                high=high,
                per_extra=float((b - a).mean() / right.mean()) if ratio and right is not None else None,
                per_extra_low=ratio[0] if ratio else None,
                per_extra_high=ratio[1] if ratio else None,
            )
        )
    return rows


def fieller_interval(
    costs: NDArray[np.float64], right: NDArray[np.float64], confidence: float
) -> tuple[float, float] | None:
    """Interval of ``mean(costs) / mean(right)`` of paired differences, shapes (n,); None where it has no bound.

    All ratios r for which a t test does not reject that ``costs - r * right`` has the mean zero (Fieller 1954). They
    form a bounded interval only if the same test rejects that ``right`` has the mean zero.

    >>> fieller_interval(np.array([2.0, 2.0, 4.0, 4.0]), np.array([1.0, 1.0, 1.0, 1.0]), 0.95)
    (1.16..., 4.83...)
    >>> fieller_interval(np.array([2.0, 2.0, 4.0, 4.0]), np.array([1.0, -1.0, 1.0, 0.0]), 0.95) is None
    True
    """
    from scipy.stats import t

    n = len(costs)
    if n < 2:
        return None
    limit = float(t.ppf((1 + confidence) / 2, n - 1)) ** 2 / n
    (var_c, cov), (_, var_r) = np.cov(costs, right)
    c, r = float(costs.mean()), float(right.mean())
    # (c - x r)^2 <= limit * variance(costs - x right), a quadratic in x.
    square, half, constant = r * r - limit * var_r, c * r - limit * cov, c * c - limit * var_c
    if square <= 0:
        return None
    spread = float(np.sqrt(max(0.0, half * half - square * constant)))
    return float((half - spread) / square), float((half + spread) / square)


def _shown(effect: Effect, right: NDArray[np.float64], confidence: float) -> Shown:
    # The exact test and the bootstrap can disagree; and a ratio has bounds only where a t test agrees as well.
    if effect.p_adjusted >= 1 - confidence or fieller_interval(right, right, confidence) is None:
        return "not shown"
    return "more right" if effect.low > 0 else "fewer right" if effect.high < 0 else "not shown"


def _right(answers: Sequence[Answered]) -> NDArray[np.float64]:
    return np.array([score(t) for t in sorted(answers, key=lambda t: t.question.id)], dtype=np.float64)


def _costs(report: CostReport) -> NDArray[np.float64]:
    """Total of every question by quantity, shape (n, quantities), in the order of the ids; not a number for None."""
    totals = [q.total for q in sorted(report.questions, key=lambda q: q.id)]
    return np.array([[getattr(total, name) for name in QUANTITIES] for total in totals], dtype=np.float64)


def _draws(differences: Sequence[NDArray[np.float64]], settings: EvaluationSettings) -> list[NDArray[np.float64]]:
    """Resampled means of every contrast; those of one number of questions share their resamples, drawn once."""
    drawn: dict[int, NDArray[np.float64]] = {}
    for n in {len(d) for d in differences}:
        columns = np.hstack([d for d in differences if len(d) == n])
        drawn[n] = resampled_means(columns, samples=settings.bootstrap_samples, seed=settings.seed)
    width = len(QUANTITIES)
    seen: Counter[int] = Counter()
    found = []
    for d in differences:
        start = width * seen[len(d)]
        found.append(drawn[len(d)][:, start : start + width])
        seen[len(d)] += 1
    return found
