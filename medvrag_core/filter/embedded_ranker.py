"""Ranks summaries without a language model; a baseline behind the interface of the LLM filter."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from medvrag_core.filter.base import Candidate, Phase, Ranking, ShardRanker
from medvrag_core.index.lexical import Bm25Index, tokenize

_REMEMBERED = 10_000
"""Summaries whose words are kept: some 150 MB at 120 words each."""


class EmbeddedRanker(ShardRanker):
    """BM25 of the query over the summaries, added to the Stage-1 score, both standardized.

    A summary is a lossy stand-in for its page, so the Stage-1 score keeps ``stage1_weight`` of the
    say; chapter 03 measures what the weight does.
    """

    def __init__(self, stage1_weight: float = 0.7) -> None:
        self.stage1_weight = stage1_weight
        # The same summaries come back with every query, and cutting them into words takes longer than all the rest.
        self._words_of = lru_cache(maxsize=_REMEMBERED)(tokenize)

    def rank(self, query: str, shard: Sequence[Candidate], keep: int, phase: Phase = "map") -> Ranking:
        """See :class:`ShardRanker`."""
        ids = [c.page_id for c in shard]
        lexical = _standardized(Bm25Index(ids, [c.summary for c in shard], words_of=self._words_of).scores(query))
        stage1 = _standardized(np.array([c.score for c in shard], dtype=np.float32))
        scores = self.stage1_weight * stage1 + (1.0 - self.stage1_weight) * lexical
        order = np.lexsort((np.array([c.rank for c in shard]), -scores))
        return Ranking(page_ids=tuple(ids[i] for i in order[:keep]))


def _standardized(values: NDArray[np.float32]) -> NDArray[np.float32]:
    spread = float(values.std())
    return (values - values.mean()) / spread if spread > 0 else np.zeros_like(values)
