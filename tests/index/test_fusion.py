"""Reciprocal rank fusion beside MedRAG's merging, written down here from its formula."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvrag_core.index.fusion import reciprocal_rank_fusion

BY_HAND = (["a", "b", "c"], ["b", "d", "a"], ["e", "b"])
"""Three rankings of unequal length: a is first and third, b is second, first and second, the others are in one each."""
RANKINGS = st.lists(st.lists(st.sampled_from("abcdefghij"), unique=True, max_size=10), min_size=1, max_size=4)


def merged_as_by_medrag(rankings: Sequence[Sequence[str]], k: int, rrf_k: int) -> dict[str, float]:
    """``RetrievalSystem.merge`` for several lists: a missing document adds nothing, ties in order of entry."""
    merged: dict[str, float] = {}
    for ranking in rankings:
        for place, document in enumerate(ranking):
            merged[document] = merged.get(document, 0.0) + 1 / (rrf_k + place + 1)
    return dict(sorted(merged.items(), key=lambda item: item[1], reverse=True)[:k])


def test_bc30_fusion_of_ranks() -> None:
    fused = reciprocal_rank_fusion([["x", "y"], ["y", "z"]], 3)
    assert [(h.page_id, round(h.score, 5)) for h in fused] == [("y", 0.03252), ("x", 0.01639), ("z", 0.01613)]
    tied = reciprocal_rank_fusion([["b"], ["a"]], 2)
    assert [h.page_id for h in tied] == ["a", "b"]


@pytest.mark.parametrize(
    ("constant", "scores"),
    [
        # b: 1/62 + 1/61 + 1/62, a: 1/61 + 1/63, e: 1/61, d: 1/62, c: 1/63
        (60, {"b": 0.048652, "a": 0.032266, "e": 0.016393, "d": 0.016129, "c": 0.015873}),
        # b: 1/102 + 1/101 + 1/102, a: 1/101 + 1/103, e: 1/101, d: 1/102, c: 1/103
        (100, {"b": 0.029509, "a": 0.019610, "e": 0.009901, "d": 0.009804, "c": 0.009709}),
    ],
)
def test_three_rankings_by_hand(constant: int, scores: dict[str, float]) -> None:
    fused = reciprocal_rank_fusion(BY_HAND, 9, constant=constant)
    assert [hit.page_id for hit in fused] == list(scores)
    assert {hit.page_id: round(hit.score, 6) for hit in fused} == scores
    assert [hit.rank for hit in fused] == [1, 2, 3, 4, 5]
    assert reciprocal_rank_fusion(BY_HAND, 2, constant=constant) == fused[:2]


def test_ties_and_missing_documents_by_hand() -> None:
    """x and y are first in one list each; z is second in both, and a list without z takes nothing from it."""
    fused = reciprocal_rank_fusion([["y", "z"], ["x", "z"], []], 9, constant=60)
    assert [(hit.page_id, round(hit.score, 6)) for hit in fused] == [("z", 0.032258), ("x", 0.016393), ("y", 0.016393)]
    merged = list(merged_as_by_medrag([["y", "z"], ["x", "z"], []], 9, 60))
    assert merged == ["z", "y", "x"], "there the list that is named first wins a tie"


@given(RANKINGS, st.sampled_from([0, 60, 100]))
def test_scores_are_those_of_medrag_and_so_is_the_order_but_for_ties(rankings: list[list[str]], constant: int) -> None:
    everything = sum(map(len, rankings))
    theirs = merged_as_by_medrag(rankings, everything, constant)
    ours = {hit.page_id: hit.score for hit in reciprocal_rank_fusion(rankings, everything, constant=constant)}
    assert ours == pytest.approx(theirs)
    assert list(ours.values()) == pytest.approx(list(theirs.values())), "the same scores at every rank"
    rounded = [(-round(score, 12), page_id) for page_id, score in ours.items()]
    assert rounded == sorted(rounded), "ties by id"


def test_the_constant_decides_between_one_high_place_and_two_low_ones() -> None:
    lists = [["a", "x", "y", "b"], ["z", "w", "v", "b"]]
    assert reciprocal_rank_fusion(lists, 1, constant=0)[0].page_id == "a"
    assert reciprocal_rank_fusion(lists, 1, constant=60)[0].page_id == "b"
    others = [[f"{side}{place}" for place in range(79)] for side in "xy"]
    long = [["a", *others[0], "b"], ["z", *others[1], "b"]]
    assert reciprocal_rank_fusion(long, 1, constant=60)[0].page_id == "a"
    assert reciprocal_rank_fusion(long, 1, constant=100)[0].page_id == "b"
