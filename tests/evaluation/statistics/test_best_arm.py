"""Choosing on one half and comparing on the other: nothing leaks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medvrag_core.errors import InputError
from medvrag_core.evaluation.statistics.best_arm import best_arm
from medvrag_core.evaluation.statistics.contrasts import Rules, contrast
from medvrag_core.evaluation.statistics.estimands import Arm
from medvrag_core.evaluation.statistics.folds import folds_of

QUICK = Rules(resamples=200, permutations=500)
N = 60
IDS = tuple(f"q{k:03}" for k in range(N))
CHOOSES = folds_of(IDS, 2) == 0


def arm(name: str, right: Sequence[bool] | np.ndarray, ids: tuple[str, ...] = IDS, sets: Sequence[str] = ()) -> Arm:
    table = np.atleast_2d(np.asarray(right, dtype=bool))
    labels = np.where(table, "x", "y")
    return Arm(name, ids, tuple(sets) or ("all",) * len(ids), table, labels, ("x",) * len(ids), ("f",))


def coins(seed: int, share: float = 0.5) -> np.ndarray:
    return np.random.default_rng(seed).random(N) < share


@given(st.integers(0, 10_000), st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_answers_of_the_half_that_compares_never_change_the_choice(seed: int, other: int) -> None:
    pages = arm("pages", coins(seed))
    first = {name: coins(seed + k) for k, name in enumerate("abc", start=1)}
    changed = {name: np.where(CHOOSES, right, coins(other + ord(name))) for name, right in first.items()}
    before = best_arm([arm(*item) for item in first.items()], pages, QUICK)
    after = best_arm([arm(*item) for item in changed.items()], arm("pages", coins(other)), QUICK)
    assert (before.chosen, before.choosing) == (after.chosen, after.choosing)


@given(st.integers(0, 10_000))
@settings(max_examples=15, deadline=None)
def test_the_best_of_the_choosing_half_is_compared_on_the_other_half_alone(seed: int) -> None:
    pages = arm("pages", coins(seed))
    arms = {name: arm(name, coins(seed + k)) for k, name in enumerate("abc", start=1)}
    found = best_arm(list(arms.values()), pages, QUICK)
    shares = {name: a.right[0, CHOOSES].mean() for name, a in arms.items()}
    assert found.chosen == min(shares, key=lambda name: (-shares[name], name))
    assert [(s.arm, pytest.approx(s.accuracy)) for s in found.choosing] == sorted(
        shares.items(), key=lambda item: (-item[1], item[0])
    )
    assert found.n_choosing + found.contrast.n == N
    expected = contrast(arms[found.chosen].only(~CHOOSES), pages.only(~CHOOSES), QUICK)
    assert found.contrast == expected
    assert (found.contrast.a, found.contrast.b) == (found.chosen, "pages")


def test_arms_without_a_difference_show_none_though_the_luckiest_is_chosen() -> None:
    """On all questions the luckiest of 20 coins beats a coin; on questions that did not choose it, it does not."""
    same, held_out = [], []
    for seed in range(30):
        coin, candidates = coins(1_000 + seed), [arm(f"c{k:02}", coins(50 * seed + k)) for k in range(20)]
        found = best_arm(candidates, arm("pages", coin), Rules(resamples=100, permutations=100))
        held_out.append(-found.contrast.estimates[0].difference)
        luckiest = max(candidates, key=lambda a: a.right.mean())
        same.append(100 * (luckiest.right.mean() - coin.mean()))
    assert np.mean(same) > 8
    assert abs(np.mean(held_out)) < 8


def test_the_estimand_ranks_the_candidates() -> None:
    small = np.arange(N) % 10 == 0
    sets = ["small" if s else "large" for s in small]
    on_small, on_large = arm("on_small", small, sets=sets), arm("on_large", (~small) & coins(3, 0.7), sets=sets)
    pages = arm("pages", coins(1), sets=sets)
    assert best_arm([on_small, on_large], pages, QUICK, estimand="macro").chosen == "on_small"
    assert best_arm([on_small, on_large], pages, QUICK, estimand="question_weighted").chosen == "on_large"


def test_equal_candidates_are_chosen_by_name_whatever_their_order() -> None:
    right, pages = coins(2), arm("pages", coins(1))
    for names in ("ab", "ba"):
        assert best_arm([arm(name, right) for name in names], pages, QUICK).chosen == "a"


def test_what_cannot_be_compared_is_refused() -> None:
    pages = arm("pages", coins(1))
    with pytest.raises(InputError, match="no arm to choose from"):
        best_arm([], pages, QUICK)
    for twice in ([arm("a", coins(1)), arm("a", coins(2))], [arm("pages", coins(2))]):
        with pytest.raises(InputError, match="is given twice"):
            best_arm(twice, pages, QUICK)
    with pytest.raises(InputError, match="different questions"):
        best_arm([arm("short", coins(1)[:-1], IDS[:-1])], pages, QUICK)
    with pytest.raises(InputError, match="none is in the half"):
        best_arm([arm("one", [True], ("q1",))], arm("pages", [True], ("q1",)), QUICK)
