from __future__ import annotations

import numpy as np
import pytest

from medvrag_core.errors import InputError
from medvrag_core.evaluation.labels.corrected import Correction, corrected_share
from medvrag_core.evaluation.labels.relevance import Pair, RelevanceLabel
from medvrag_core.settings import EvaluationSettings

SETTINGS = EvaluationSettings(bootstrap_samples=2_000)


def label(pair: Pair, relevant: bool, rater: str = "judge", probability: float | None = None) -> RelevanceLabel:
    return RelevanceLabel(
        question_id=pair[0],
        page_id=pair[1],
        rater=rater,
        label="relevant" if relevant else "not_relevant",
        probability=probability,
    )


class World:
    """A pool with a known truth, a judge with known errors, and a stage that keeps relevant pages more often."""

    def __init__(self, seed: int, *, sensitivity: float, specificity: float, questions: int = 400) -> None:
        rng = np.random.default_rng(seed)
        self.pairs = [(f"q{q}", f"a#p{n}") for q in range(questions) for n in range(10)]
        self.truth = rng.random(len(self.pairs)) < 0.25
        said = np.where(
            self.truth, rng.random(len(self.pairs)) < sensitivity, rng.random(len(self.pairs)) > specificity
        )
        self.judge = [label(p, bool(v)) for p, v in zip(self.pairs, said, strict=True)]
        self.in_stage = rng.random(len(self.pairs)) < np.where(self.truth, 0.8, 0.3)
        self.kept = {p for p, inside in zip(self.pairs, self.in_stage, strict=True) if inside}
        # People look at every page that the judge calls relevant, and at a tenth of the others.
        chance = np.where(said, 1.0, 0.1)
        seen = rng.random(len(self.pairs)) < chance
        self.people = [label(self.pairs[i], bool(self.truth[i]), "ann", float(chance[i])) for i in np.flatnonzero(seen)]
        self.prevalence = float(self.truth.mean())
        self.recall = float(self.in_stage[self.truth].mean())


def covers(found: Correction, truth: float) -> bool:
    assert found.corrected is not None
    return found.corrected.low <= truth <= found.corrected.high


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_correction_finds_the_truth_that_the_judge_misses(seed: int) -> None:
    world = World(seed, sensitivity=0.7, specificity=0.85)
    share = corrected_share(world.judge, world.people, SETTINGS)
    recall = corrected_share(world.judge, world.people, SETTINGS, kept=world.kept)
    assert covers(share, world.prevalence) and covers(recall, world.recall)
    assert not share.apparent.low <= world.prevalence <= share.apparent.high
    assert not recall.apparent.low <= world.recall <= recall.apparent.high
    assert share.sensitivity is not None and share.sensitivity.low <= 0.7 <= share.sensitivity.high
    assert share.specificity is not None and share.specificity.low <= 0.85 <= share.specificity.high
    assert share.undefined_draws == 0


def test_without_the_probabilities_the_errors_would_be_wrong() -> None:
    world = World(0, sensitivity=0.7, specificity=0.85)
    blind = [x.model_copy(update={"probability": None}) for x in world.people]
    assert not covers(corrected_share(world.judge, blind, SETTINGS), world.prevalence)


def test_a_judge_without_errors_is_not_corrected() -> None:
    world = World(3, sensitivity=1.0, specificity=1.0, questions=50)
    found = corrected_share(world.judge, world.people, SETTINGS)
    assert found.corrected is not None
    assert found.corrected.value == pytest.approx(found.apparent.value) == pytest.approx(world.prevalence)
    assert found.sensitivity is not None and found.sensitivity.low < 1.0


def test_the_arithmetic_of_a_small_table() -> None:
    """20 pages, 8 called relevant; of 10 seen by people: 3 found, 1 missed, 2 wrong, 4 rightly rejected."""
    pairs = [(f"q{n}", "a#p1") for n in range(20)]
    judge = [label(p, n < 8) for n, p in enumerate(pairs)]
    people = [label(pairs[n], n < 3 or n == 8, "ann") for n in (0, 1, 2, 3, 4, 8, 9, 10, 11, 12)]
    found = corrected_share(judge, people, SETTINGS)
    assert found.corrected is not None and found.sensitivity is not None and found.specificity is not None
    assert (found.sensitivity.value, found.specificity.value) == pytest.approx((3 / 4, 4 / 6))
    assert found.corrected.value == pytest.approx((0.4 + 4 / 6 - 1) / (3 / 4 + 4 / 6 - 1))
    kept = corrected_share(judge, people, SETTINGS, kept=set(pairs[:5]))
    assert kept.apparent.value == 5 / 8
    assert kept.corrected is not None
    assert kept.corrected.value == 1.0  # (5 - 5/3) / (8 - 20/3), cut to 1


@pytest.mark.parametrize(
    ("judge", "people", "why"),
    [
        ([1, 0, 0], [0, 0, 0], "no relevant page"),
        ([1, 0, 1], [1, 1, 1], "every page relevant"),
        ([1, 0, 1, 0], [0, 1, 0, 1], "no better than chance"),
    ],
)
def test_what_cannot_be_corrected_says_why(judge: list[int], people: list[int], why: str) -> None:
    pairs = [(f"q{n}", "a#p1") for n in range(len(judge))]
    found = corrected_share(
        [label(p, bool(v)) for p, v in zip(pairs, judge, strict=True)],
        [label(p, bool(v), "ann") for p, v in zip(pairs, people, strict=True)],
        SETTINGS,
    )
    assert found.corrected is None and why in found.undefined
    assert found.apparent.value == pytest.approx(np.mean(judge))


def test_nothing_to_correct_with_is_refused() -> None:
    judge = [label(("q1", "a#p1"), False)]
    with pytest.raises(InputError, match="people labeled no page"):
        corrected_share(judge, [label(("q2", "a#p1"), True, "ann")], SETTINGS)
    with pytest.raises(InputError, match="no relevant page in the pool"):
        corrected_share(judge, [label(("q1", "a#p1"), True, "ann")], SETTINGS, kept=set())
