"""How sure a system says it is: the share it gives the option it answers with, or its votes over several runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from medvrag_core.errors import InputError
from medvrag_core.evaluation.endings import Answered, Ending, last_reply
from medvrag_core.evaluation.scoring import is_correct, require_one_arm, score
from medvrag_core.records import Trace

Source = Literal["option_scores", "vote_share"]


@dataclass(frozen=True)
class Confidences:
    """Confidence and outcome of every question that has an answer, in the order of their ids.

    Attributes
    ----------
    system : the arm
    source : where the confidence is from
    ids : question ids, sorted
    confidence : float between 0 and 1, shape (n,)
    right : bool, shape (n,)
    unanswered : questions that ended without an answer; they have no confidence, and count in no measure
    """

    system: str
    source: Source
    ids: tuple[str, ...]
    confidence: NDArray[np.float64]
    right: NDArray[np.bool_]
    unanswered: int

    @property
    def n(self) -> int:
        """Questions with an answer."""
        return len(self.ids)


def stated_confidences(traces: Sequence[Answered]) -> Confidences:
    """The share that the last reply gives to the option it answers with.

    Raises
    ------
    InputError : a reply tells no shares, shares outside of 0 to 1, or none for its own answer; no question has an
        answer; traces of several arms
    """
    require_one_arm(traces)
    answered = sorted((t for t in traces if t.label is not None), key=lambda t: t.question.id)
    return _confidences(
        traces,
        "option_scores",
        [(t.question.id, stated_share(t), score(t)) for t in answered],
        len(traces) - len(answered),
    )


def tells_shares(traces: Sequence[Trace]) -> bool:
    """Whether the reader of an arm tells shares at all; language models behind a server do not."""
    return any(round_.reply.option_scores for trace in traces for round_ in trace.rounds)


def voted_confidences(runs: Sequence[Sequence[Answered]]) -> Confidences:
    """The share of runs (seeds) that agree on the most frequent answer, which is then the answer.

    A run without an answer agrees with none. Of answers with equal votes the first in the order of the options is
    taken, so nothing is drawn.

    Raises
    ------
    InputError : fewer than two runs, runs of several systems, or of different questions or options
    """
    if len(runs) < 2:
        raise InputError("one run has no votes to count", way_out="give two runs (seeds) of the arm at least")
    for traces in runs:
        require_one_arm(traces)
    tables = [{t.question.id: t for t in traces} for traces in runs]
    if len({t.system for traces in runs for t in traces}) > 1:
        raise InputError("votes of different systems cannot be counted together", way_out="give runs of one system")
    rows, unanswered = [], 0
    for question_id, first in sorted(tables[0].items()):
        cast = [table[question_id] for table in tables if question_id in table]
        if len(cast) < len(tables) or any(t.question.options != first.question.options for t in cast):
            raise InputError(
                f"question '{question_id}' is not the same in all runs", way_out="run all seeds on one question file"
            )
        votes = Counter(t.label for t in cast if t.label is not None)
        if not votes:
            unanswered += 1
            continue
        label = max(first.question.options, key=lambda name: votes[name])
        rows.append((question_id, votes[label] / len(runs), is_correct(first.question, label)))
    if any(table.keys() != tables[0].keys() for table in tables):
        raise InputError("the runs answered different questions", way_out="run all seeds on one question file")
    return _confidences(runs[0], "vote_share", rows, unanswered)


def stated_share(answered: Answered) -> float:
    """The share that the last reply gives to the option it answers with.

    Raises
    ------
    InputError : the reply tells no shares, or none between 0 and 1 for its own answer
    """
    where = f"question '{answered.question.id}' ({answered.system})"
    shares = _shares(answered)
    if not shares:
        raise InputError(
            f"{where}: the reply tells no share of its options",
            way_out="answer again with a reader that does (embedded readers do), or count votes over several runs",
        )
    share = shares.get(answered.label or "")
    if share is None or not 0 <= share <= 1:
        raise InputError(f"{where}: field 'option_scores' gives {share} to the answer '{answered.label}'")
    return share


def _shares(answered: Answered) -> dict[str, float]:
    if isinstance(answered, Ending):
        return answered.option_scores
    last = last_reply(answered)
    return {} if last is None else last.option_scores


def _confidences(
    traces: Sequence[Answered], source: Source, rows: Sequence[tuple[str, float, bool]], unanswered: int
) -> Confidences:
    if not rows:
        raise InputError(
            f"'{traces[0].system}' answered none of its questions with an option ({len(traces)} asked), so there is no "
            "confidence",
            way_out="`medvrag score --run RUN` tells why its replies could not be read",
        )
    ids, confidence, right = zip(*rows, strict=True)
    return Confidences(traces[0].system, source, ids, np.array(confidence), np.array(right, dtype=bool), unanswered)
