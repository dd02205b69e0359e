"""What stages 1 and 2 find, and how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import ConfigDict

from medvrag_core.records.base import Record


@dataclass(frozen=True, slots=True)
class Hit:
    """One retrieved page; ``rank`` counts from 1.

    A search makes 2,000 of them, so they are plain: a third of the time of a :class:`Record`, and of its objects for
    Python's garbage collector to look through. In JSON they are checked as records are.
    """

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    page_id: str
    score: float
    rank: int


class StageTime(Record):
    """Wall-clock seconds of one named step (``encode_query``, ``ann``, ``coarse``, ``exact`` ...)."""

    step: str
    seconds: float


class SearchResult(Record):
    """Ranked pages of one query, ``proved`` to be the best of all in this order or not, with the time of each step."""

    hits: tuple[Hit, ...]
    times: tuple[StageTime, ...] = ()
    proved: bool = False


class ShardDecision(Record):
    """One map or reduce call of the filter.

    ``repeated`` and ``strangers`` count ids in the reply that came twice or were not in the shard (together
    ``dropped_ids``), ``filled`` counts places filled in Stage-1 order. ``fallback`` tells that the call gave no
    ranking, and ``reason`` why (a :data:`CallOutcome`, or ``unreadable``). ``call`` is its key in the call store.
    """

    phase: Literal["map", "reduce"]
    shown: tuple[str, ...]
    kept: tuple[str, ...]
    dropped_ids: int = 0
    repeated: int = 0
    strangers: int = 0
    filled: int = 0
    fallback: bool = False
    reason: str = ""
    call: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    flags: tuple[str, ...] = ()


class FilterDecision(Record):
    """Outcome of Stage 2: the pages kept, best first, and every call behind it."""

    kept: tuple[str, ...]
    calls: tuple[ShardDecision, ...] = ()
