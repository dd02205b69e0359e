"""The seam between candidates and the pages that a reader may see."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from medvrag_core.errors import ModelError
from medvrag_core.records import FilterDecision, Record

Phase = Literal["map", "reduce"]


@dataclass(frozen=True)
class Candidate:
    """A page as the filter sees it: its summary and its place in Stage 1 (rank from 1)."""

    page_id: str
    summary: str
    rank: int
    score: float


@dataclass(frozen=True)
class Shard:
    """Candidates of one call, in the order they are shown; ``flags`` tell what had to be done to them."""

    candidates: tuple[Candidate, ...]
    flags: tuple[str, ...] = ()


class Ranking(Record):
    """What a ranker says of one shard.

    ``page_ids`` are as they came: ids that repeat or that the shard does not have stay in, so that the caller can
    count them. ``call`` and the tokens are of the model call behind it, if there was one.
    """

    page_ids: tuple[str, ...]
    call: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    flags: tuple[str, ...] = ()


class NoRankingError(ModelError):
    """A model replied, and its reply ranks nothing; ``ranking`` tells what the call cost and where it is stored."""

    def __init__(self, problem: str, ranking: Ranking) -> None:
        super().__init__(problem)
        self.ranking = ranking


class ShardRanker(ABC):
    """Ranks the summaries of one shard; called by map and reduce alike.

    Attributes
    ----------
    side_by_side : shards that may be ranked at one time, each in a thread of its own
    """

    side_by_side: int = 1

    def shards(self, query: str, ordered: Sequence[Candidate], size: int, keep: int) -> list[Shard]:
        """Cut candidates, in their order, into what one call can rank.

        Every candidate is in exactly one shard. Rankers with a model also keep to its context, so a shard may hold
        fewer than ``size``.

        Parameters
        ----------
        query : what is shown beside the summaries
        size : most candidates of one shard
        keep : pages that each shard will be asked for
        """
        return [Shard(tuple(ordered[i : i + size])) for i in range(0, len(ordered), size)]

    @abstractmethod
    def rank(self, query: str, shard: Sequence[Candidate], keep: int, phase: Phase = "map") -> Ranking:
        """The ``keep`` best pages, best first; may raise :class:`~medvrag_core.errors.ModelError`.

        The caller repairs the list (repeats, strangers, too few), so a ranker returns what it got.
        """


class PageFilter(ABC):
    """Stage 2: narrows Stage-1 candidates to the pages for the reader."""

    @abstractmethod
    def select(self, query: str, candidates: Sequence[Candidate]) -> FilterDecision:
        """Keep the best candidates; every id kept is one of ``candidates`` and appears once."""
