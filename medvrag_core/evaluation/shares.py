"""A count among others, with the interval of its share."""

from __future__ import annotations

from medvrag_core.evaluation.proportions import wilson
from medvrag_core.records import Record


class Share(Record):
    """``count`` of ``n`` with the Wilson interval; ``share`` is 0 and the interval 0 to 1 where ``n`` is 0."""

    count: int
    n: int
    share: float
    low: float
    high: float


def share_of(count: int, n: int, *, confidence: float = 0.95) -> Share:
    """The share of ``count`` in ``n``.

    >>> found = share_of(3, 4)
    >>> found.share, round(found.low, 2), round(found.high, 2)
    (0.75, 0.3, 0.95)
    """
    low, high = wilson(count, n, confidence=confidence)
    return Share(count=count, n=n, share=count / n if n else 0.0, low=low, high=high)
