"""Choosing among arms, as a table and as text."""

from __future__ import annotations

import numpy as np
import pytest

from medvrag_core.evaluation.statistics.best_arm import BestArm, best_arm
from medvrag_core.evaluation.statistics.contrasts import Rules
from medvrag_core.evaluation.statistics.estimands import Arm
from medvrag_core.views.best_arm_text import best_arm_text
from medvrag_core.views.best_arm_view import choosing_table


@pytest.fixture(scope="module")
def found() -> BestArm:
    ids = tuple(f"q{k:02}" for k in range(40))

    def arm(name: str, share: float) -> Arm:
        right = np.random.default_rng(5).random((1, 40)) < share
        return Arm(name, ids, ("all",) * 40, right, np.where(right, "x", "y"), ("x",) * 40, ("f",))

    return best_arm(
        [arm("poor", 0.2), arm("<good>\x1b", 0.9)], arm("pages", 0.5), Rules(resamples=100, permutations=100)
    )


def test_the_table_marks_the_chosen_one_and_says_what_chose_it(found: BestArm) -> None:
    table = choosing_table(found, caption="profile test")
    assert [row[0] for row in table.rows] == ["<good>\x1b", "poor"]
    assert [row[3] for row in table.rows] == ["chosen", ""]
    assert {row[1] for row in table.rows} == {str(found.n_choosing)}
    assert table.rows[0][2] == f"{100 * found.choosing[0].accuracy:.1f}"
    assert table.caption.startswith("profile test; ")
    assert "<good>" not in table.html


def test_the_text_gives_both_halves_and_steers_no_terminal(found: BestArm) -> None:
    text = best_arm_text(found)
    assert f"chosen on {found.n_choosing} questions by macro accuracy" in text
    assert f"{found.contrast.n} questions in 1 set(s)" in text
    assert "\x1b" not in text
