"""How far the evidence of each question came, and how the question ended; right answers are followed too.

An error taxonomy looks at wrong answers alone. Beside it belongs how many questions were answered right though their
evidence was lost: a class that is as common among right answers explains no error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Literal

from pydantic import Field

from medvrag_core.evaluation.errors.taxonomy import Reached, furthest, gold_of
from medvrag_core.evaluation.scoring import require_one_arm, score
from medvrag_core.evaluation.statistics.shares import Share, share_of
from medvrag_core.records import Record, Trace

Place = Literal["not_found", "dropped", "not_shown", "drifted", "shown"]
PLACES: dict[Reached, Place] = {
    Reached.SHOWN: "shown",
    Reached.DRIFTED: "drifted",
    Reached.NOT_SHOWN: "not_shown",
    Reached.DROPPED: "dropped",
    Reached.NOT_FOUND: "not_found",
}
"""Names of the places, the furthest first."""


class FlowRow(Record):
    """Questions whose evidence came equally far; ``right`` is of these."""

    place: Place
    right: Share
    wrong: int = Field(description="answered with another option")
    unanswered: int = Field(description="no answer was read: unparsed, cut, refused, or ended by an error")


class EvidenceFlow(Record):
    """All questions of one system by the place that their evidence reached."""

    system: str
    profile: str
    n: int = Field(description="questions that can be followed; the rows add up to it")
    left_out: int = Field(description="questions without a gold page or without retrieval")
    need: Literal["any", "all"]
    rows: tuple[FlowRow, ...] = Field(description="one a place, the furthest first")


def evidence_flow(
    traces: Sequence[Trace],
    relevant: Mapping[str, AbstractSet[str]] | None = None,
    *,
    need: Literal["any", "all"] = "any",
    confidence: float = 0.95,
) -> EvidenceFlow:
    """Count questions by the place of their evidence and by how they ended.

    Parameters
    ----------
    traces : one a question, all of one system and settings
    relevant : question id to gold pages; without it the gold pages of the questions are used
    need : ``any``: the gold page that came furthest; ``all``: the one that was lost first
    """
    require_one_arm(traces)
    ends: dict[Reached, Counter[str]] = {place: Counter() for place in PLACES}
    for trace in traces:
        place = furthest(trace, gold_of(trace, relevant), need=need)
        if place is not None:
            end = "right" if score(trace) else "wrong" if trace.outcome == "answered" else "unanswered"
            ends[place][end] += 1
    followed = sum(counts.total() for counts in ends.values())
    return EvidenceFlow(
        system=traces[0].system,
        profile=traces[0].profile,
        n=followed,
        left_out=len(traces) - followed,
        need=need,
        rows=tuple(
            FlowRow(
                place=name,
                right=share_of(ends[place]["right"], ends[place].total(), confidence=confidence),
                wrong=ends[place]["wrong"],
                unanswered=ends[place]["unanswered"],
            )
            for place, name in PLACES.items()
        ),
    )
