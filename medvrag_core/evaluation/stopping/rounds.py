"""How many rounds questions take, how well each group does, and what iterating recovers (paper section 4.4)."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from medvrag_core.evaluation.scoring import require_one_arm, score
from medvrag_core.evaluation.statistics.contrasts import Effect, Rules, contrast
from medvrag_core.evaluation.statistics.estimands import arm_of, one_set, paired, set_by_mapping
from medvrag_core.evaluation.statistics.proportions import wilson
from medvrag_core.records import Record, Trace

PAPER_ROUNDS: dict[int, tuple[float, float]] = {1: (0.614, 0.810), 2: (0.248, 0.745), 3: (0.138, 0.702)}
"""Share of questions and their accuracy by number of rounds, as the paper prints them (Figures 2, 3).

The two do not go together: the weighted accuracy is 77.9%, Table 1 gives 74.6% over all questions.
"""


class RoundsRow(Record):
    """Questions that used exactly ``rounds`` rounds."""

    rounds: int
    n: int
    share: float
    correct: int
    accuracy: float
    low: float
    high: float


class IterationGain(Record):
    """What later rounds recover and lose against a forced single round, on the questions that went into them.

    These questions chose themselves: a system asks again where it is unsure, so their accuracy says nothing about
    rounds as such, only the difference to the single round on the same questions does. The paper counts "errors made
    after Round 1" of a system that gave no answer in round 1; the forced single round gives those errors a meaning.
    """

    n: int = Field(description="all questions")
    answered_at_once: int = Field(description="questions that the iterating arm answered in round 1")
    differing_at_once: int = Field(description="of these, right in one arm alone; 0 where nothing is sampled")
    iterated: Effect | None = Field(description="iterating over single round on all others; null where there are none")
    over_sets: Effect | None = Field(
        None, description="the same as the mean over sets of questions; null where these questions are of one set"
    )
    by_rounds: tuple[Effect, ...] = Field(description="the same by rounds used; p-values adjusted for one another")


def rounds_report(traces: Sequence[Trace], *, confidence: float = 0.95) -> list[RoundsRow]:
    """One row for each number of rounds that occurs, fewest first; ``share * accuracy`` sums to the accuracy."""
    require_one_arm(traces)
    groups: dict[int, list[bool]] = {}
    for trace in traces:
        groups.setdefault(len(trace.rounds), []).append(score(trace))
    rows = []
    for count, results in sorted(groups.items()):
        low, high = wilson(sum(results), len(results), confidence=confidence)
        rows.append(
            RoundsRow(
                rounds=count,
                n=len(results),
                share=len(results) / len(traces),
                correct=sum(results),
                accuracy=sum(results) / len(results),
                low=low,
                high=high,
            )
        )
    return rows


def iteration_gain(single: Sequence[Trace], iterating: Sequence[Trace], rules: Rules | None = None) -> IterationGain:
    """Compare a forced single round with the iterating arm where that arm iterated, by exact McNemar tests.

    Raises
    ------
    InputError : the arms answered different questions, or with other gold answers
    """
    before, after = arm_of([single]), arm_of([iterating])
    paired(before, after)
    used = {t.question.id: len(t.rounds) for t in iterating}
    later = {i: f"{count} rounds" for i, count in used.items() if count > 1}
    at_once = [i not in later for i in after.ids]
    overall: Effect | None = None
    over_sets: Effect | None = None
    by_rounds: tuple[Effect, ...] = ()
    if later:
        chosen = [[t for t in traces if t.question.id in later] for traces in (single, iterating)]
        whole, split = (
            contrast(arm_of([chosen[0]], rule), arm_of([chosen[1]], rule), rules)
            for rule in (one_set, set_by_mapping(later))
        )
        overall, by_rounds = whole.sets[0], split.sets
        by_sets = contrast(arm_of([chosen[0]]), arm_of([chosen[1]]), rules)
        over_sets = by_sets.estimates[0] if len(by_sets.sets) > 1 else None
    return IterationGain(
        n=len(used),
        answered_at_once=sum(at_once),
        differing_at_once=int((before.right[0] != after.right[0])[at_once].sum()),
        iterated=overall,
        over_sets=over_sets,
        by_rounds=by_rounds,
    )
