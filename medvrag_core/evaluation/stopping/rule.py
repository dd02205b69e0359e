"""A small learned rule that says after round 1 whether another round is worth its time, on questions it never saw.

Two ridge-penalized logistic regressions read round 1 and predict how likely a further round turns a wrong answer into
a right one, and a right one into a wrong one. The rule goes on where the expected gain is worth the seconds. Which
questions are in whose training set follows from the hash of their ids, so a question is never judged by a rule that
saw it, nor by one that saw another run of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from medvrag_core.errors import InputError
from medvrag_core.evaluation.statistics.contrasts import Rules
from medvrag_core.evaluation.statistics.folds import folds_of
from medvrag_core.evaluation.stopping.choices import FEATURES, Choices
from medvrag_core.evaluation.stopping.policies import Policy, PolicyRow, PolicyStep, mixed, policy_row, policy_steps
from medvrag_core.records import Record

RIDGE = 1.0
"""Penalty on standardized weights, that of a normal prior of variance 1; set beforehand, never tuned."""

LEARNED, HINDSIGHT = "learned rule", "hindsight"


@dataclass(frozen=True)
class Decisions:
    """What the rule says of every open question, each judged by the rule that did not see its fold.

    Attributes
    ----------
    recovers, loses : float, shape (n,), probability that going on turns wrong into right, right into wrong
    seconds : float, shape (n,), expected extra seconds: the mean of the training questions
    weights : float, shape (folds, 2, features), weights of both events for one standard deviation of a feature
    """

    recovers: NDArray[np.float64]
    loses: NDArray[np.float64]
    seconds: NDArray[np.float64]
    weights: NDArray[np.float64]

    @property
    def gain(self) -> NDArray[np.float64]:
        """Expected right answers that going on adds, shape (n,)."""
        return self.recovers - self.loses

    def goes(self, price: float) -> NDArray[np.bool_]:
        """Whether going on is worth it when a second costs ``price`` right answers, shape (n,)."""
        return self.gain > price * self.seconds


def cross_fit(
    features: NDArray[np.float64],
    recovered: NDArray[np.bool_],
    lost: NDArray[np.bool_],
    seconds: NDArray[np.float64],
    fold: NDArray[np.intp],
) -> Decisions:
    """Judge every fold by a rule that was learned on the others.

    Where all questions lie in one fold there is nothing to learn from: every gain is expected to be zero, so the rule
    does not go on.

    Parameters
    ----------
    features : shape (n, f)
    recovered, lost : whether going on turned wrong into right, right into wrong; shape (n,)
    seconds : what going on took beyond stopping, shape (n,)
    fold : the fold of every question, shape (n,)
    """
    folds = np.unique(fold)
    chances = np.zeros((2, len(fold)))
    expected = np.zeros(len(fold))
    weights = np.zeros((len(folds), 2, features.shape[1]))
    for place, number in enumerate(folds if len(folds) > 1 else ()):
        held, seen = fold == number, fold != number
        mean, spread = features[seen].mean(axis=0), features[seen].std(axis=0)
        # A feature without spread tells nothing; dividing by 1 keeps its weight at zero.
        scaled = (features - mean) / np.where(spread > 1e-12, spread, 1.0)
        scaled[:, spread <= 1e-12] = 0.0
        expected[held] = seconds[seen].mean()
        for event, happened in enumerate((recovered, lost)):
            intercept, weights[place, event] = fit_logistic(scaled[seen], happened[seen])
            chances[event, held] = 1 / (1 + np.exp(-(intercept + scaled[held] @ weights[place, event])))
    return Decisions(chances[0], chances[1], expected, weights)


def fit_logistic(scaled: NDArray[np.float64], happened: NDArray[np.bool_]) -> tuple[float, NDArray[np.float64]]:
    """Intercept and weights of a ridge-penalized logistic regression.

    An event that happened never or always has no finite intercept; it gets the rate ``(k + 1/2) / (n + 1)`` and no
    weights.

    Parameters
    ----------
    scaled : standardized features, shape (n, f)
    happened : shape (n,)
    """
    n, k = len(happened), int(happened.sum())
    if k in (0, n):
        return float(np.log((k + 0.5) / (n - k + 0.5))), np.zeros(scaled.shape[1])
    from statsmodels.genmod.families import Binomial
    from statsmodels.genmod.generalized_linear_model import GLM

    design = np.column_stack([np.ones(n), scaled])
    # statsmodels divides the likelihood by n; the intercept is free.
    penalty = np.r_[0.0, np.full(scaled.shape[1], RIDGE / n)]
    fitted = GLM(happened.astype(float), design, family=Binomial()).fit_regularized(alpha=penalty, L1_wt=0.0)
    return float(fitted.params[0]), np.asarray(fitted.params[1:], dtype=np.float64)


class FeatureWeight(Record):
    """Change in log-odds for one standard deviation of a feature, mean over the folds."""

    feature: str
    recovers: float
    loses: float


class FrontierPoint(Record):
    """The rule when only the given share of open questions, those of highest expected gain, goes on."""

    share: float
    accuracy: float
    mean_seconds: float


class StopRuleReport(Record):
    """The learned rule against the loop's own and the constant ones, all on held-out decisions."""

    n: int
    open: int = Field(description="questions with a choice after round 1")
    same_pages: int = Field(description="questions whose first round saw the same pages in the single-round arm")
    folds: int
    price: float = Field(description="right answers that a second must bring")
    recovered: int = Field(description="questions with a choice that going on turns from wrong into right")
    lost: int = Field(description="that it turns from right into wrong")
    went_on: int = Field(description="questions on which the learned rule goes on")
    weights: tuple[FeatureWeight, ...] = Field(description="features without spread left out")
    policies: tuple[PolicyRow, ...] = Field(
        description="always stop, always go where it differs from the own rule, own rule, learned rule, hindsight"
    )
    steps: tuple[PolicyStep, ...] = Field(description="the learned rule against every other but hindsight")
    frontier: tuple[FrontierPoint, ...] = Field(description="exploratory; the rule proper is the one at the price")


