"""Gold pages before the reader, in the first round and in all of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from medvrag_core.errors import InputError
from medvrag_core.evaluation.difficulty.gold_found import gold_found
from medvrag_core.records import Trace
from medvrag_core.settings import EvaluationSettings

SETTINGS = EvaluationSettings()


@pytest.fixture
def traces(make_trace: Callable[..., Trace]) -> list[Trace]:
    """A question found at once, one whose second page comes in round 2, and one never found whole."""
    shown = {"q0": [["a#p1", "b#p1"]], "q1": [["a#p1"], ["b#p1"]], "q2": [["a#p1"], ["c#p1"]]}
    return [
        make_trace(name, gold_pages=("a#p1", "b#p1"), rounds=[((), (), tuple(pages)) for pages in rounds])
        for name, rounds in shown.items()
    ]


def test_rounds_are_counted_together_and_apart(traces: list[Trace]) -> None:
    first, every = gold_found({"medvrag": traces}, ["pages of two articles"], SETTINGS)
    assert (first.rounds, first.some.count, first.every.count, first.every.n) == ("first", 3, 1, 3)
    assert (every.rounds, every.some.count, every.every.count, every.every.n) == ("any", 3, 2, 3)


def test_an_arm_of_one_round_has_one_row(traces: list[Trace]) -> None:
    (row,) = gold_found({"medvrag": traces[:1]}, ["all"], SETTINGS)
    assert row.rounds == "first" and row.every.share == 1.0


def test_a_chunk_counts_for_its_page(traces: list[Trace]) -> None:
    chunk = traces[0].rounds[0].model_copy(update={"shown": ("a#p1.c2", "b#p1.c1")})
    found = gold_found({"medvrag": [traces[0].model_copy(update={"rounds": (chunk,)})]}, ["all"], SETTINGS)
    assert found[0].every.share == 1.0


def test_groups_without_questions_are_refused(traces: list[Trace]) -> None:
    with pytest.raises(InputError, match="no question of the group 'one page'"):
        gold_found({"medvrag": traces}, ["one page"], SETTINGS)
    with pytest.raises(InputError, match="no group"):
        gold_found({"medvrag": traces}, ["nonsense"], SETTINGS)
