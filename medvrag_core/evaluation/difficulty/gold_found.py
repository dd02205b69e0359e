"""Whether the pages that an answer needs were found: all of them, with the question alone or after refined queries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from pydantic import Field

from medvrag_core.errors import InputError
from medvrag_core.evaluation.difficulty.groups import GROUPS
from medvrag_core.evaluation.scoring import require_one_arm
from medvrag_core.evaluation.statistics.shares import Share, share_of
from medvrag_core.reasoning.sameness import page_of
from medvrag_core.records import Record, Trace
from medvrag_core.settings import EvaluationSettings

Rounds = Literal["first", "any"]


class GoldFound(Record):
    """How many questions of a group had their gold pages before the reader."""

    system: str
    group: str
    rounds: Rounds = Field(description="pages shown in round 1, or in any round")
    some: Share = Field(description="questions with at least one gold page shown")
    every: Share = Field(description="questions with all of their gold pages shown")


def gold_found(
    arms: Mapping[str, Sequence[Trace]], groups: Iterable[str], settings: EvaluationSettings
) -> list[GoldFound]:
    """Rows by arm, group and rounds; an arm that never took a second round has rows of the first alone.

    Raises
    ------
    InputError : a group is not known, or no question of it names a gold page
    """
    return [row for name in arms for group in groups for row in _rows(arms[name], group, settings)]


def _rows(traces: Sequence[Trace], group: str, settings: EvaluationSettings) -> list[GoldFound]:
    require_one_arm(traces)
    if group not in GROUPS:
        raise InputError(f"no group '{group}'", way_out=f"choose among {', '.join(GROUPS)}")
    own = [trace for trace in traces if trace.question.gold_pages and GROUPS[group](trace.question)]
    if not own:
        raise InputError(f"'{traces[0].system}' was asked no question of the group '{group}' with a gold page")
    looks: tuple[Rounds, ...] = ("first", "any") if any(len(trace.rounds) > 1 for trace in traces) else ("first",)
    rows = []
    for rounds in looks:
        found = [_found(trace, rounds) for trace in own]
        some = sum(map(any, found))
        every = sum(map(all, found))
        rows.append(
            GoldFound(
                system=traces[0].system,
                group=group,
                rounds=rounds,
                some=share_of(some, len(own), confidence=settings.confidence),
                every=share_of(every, len(own), confidence=settings.confidence),
            )
        )
    return rows


def _found(trace: Trace, rounds: Rounds) -> list[bool]:
    looked = trace.rounds[:1] if rounds == "first" else trace.rounds
    shown = {page_of(evidence) for round_ in looked for evidence in round_.shown}
    return [page in shown for page in dict.fromkeys(trace.question.gold_pages)]
