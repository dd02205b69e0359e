"""Sharded map and reduce over page summaries (paper section 3.3).

Map: each shard of B summaries is ranked by itself and keeps its top 25. Reduce: the survivors are
ranked together and N2 = 100 remain. With the paper's sizes that is 8 map calls and one reduce call.
Small corpora need fewer: what fits into one call is ranked in a single one. A small context needs more:
survivors that do not fit into one call are reduced in levels.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest

from medvrag_core.errors import ModelError
from medvrag_core.filter.base import Candidate, NoRankingError, PageFilter, Phase, Ranking, Shard, ShardRanker
from medvrag_core.models.outcomes import CallError, failure_kind
from medvrag_core.records import FilterDecision, ShardDecision
from medvrag_core.runs.side_by_side import side_by_side
from medvrag_core.settings import FilterSettings

log = logging.getLogger(__name__)

REDUCE_CUT = "reduce_cut"
"""Flag of a reduce call that saw only the best of each shard, since a level did not halve the survivors; those that it
did not see stand behind those that it ranked."""


class MapReduceFilter(PageFilter):
    """Drives any :class:`ShardRanker`, repairs its lists, and survives its failures.

    A call that fails is not tried again here (the client is the one retry layer): its shard falls back to Stage-1
    order, and the decision says so.

    Parameters
    ----------
    ranker : ranks one shard
    settings : B, map top, N2
    """

    def __init__(self, ranker: ShardRanker, settings: FilterSettings) -> None:
        self.ranker = ranker
        self.settings = settings

    def select(self, query: str, candidates: Sequence[Candidate]) -> FilterDecision:
        """See :class:`PageFilter`; every call is part of the decision.

        Each level must halve the candidates, else the next call is the last and sees the best of each shard. So there
        is an end, after at most about twice as many calls as the first level has.
        """
        level = stage1_order(candidates)
        if not level:
            return FilterDecision(kept=())
        keep, map_keep = self.settings.keep, self.settings.map_keep
        phase: Phase = "map"
        calls: list[ShardDecision] = []
        behind: tuple[str, ...] = ()
        try:
            while len(final := self._shards(query, level, keep)) > 1:
                # A shorter list to reply with can make room for all in one shard; its call would keep too few.
                shards = self._shards(query, level, map_keep)
                done = self._ranked(phase, query, shards if len(shards) > 1 else final, map_keep)
                calls += done
                before, level, phase = len(level), survivors(level, done), "reduce"
                if 2 * len(level) > before and len(final := self._shards(query, level, keep)) > 1:
                    behind = interleaved(done)
                    by_id = {c.page_id: c for c in level}
                    first = self._shards(query, [by_id[page_id] for page_id in behind], keep)[0]
                    final = [replace(first, flags=(*first.flags, REDUCE_CUT))]
                    break
            last = self._ranked(phase, query, final, keep)[0]
        except ModelError as error:
            last = fallback(phase, Shard(tuple(level)), keep, error)
        unseen = tuple(page_id for page_id in behind if page_id not in set(last.shown))
        return FilterDecision(kept=(*last.kept, *unseen)[:keep], calls=(*calls, last))

    def _shards(self, query: str, level: Sequence[Candidate], keep: int) -> list[Shard]:
        return self.ranker.shards(query, level, self.settings.shard_size, keep)

    def _ranked(self, phase: Phase, query: str, shards: Sequence[Shard], keep: int) -> list[ShardDecision]:
        def call(shard: Shard) -> ShardDecision:
            most = min(keep, len(shard.candidates))
            try:
                ranking = self.ranker.rank(query, shard.candidates, most, phase)
            except ModelError as error:
                return fallback(phase, shard, most, error)
            return repaired(phase, shard, ranking, most)

        if self.ranker.side_by_side == 1 or len(shards) == 1:
            return [call(shard) for shard in shards]
        done = dict(side_by_side(call, shards, at_once=self.ranker.side_by_side))
        return [done[place] for place in range(len(shards))]


def stage1_order(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Candidates by rank, then page id; of a page that stands twice, the better place."""
    first: dict[str, Candidate] = {}
    for candidate in sorted(candidates, key=lambda c: (c.rank, c.page_id)):
        first.setdefault(candidate.page_id, candidate)
    return list(first.values())


def survivors(level: Sequence[Candidate], calls: Sequence[ShardDecision]) -> list[Candidate]:
    """Candidates that a call kept, in the order they stood in."""
    kept = {page_id for call in calls for page_id in call.kept}
    return [c for c in level if c.page_id in kept]


def interleaved(calls: Sequence[ShardDecision]) -> tuple[str, ...]:
    """The best page of each shard, then the second of each, and so on."""
    places = zip_longest(*(call.kept for call in calls))
    return tuple(page_id for place in places for page_id in place if page_id is not None)


def repaired(phase: Phase, shard: Shard, ranking: Ranking, keep: int) -> ShardDecision:
    """Drop repeats and strangers from a ranking, fill what is missing in Stage-1 order.

    A ranking that names no page of the shard is no ranking, and counts as a fallback.

    >>> shard = Shard(tuple(Candidate(i, "", int(i), 0.0) for i in ("101", "102", "103", "104")))
    >>> repaired("map", shard, Ranking(page_ids=("104", "104", "999", "101")), 4).kept
    ('104', '101', '102', '103')
    """
    shown = tuple(c.page_id for c in shard.candidates)
    known = set(shown)
    strangers = sum(page_id not in known for page_id in ranking.page_ids)
    named = [page_id for page_id in dict.fromkeys(ranking.page_ids) if page_id in known]
    repeated = len(ranking.page_ids) - strangers - len(named)
    best = named[:keep]
    rest = [page_id for page_id in shown if page_id not in set(best)][: keep - len(best)]
    return ShardDecision(
        phase=phase,
        shown=shown,
        kept=(*best, *rest),
        dropped_ids=repeated + strangers,
        repeated=repeated,
        strangers=strangers,
        filled=len(rest),
        fallback=not named,
        reason="" if named else "unreadable",
        call=ranking.call,
        prompt_tokens=ranking.prompt_tokens,
        completion_tokens=ranking.completion_tokens,
        flags=(*shard.flags, *ranking.flags),
    )


def fallback(phase: Phase, shard: Shard, keep: int, error: ModelError) -> ShardDecision:
    """The decision of a call that failed: the first ``keep`` as they stood, and why."""
    log.warning("filter %s call failed, Stage-1 order is kept: %s", phase, error)
    spent = error.ranking if isinstance(error, NoRankingError) else error if isinstance(error, CallError) else None
    shown = tuple(c.page_id for c in shard.candidates)
    kept = shown[:keep]
    return ShardDecision(
        phase=phase,
        shown=shown,
        kept=kept,
        filled=len(kept),
        fallback=True,
        reason=failure_kind(error),
        call=spent.call if spent else "",
        prompt_tokens=spent.prompt_tokens if spent else 0,
        completion_tokens=spent.completion_tokens if spent else 0,
        flags=(*shard.flags, *(error.ranking.flags if isinstance(error, NoRankingError) else ())),
    )
