"""How one question ended: a trace without its rounds, with the little of them that scores and reports need."""

from __future__ import annotations

from pydantic import Field

from medvrag_core.records import Outcome, Question, ReaderReply, Record, Trace


class Ending(Record):
    """A trace in short. ``reply`` and ``finish_reason`` are those of the last round, null where a fault ended it."""

    system: str
    profile: str
    fingerprint: str
    question: Question
    outcome: Outcome
    label: str | None
    reason: str = ""
    correct: bool | None = None
    seconds: float
    rounds_used: int
    reply: str | None
    finish_reason: str | None
    option_scores: dict[str, float] = Field(description="share of each option in that reply; empty where none is told")
    stage1: tuple[str, ...] = Field((), description="first pages of Stage 1, round 1; for questions with gold pages")
    kept: tuple[str, ...] = Field((), description="first pages that the filter kept, likewise")
    fallbacks: tuple[str, ...] = Field((), description="reasons of filter calls that gave no ranking, each once")


Answered = Trace | Ending
"""What scores and statistics take: they look only at fields that both have."""


def last_reply(trace: Trace) -> ReaderReply | None:
    """The reply that ended a question; None where a fault did."""
    return trace.rounds[-1].reply if trace.rounds and trace.outcome != "error" else None
