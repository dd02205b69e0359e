from __future__ import annotations

import pytest

from medvrag_core.index.fusion import reciprocal_rank_fusion
from medvrag_core.index.lexical import Bm25Index


@pytest.mark.parametrize("query", ["IL 6", "il-6", "HbA1c"])
def test_bc31_codes_are_found_by_their_parts(query: str) -> None:
    index = Bm25Index(["x#p1", "x#p2"], ["renal function was stable", "raised IL-6 and HbA1c"])
    assert index.search(query, 1)[0].page_id == "x#p2"
    assert index.search(query, 1)[0].score > 0


def test_pages_without_words_and_unknown_words_do_no_harm() -> None:
    assert [h.score for h in Bm25Index(["a#p1", "b#p1"], ["", ""]).search("dose", 5)] == [0.0, 0.0]
    assert Bm25Index(["a#p1"], ["dose"]).search("§ the", 5)[0].score == 0.0


def test_bc30_fusion_of_ranks() -> None:
    fused = reciprocal_rank_fusion([["x", "y"], ["y", "z"]], 3)
    assert [(h.page_id, round(h.score, 5)) for h in fused] == [("y", 0.03252), ("x", 0.01639), ("z", 0.01613)]
    tied = reciprocal_rank_fusion([["b"], ["a"]], 2)
    assert [h.page_id for h in tied] == ["a", "b"]
