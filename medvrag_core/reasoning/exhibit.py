"""What a reader is about to be shown in one round, and the place where a control can change it."""

from __future__ import annotations

from collections.abc import Callable

from medvrag_core.records import EvidenceItem, Question, Record, Summary


class Exhibit(Record):
    """Pages and summaries of one round, best first; ``flags`` tell what a control did to them."""

    evidence: tuple[EvidenceItem, ...]
    summaries: tuple[Summary, ...]
    flags: tuple[str, ...] = ()


Show = Callable[[Question, int, Exhibit], Exhibit]
"""From the question, the number of the round and what was found for it, to what the reader gets."""


def as_found(question: Question, number: int, exhibit: Exhibit) -> Exhibit:
    """The reader gets what was found; every arm but the placebos."""
    return exhibit
