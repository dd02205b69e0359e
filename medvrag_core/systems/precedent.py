"""What a control takes from the stored answers of the arm that it leans on: little, for any number of questions."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from medvrag_core.reasoning.citations import cited_pages
from medvrag_core.reasoning.sameness import page_of
from medvrag_core.records import Trace
from medvrag_core.systems.canonical import canonical_trace


@dataclass(frozen=True)
class Precedent:
    """One question as an arm answered it.

    Attributes
    ----------
    rounds : how many it took
    cited : pages that any round named and was sent
    sent : pages that any round was sent, as a page or as a summary
    digest : of the whole trace, clock aside
    """

    rounds: int
    cited: frozenset[str]
    sent: frozenset[str]
    digest: str


def precedent_of(trace: Trace) -> Precedent:
    """The precedent that a stored trace sets."""
    return Precedent(
        rounds=len(trace.rounds),
        cited=frozenset(page for done in trace.rounds for page in cited_pages(done)),
        sent=frozenset(page_of(i) for done in trace.rounds for i in (*done.shown, *done.summaries_shown)),
        digest=hashlib.sha256(canonical_trace(trace).encode()).hexdigest(),
    )
