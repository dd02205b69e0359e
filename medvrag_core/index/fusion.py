"""Reciprocal rank fusion of several rankings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction

from medvrag_core.records import Hit


def reciprocal_rank_fusion(rankings: Sequence[Sequence[str]], k: int, *, constant: int = 60) -> tuple[Hit, ...]:
    """Sum of ``1 / (constant + rank)`` over lists of page ids given best first, ranks from 1; ties by page id.

    What a list does not have gets nothing from it, however short the list is; a fused score says how many lists have a
    page and how high, and nothing about the scores there.

    The default of 60 is that of Cormack, Clarke and Büttcher (SIGIR 2009), who found it near the best and the choice
    uncritical. MedRAG (Xiong et al. 2024, ``RetrievalSystem.merge``) sums the same with 100, over lists cut at
    ``max(2 k, 100)``. It differs in ties alone: pages of equal score stay in the order in which they were first seen,
    which favors the list that is named first.

    >>> [(h.page_id, round(h.score, 5)) for h in reciprocal_rank_fusion([["x", "y"], ["y", "z"]], 3)]
    [('y', 0.03252), ('x', 0.01639), ('z', 0.01613)]
    """
    # Floating sums of the same numbers in another order differ in the last bit, and would break ties by it.
    scores: dict[str, Fraction] = defaultdict(Fraction)
    for ranking in rankings:
        for rank, page_id in enumerate(ranking, start=1):
            scores[page_id] += Fraction(1, constant + rank)
    best = sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:k]
    return tuple(Hit(page_id=p, score=float(s), rank=rank) for rank, (p, s) in enumerate(best, start=1))
