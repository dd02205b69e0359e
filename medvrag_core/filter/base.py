"""The seam between candidates and the pages that a reader may see."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from medvrag_core.records import FilterDecision


@dataclass(frozen=True)
class Candidate:
    """A page as the filter sees it: its summary and its place in Stage 1 (rank from 1)."""

    page_id: str
    summary: str
    rank: int
    score: float


class ShardRanker(ABC):
    """Ranks the summaries of one shard; called by map and reduce alike."""

    @abstractmethod
    def rank(self, query: str, shard: Sequence[Candidate], keep: int) -> list[str]:
        """Page ids, best first; may raise :class:`~medvrag_core.errors.ModelError`.

        The caller repairs the list (repeats, strangers, too few), so a ranker returns what it got.
        """


class PageFilter(ABC):
    """Stage 2: narrows Stage-1 candidates to the pages for the reader."""

    @abstractmethod
    def select(self, query: str, candidates: Sequence[Candidate]) -> FilterDecision:
        """Keep the best candidates; every id kept is one of ``candidates`` and appears once."""
