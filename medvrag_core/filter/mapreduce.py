"""Sharded map and reduce over page summaries (paper section 3.3).

Map: each shard of B summaries is ranked by itself and keeps its top 25. Reduce: the survivors are
ranked together and N2 = 100 remain. With the paper's sizes that is 8 map calls and one reduce call.
Small corpora need fewer: what fits into one shard is ranked in a single call.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Literal

from medvrag_core.errors import ModelError
from medvrag_core.filter.base import Candidate, PageFilter, ShardRanker
from medvrag_core.records import FilterDecision, ShardDecision
from medvrag_core.settings import FilterSettings

log = logging.getLogger(__name__)


class MapReduceFilter(PageFilter):
    """Drives any :class:`ShardRanker`, repairs its lists, and survives its failures.

    Parameters
    ----------
    ranker : ranks one shard
    settings : B, map top, N2, attempts
    """

    def __init__(self, ranker: ShardRanker, settings: FilterSettings) -> None:
        self.ranker = ranker
        self.settings = settings

    def select(self, query: str, candidates: Sequence[Candidate]) -> FilterDecision:
        """See :class:`PageFilter`; every call is part of the decision."""
        size, keep = self.settings.shard_size, self.settings.keep
        if not candidates:
            return FilterDecision(kept=())
        ordered = sorted(candidates, key=lambda c: c.rank)
        if len(ordered) <= size:
            call = self._call("map", query, ordered, keep)
            return FilterDecision(kept=call.kept, calls=(call,))
        calls = [
            self._call("map", query, shard, self.settings.map_keep)
            for shard in (ordered[i : i + size] for i in range(0, len(ordered), size))
        ]
        survivors = {page_id for call in calls for page_id in call.kept}
        call = self._call("reduce", query, [c for c in ordered if c.page_id in survivors], keep)
        return FilterDecision(kept=call.kept, calls=(*calls, call))

    def _call(
        self, phase: Literal["map", "reduce"], query: str, shard: Sequence[Candidate], keep: int
    ) -> ShardDecision:
        keep = min(keep, len(shard))
        shown = tuple(c.page_id for c in shard)
        for attempt in range(1, self.settings.attempts + 1):
            try:
                reply = self.ranker.rank(query, shard, keep)
            except ModelError as error:
                log.warning("filter %s call failed (attempt %d): %s", phase, attempt, error)
                continue
            return repaired(phase, reply, shown, keep)
        return ShardDecision(phase=phase, shown=shown, kept=shown[:keep], filled=keep, fallback=True)


def repaired(phase: Literal["map", "reduce"], reply: Sequence[str], shown: tuple[str, ...], keep: int) -> ShardDecision:
    """Drop repeats and strangers from a ranking, fill what is missing in Stage-1 order.

    >>> repaired("map", ["104", "104", "999", "101"], ("101", "102", "103", "104"), 4).kept
    ('104', '101', '102', '103')
    """
    known, kept = set(shown), []
    for page_id in reply:
        if page_id in known:
            known.discard(page_id)
            kept.append(page_id)
    dropped = len(reply) - len(kept)
    kept = kept[:keep]
    rest = [page_id for page_id in shown if page_id not in set(kept)][: keep - len(kept)]
    return ShardDecision(phase=phase, shown=shown, kept=(*kept, *rest), dropped_ids=dropped, filled=len(rest))
