"""The best of several arms against another arm, on questions that had no say in which one is best.

The arm that looks best on some questions looks better there than it is: comparing it on the same questions would favor
it. So one half of the questions chooses, and the other half compares. The halves depend on nothing but the ids.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pydantic import Field

from medvrag_core.errors import InputError
from medvrag_core.evaluation.statistics.contrasts import Contrast, Rules, contrast
from medvrag_core.evaluation.statistics.estimands import Arm, Estimand, paired, set_weights
from medvrag_core.evaluation.statistics.folds import folds_of
from medvrag_core.records import Record


class ArmScore(Record):
    """Accuracy of one candidate on the half that chooses."""

    arm: str
    accuracy: float


class BestArm(Record):
    """Which arm was chosen on one half of the questions, and what it is worth on the other."""

    chosen: str
    estimand: Estimand = Field(description="mean by which the candidates were ranked")
    choosing: tuple[ArmScore, ...] = Field(description="all candidates, best first; equal ones by name")
    n_choosing: int
    contrast: Contrast = Field(description="the other arm against the chosen one on the other half: b is the other arm")


def best_arm(
    candidates: Sequence[Arm], other: Arm, rules: Rules | None = None, *, estimand: Estimand = "macro"
) -> BestArm:
    """Choose among ``candidates`` on one half of the questions, and compare with ``other`` on the other half.

    The contrast is one test that was fixed beforehand, so its p-value is not adjusted for the number of candidates.

    Parameters
    ----------
    candidates : arms that answered the questions of ``other``
    other : the arm that the best candidate is laid beside
    rules : of the contrast
    estimand : the mean that ranks the candidates

    Raises
    ------
    InputError
        There is no candidate, an arm is given twice, a candidate answered other questions than ``other``, or a half
        holds no question.
    """
    if not candidates:
        raise InputError("there is no arm to choose from", way_out="give at least one")
    names = [arm.name for arm in (*candidates, other)]
    if len(set(names)) < len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise InputError(f"arm '{repeated}' is given twice", way_out="give every arm once, and no arm against itself")
    chooses = folds_of(other.ids, 2) == 0
    for side, keep in (("chooses", chooses), ("compares", ~chooses)):
        if not keep.any():
            raise InputError(
                f"of {len(other.ids)} questions, none is in the half that {side}", way_out="answer more questions"
            )
    scores = sorted((-_accuracy(arm, other, chooses, estimand), arm.name) for arm in candidates)
    chosen = next(arm for arm in candidates if arm.name == scores[0][1])
    return BestArm(
        chosen=chosen.name,
        estimand=estimand,
        choosing=tuple(ArmScore(arm=name, accuracy=-score) for score, name in scores),
        n_choosing=int(chooses.sum()),
        contrast=contrast(chosen.only(~chooses), other.only(~chooses), rules),
    )


def _accuracy(arm: Arm, other: Arm, chooses: np.ndarray, estimand: Estimand) -> float:
    paired(other, arm)  # refuses an arm that answered other questions, also where they are in the other half
    pairs = paired(other.only(chooses), arm.only(chooses))
    means = np.bincount(pairs.of, weights=pairs.b, minlength=len(pairs.names)) / pairs.sizes
    # Rounded, so that equal counts are a tie and not a matter of the last bit.
    return round(float(set_weights(pairs.sizes, estimand) @ means), 12)
