"""What a run can find before it is made: power, smallest detectable difference, seeds, and the noise of an A/A run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
from pydantic import Field

from medvrag_core.errors import InputError
from medvrag_core.evaluation.statistics.estimands import ESTIMANDS, Arm, Estimand, set_weights
from medvrag_core.evaluation.statistics.proportions import detectable_difference, questions_needed, wilson
from medvrag_core.records import Record


class FlipRate(Record):
    """How often a question changes between two runs of one arm; the question is the unit, pairs of runs are averaged.

    The interval is Wilson's with the number of questions as n, a little wide where there are more than two runs.
    """

    system: str
    runs: int
    n: int
    right_or_wrong: float = Field(description="share of questions that are right in one run and wrong in the other")
    low: float
    high: float
    label: float = Field(description="share of questions whose chosen option (by its text) or outcome differs")


def flip_rate(arm: Arm, *, confidence: float = 0.95) -> FlipRate:
    """Flip rate of an arm that was run at least twice; raises InputError for a single run."""
    if arm.runs < 2:
        raise InputError(
            f"a flip rate of '{arm.name}' needs two runs of it", way_out="run the same arm again elsewhere"
        )
    pairs = list(combinations(range(arm.runs), 2))
    flips = float(np.mean([(arm.right[i] != arm.right[j]).mean() for i, j in pairs]))
    n = len(arm.ids)
    low, high = wilson(round(flips * n), n, confidence=confidence)
    return FlipRate(
        system=arm.name,
        runs=arm.runs,
        n=n,
        right_or_wrong=flips,
        low=low,
        high=high,
        label=float(np.mean([(arm.labels[i] != arm.labels[j]).mean() for i, j in pairs])),
    )


def discordance_of_seeds(discordance: float, flips: float, seeds: int) -> float:
    """Mean squared difference of two arms whose seeds are averaged within each question.

    Of the discordance of single runs, the flip rate of an A/A run is noise (half of it from each arm), and averaging
    K seeds leaves a K-th of it.

    >>> round(discordance_of_seeds(0.11, 0.055, 5), 3)
    0.066
    """
    if not 0 <= discordance <= 1:
        raise InputError(f"a discordance of {discordance} is no share of questions", way_out="give one as in 0.10")
    if not 0 <= flips <= discordance:
        raise InputError(
            f"a flip rate of {flips:.1%} does not fit a discordance of {discordance:.1%}",
            way_out="two arms differ at least as often as two runs of one arm",
        )
    return discordance - flips + flips / seeds


def effective_questions(sizes: Sequence[int], estimand: Estimand) -> float:
    """Questions of one set that would tell as much as all sets do about the estimand, at one discordance.

    >>> round(effective_questions([1273, 4183, 500, 1089], "macro"))
    4058
    """
    n = np.asarray(sizes, dtype=float)
    return float(1 / (set_weights(sizes, estimand) ** 2 / n).sum())


def power_of(difference: float, n: float, discordance: float, *, alpha: float = 0.05) -> float:
    """Probability that a two-sided McNemar test of ``n`` questions finds a true ``difference`` (in points).

    Normal approximation with the variances under both hypotheses.

    >>> round(power_of(1.0, 7045, 0.10), 2)
    0.76
    """
    from statsmodels.stats.power import normal_power_het

    delta = abs(difference) / 100
    if not 0 < delta <= discordance <= 1 or n <= 0:
        raise InputError(
            f"a difference of {difference} points cannot come from a discordance of {discordance:.1%}",
            way_out="give points above 0, and no more than the arms differ",
        )
    return float(
        normal_power_het(
            delta,
            n,
            alpha,
            std_null=math.sqrt(discordance),
            # All discordant questions on one side have no spread left, and the formula divides by it.
            std_alternative=math.sqrt(max(discordance - delta**2, 1e-12)),
            alternative="two-sided",
        )
    )


class PowerRow(Record):
    """One estimand or one set at one discordance."""

    what: str = Field(description="macro, question_weighted, or the name of a set")
    n: int
    effective_n: float = Field(description="questions of a single set that would tell as much")
    discordance: float = Field(description="share of questions on which two single runs of the arms differ")
    power: float = Field(description="probability to find the difference planned for")
    detectable: float | None = Field(description="smallest true difference in points found with the target power")
    questions_needed: int = Field(description="effective questions at which the difference has the target power")


class PowerPlan(Record):
    """Power of a comparison before it is run; both estimands, then every set."""

    sets: dict[str, int]
    n: int
    difference: float = Field(description="true difference planned for, in points")
    target: float = Field(description="power wanted")
    alpha: float
    tests: int = Field(description="tests of the family; each is planned at alpha / tests, the first step of Holm")
    seeds: int
    flip_rate: float = Field(description="of an A/A run; the part of the discordance that seeds average out")
    preregistration: str = Field("", description="SHA-256 of the file of the pre-registration")
    rows: tuple[PowerRow, ...]


def plan_power(
    sets: Mapping[str, int],
    discordances: Sequence[float],
    *,
    difference: float = 1.0,
    target: float = 0.8,
    alpha: float = 0.05,
    tests: int = 1,
    seeds: int = 1,
    flips: float = 0.0,
    preregistration: str = "",
) -> PowerPlan:
    """Power, detectable difference and needed questions for every discordance.

    Raises InputError for sizes, shares or a difference that cannot be.
    """
    if not sets or min(sets.values()) < 1:
        raise InputError("every set needs at least one question", way_out="give sizes as name=questions")
    if not 0 < alpha < 1 or not alpha < target < 1:
        raise InputError(
            f"a power of {target:g} at alpha {alpha:g} cannot be planned", way_out="choose 0 < alpha < power < 1"
        )
    if tests < 1 or seeds < 1:
        raise InputError("tests and seeds are counted from 1")
    sizes = list(sets.values())
    effective = {e: (sum(sizes), effective_questions(sizes, e)) for e in ESTIMANDS}
    subjects = [*effective.items(), *((name, (n, float(n))) for name, n in sets.items())]
    each = alpha / tests
    rows = []
    for single in discordances:
        psi = discordance_of_seeds(single, flips, seeds)
        for what, (n, questions) in subjects:
            rows.append(
                PowerRow(
                    what=what,
                    n=n,
                    effective_n=questions,
                    discordance=single,
                    power=power_of(difference, questions, psi, alpha=each),
                    detectable=detectable_difference(questions, psi, alpha=each, power=target),
                    questions_needed=questions_needed(difference, psi, alpha=each, power=target),
                )
            )
    return PowerPlan(
        sets=dict(sets),
        n=sum(sizes),
        difference=difference,
        target=target,
        alpha=alpha,
        tests=tests,
        seeds=seeds,
        flip_rate=flips,
        preregistration=preregistration,
        rows=tuple(rows),
    )
