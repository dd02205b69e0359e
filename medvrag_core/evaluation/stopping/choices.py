"""What a stop rule decides on: each question at the end of round 1, with both outcomes where stored arms show them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from medvrag_core.evaluation.statistics.estimands import paired
from medvrag_core.evaluation.stopping.policies import Policy, mixed, policy_of
from medvrag_core.records import Question, Round, Trace

OWN, STOP, GO = "own rule", "always stop", "always go"


def _lead(question: Question, first: Round) -> float:
    shares = sorted(first.reply.option_scores.values(), reverse=True)
    return shares[0] - sum(shares[1:2]) if shares else 0.0


def _changed(question: Question, first: Round) -> float:
    words = set((first.parsed.query_update or "").casefold().split())
    return len(words - set(first.query.casefold().split())) / len(words) if words else 0.0


def _page_lead(question: Question, first: Round) -> float:
    scores = [hit.score for hit in first.stage1[: max(2, len(first.shown))]]
    return scores[0] - scores[-1] if scores else 0.0


def _depth(question: Question, first: Round) -> float:
    ranks = {hit.page_id: hit.rank for hit in first.stage1}
    found = [np.log(ranks[page]) for page in first.shown if page in ranks]
    return float(np.mean(found)) if found else 0.0


FEATURES: dict[str, Callable[[Question, Round], float]] = {
    "lead of the best option": _lead,
    "share of the best option": lambda question, first: max(first.reply.option_scores.values(), default=0.0),
    "number of options": lambda question, first: len(question.options),
    "words of the question": lambda question, first: len(question.question.split()),
    "asks for another round": lambda question, first: float(first.parsed.label is None),
    "findings noted": lambda question, first: len(first.parsed.findings),
    "words of the note": lambda question, first: len(first.parsed.notes.split()),
    "new words in the next query": _changed,
    "score of the best page": lambda question, first: first.stage1[0].score if first.stage1 else 0.0,
    "lead of the best page": _page_lead,
    "depth the filter reached into": _depth,
}
"""What the rule reads: the question without its gold answer, and the loop's round 1. Nothing that came later."""


@dataclass(frozen=True)
class Choices:
    """Every question at the end of round 1: what stopping there and what going on make of it.

    Attributes
    ----------
    stop, go : the two policies; they are the same where ``open`` is false
    own : the loop's own rule
    open : bool, shape (n,), whether both outcomes are known and differ in rounds
    features : float, shape (n, len(FEATURES)), of the loop's round 1
    same_pages : questions for which the single-round arm saw the same pages as the loop's round 1
    """

    stop: Policy
    go: Policy
    own: Policy
    open: NDArray[np.bool_]
    features: NDArray[np.float64]
    same_pages: int


def choices(single: Sequence[Trace], looping: Sequence[Trace], forced: Sequence[Trace] = ()) -> Choices:
    """Read the choices off stored arms.

    Where the loop asked for more, stopping is what the single-round arm did and going on is what the loop did. Where
    the loop answered in round 1, stopping is what it did, and going on is what the arm ``forced`` into a second round
    did; without such an arm nothing is known, and the question is left as it is in every policy. Raises InputError
    when the arms answered different questions.
    """
    before, own = policy_of(single), policy_of(looping, OWN)
    paired(before.arm, own.arm)
    asked = own.rounds > 1
    second, taken = own, np.zeros_like(asked)
    if forced:
        second = policy_of(forced)
        paired(own.arm, second.arm)
        taken = ~asked & (second.rounds > 1)
    by_id, single_by_id = ({t.question.id: t for t in traces} for traces in (looping, single))
    features = [
        [read(t.question, t.rounds[0]) if t.rounds else 0.0 for read in FEATURES.values()]
        for t in (by_id[i] for i in own.arm.ids)
    ]
    return Choices(
        stop=mixed(STOP, own, before, asked),
        go=mixed(GO, own, second, taken),
        own=own,
        open=asked | taken,
        features=np.array(features, dtype=float),
        same_pages=sum(_first_pages(single_by_id[i]) == _first_pages(by_id[i]) for i in own.arm.ids),
    )


def _first_pages(trace: Trace) -> tuple[str, ...]:
    return trace.rounds[0].shown if trace.rounds else ()
