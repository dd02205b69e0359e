"""Ways to decide when to stop, as right answers against seconds; every way is read off stored arms, nothing is run.

An arm that always takes one round, an arm that always takes two, and the loop that decides for itself answered the
same questions, so what each way makes of a question is known, and so is any mixture of them question by question.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from medvrag_core.evaluation.statistics.contrasts import Contrast, Rules, contrast_family
from medvrag_core.evaluation.statistics.estimands import Arm, arm_of
from medvrag_core.evaluation.statistics.means import resampled_means
from medvrag_core.evaluation.statistics.proportions import wilson
from medvrag_core.records import Record, Trace


@dataclass(frozen=True)
class Policy:
    """What one way to decide when to stop makes of every question.

    Attributes
    ----------
    arm : right or wrong, of a single run; questions in the order of their ids
    seconds : float, shape (n,), wall-clock time of each question
    rounds : int, shape (n,), rounds that each question took
    """

    arm: Arm
    seconds: NDArray[np.float64]
    rounds: NDArray[np.intp]

    @property
    def right(self) -> NDArray[np.bool_]:
        """Right or wrong, shape (n,)."""
        return np.asarray(self.arm.right[0], dtype=np.bool_)


class PolicyRow(Record):
    """Right answers and seconds of one policy; ``low`` and ``high`` bound the accuracy (Wilson)."""

    name: str
    n: int
    correct: int
    accuracy: float
    low: float
    high: float
    mean_rounds: float
    mean_seconds: float
    median_seconds: float


class PolicyStep(Record):
    """Policy ``b`` against policy ``a``: what its extra time buys.

    ``contrast`` holds the right answers (exact McNemar, adjusted over all steps of the report); the intervals of
    seconds and of the rate come from one paired bootstrap of questions.
    """

    contrast: Contrast
    extra_right: float = Field(description="right answers of b beyond those of a, per 1,000 questions")
    extra_seconds: float = Field(description="mean seconds a question of b beyond those of a")
    seconds_low: float | None = Field(description="null for a single question, which shows no spread")
    seconds_high: float | None
    right_per_second: float | None = Field(
        description="right answers that an extra second brings; null unless b is slower in every resample"
    )
    rate_low: float | None
    rate_high: float | None


def policy_of(traces: Sequence[Trace], name: str = "") -> Policy:
    """The policy of a stored arm, named as its system unless ``name`` is given; raises as ``arm_of`` does."""
    arm = arm_of([traces])
    by_id = {t.question.id: t for t in traces}
    return Policy(
        arm=replace(arm, name=name or arm.name),
        seconds=np.array([by_id[i].seconds for i in arm.ids]),
        rounds=np.array([len(by_id[i].rounds) for i in arm.ids], dtype=np.intp),
    )


def mixed(name: str, stop: Policy, go: Policy, goes: NDArray[np.bool_]) -> Policy:
    """The policy that does as ``go`` where ``goes`` (shape (n,)) says so, and as ``stop`` elsewhere."""
    arm = replace(
        go.arm,
        name=name,
        right=np.where(goes, go.arm.right, stop.arm.right),
        labels=np.where(goes, go.arm.labels, stop.arm.labels),
    )
    return Policy(arm, np.where(goes, go.seconds, stop.seconds), np.where(goes, go.rounds, stop.rounds))


def policy_row(policy: Policy, *, confidence: float = 0.95) -> PolicyRow:
    """Counts, accuracy with its interval, rounds and seconds."""
    n, correct = len(policy.right), int(policy.right.sum())
    low, high = wilson(correct, n, confidence=confidence)
    return PolicyRow(
        name=policy.arm.name,
        n=n,
        correct=correct,
        accuracy=correct / n,
        low=low,
        high=high,
        mean_rounds=float(policy.rounds.mean()),
        mean_seconds=float(policy.seconds.mean()),
        median_seconds=float(np.median(policy.seconds)),
    )


def policy_steps(
    policies: Sequence[Policy], pairs: Mapping[str, tuple[str, str]], rules: Rules | None = None, *, family: str
) -> list[PolicyStep]:
    """Compare policies by name, ``(a, b)`` a pair; all pairs are one family of tests.

    Pairs with a policy that is not there are left out, and still count in the adjustment. Raises InputError when the
    policies of a pair answered different questions.
    """
    rules = rules or Rules()
    by_name = {policy.arm.name: policy for policy in policies}
    contrasts = contrast_family({name: p.arm for name, p in by_name.items()}, pairs, rules, family=family)
    if not contrasts:
        return []
    # Right answers and seconds, two columns a contrast, all on the same draws.
    gains = np.column_stack([_gains(by_name[found.a], by_name[found.b]) for found in contrasts.values()])
    draws = resampled_means(gains, samples=rules.resamples, seed=rules.seed)
    return [
        _step(found, gains[:, place : place + 2], draws[:, place : place + 2], rules)
        for found, place in zip(contrasts.values(), range(0, gains.shape[1], 2), strict=True)
    ]


def _gains(a: Policy, b: Policy) -> NDArray[np.float64]:
    """What b is right and slow beyond a, shape (n, 2)."""
    return np.column_stack([b.right.astype(float) - a.right, b.seconds - a.seconds])


def _step(found: Contrast, gains: NDArray[np.float64], draws: NDArray[np.float64], rules: Rules) -> PolicyStep:
    several = len(gains) > 1
    tails = [rules.alpha / 2, 1 - rules.alpha / 2]
    seconds_low, seconds_high = np.quantile(draws[:, 1], tails)
    right, seconds = gains.mean(axis=0)
    # A rate whose denominator can be zero has no interval.
    slower = several and bool((draws[:, 1] > 0).all()) and seconds > 0
    rate = np.quantile(draws[:, 0] / draws[:, 1], tails) if slower else None
    return PolicyStep(
        contrast=found,
        extra_right=1000 * float(right),
        extra_seconds=float(seconds),
        seconds_low=float(seconds_low) if several else None,
        seconds_high=float(seconds_high) if several else None,
        right_per_second=float(right / seconds) if slower else None,
        rate_low=None if rate is None else float(rate[0]),
        rate_high=None if rate is None else float(rate[1]),
    )