def stop_rule_report(
    made: Choices, *, folds: int = 5, price: float = 0.0, rules: Rules | None = None
) -> StopRuleReport:
    """Learn, judge held-out questions, and compare.

    ``hindsight`` goes on exactly where that turns wrong into right: a ceiling that no rule reaches. Tests take the
    decisions as given; that folds share training questions is not counted.

    Raises
    ------
    InputError : a price below zero, or fewer than two folds
    """
    if price < 0 or folds < 2:
        raise InputError(f"price {price:g}, {folds} folds: a price is not negative, and folds are two at least")
    rules = rules or Rules()
    stop, go, here = made.stop, made.go, made.open
    recovered, lost = go.right & ~stop.right, stop.right & ~go.right
    seconds = go.seconds - stop.seconds
    fold = folds_of(stop.arm.ids, folds)
    decided = cross_fit(made.features[here], recovered[here], lost[here], seconds[here], fold[here])
    learned = mixed(LEARNED, stop, go, _spread(here, decided.goes(price)))
    others = [stop, made.own] if (made.own.rounds == go.rounds).all() else [stop, go, made.own]
    pairs = {other.arm.name: (other.arm.name, LEARNED) for other in others}
    hindsight = mixed(HINDSIGHT, stop, go, recovered)
    confidence = 1 - rules.alpha
    mean = decided.weights.mean(axis=0) if here.any() else np.zeros((2, len(FEATURES)))
    return StopRuleReport(
        n=len(here),
        open=int(here.sum()),
        same_pages=made.same_pages,
        folds=folds,
        price=price,
        recovered=int(recovered[here].sum()),
        lost=int(lost[here].sum()),
        went_on=int(decided.goes(price).sum()),
        weights=tuple(
            FeatureWeight(feature=name, recovers=float(mean[0, place]), loses=float(mean[1, place]))
            for place, name in enumerate(FEATURES)
            if mean[:, place].any()
        ),
        policies=tuple(policy_row(p, confidence=confidence) for p in (*others, learned, hindsight)),
        steps=tuple(policy_steps([*others, learned], pairs, rules, family="stop rules")),
        frontier=_frontier(stop, go, here, decided.gain),
    )


def _spread(here: NDArray[np.bool_], goes: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Decisions on open questions as decisions on all; the others do not go on."""
    everywhere = np.zeros(len(here), dtype=bool)
    everywhere[here] = goes
    return everywhere


def _frontier(
    stop: Policy, go: Policy, here: NDArray[np.bool_], gain: NDArray[np.float64]
) -> tuple[FrontierPoint, ...]:
    order = np.argsort(-gain, kind="stable")
    points = []
    for count in np.unique(np.linspace(0, len(gain), 21).round().astype(int)):
        goes = np.zeros(len(gain), dtype=bool)
        goes[order[:count]] = True
        policy = mixed(LEARNED, stop, go, _spread(here, goes))
        points.append(
            FrontierPoint(
                share=count / max(1, len(gain)),
                accuracy=float(policy.right.mean()),
                mean_seconds=float(policy.seconds.mean()),
            )
        )
    return tuple(points)
