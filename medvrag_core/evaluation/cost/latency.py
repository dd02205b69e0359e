"""Wall-clock time by stage, in the rows of the paper's Table 2."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from pydantic import Field

from medvrag_core.evaluation.scoring import require_one_arm
from medvrag_core.records import Record, Trace

PAPER_STEPS: dict[str, tuple[str, float | None]] = {
    "encode_query": ("Query encoding", None),
    "ann": ("ANN search", 0.0019),
    "coarse": ("Coarse ranking", 0.0046),
    "exact": ("Fine-grained scoring", 0.0209),
    "filter": ("Filter", 3.8),
    "read": ("Reader, per round", 12.1),
}
"""Label and seconds of each step in the paper's Table 2 (4 x A100, mean of 50 MedQA queries).

The paper gives no time for query encoding, though each round pays for it.
"""
STAGE_1 = ("ann", "coarse", "exact")
"""Steps of Stage 1; mode ``exact`` has the last alone, over every page, mode ``fast`` no ``ann``."""
PAPER_ONE_ROUND = 15.9
PAPER_THREE_ROUNDS = 47.8


class LatencyRow(Record):
    """Seconds of one step; percentiles are null when it was never timed."""

    step: str
    label: str
    n: int = Field(description="timed rounds; for the totals that span rounds, questions")
    median: float | None = None
    mean: float | None = None
    p10: float | None = None
    p25: float | None = None
    p75: float | None = None
    p90: float | None = None
    paper: float | None = Field(None, description="the paper's mean in seconds; null where it gives none")


def latency_report(traces: Sequence[Trace]) -> list[LatencyRow]:
    """Rows of Table 2: one a step, over all rounds, then Stage 1 as a whole, then the totals.

    A step timed several times in a round counts once with its sum. Steps that the paper does not
    know follow those it does. ``total_1_round`` sums the steps of each first round;
    ``total_max_rounds`` is the wall-clock time of the questions that used as many rounds as the
    longest did, ``total_question`` that of all. Questions that ended in an error are left out.
    """
    require_one_arm(traces)
    seconds: dict[str, list[float]] = {step: [] for step in PAPER_STEPS}
    first_rounds: list[float] = []
    stage_1: list[float] = []
    whole = [t for t in traces if t.outcome != "error" and t.rounds]
    for trace in whole:
        for round_ in trace.rounds:
            sums: dict[str, float] = defaultdict(float)
            for time in round_.times:
                sums[time.step] += time.seconds
            for step, value in sums.items():
                seconds.setdefault(step, []).append(value)
            if searched := [sums[step] for step in STAGE_1 if step in sums]:
                stage_1.append(sum(searched))
            if round_.number == 1:
                first_rounds.append(sum(sums.values()))
    most = max((len(t.rounds) for t in whole), default=0)
    rows = [_row(step, *PAPER_STEPS.get(step, (step, None)), values) for step, values in seconds.items()]
    longest = [t.seconds for t in whole if len(t.rounds) == most]
    return [
        *rows,
        _row("stage_1", "Stage 1, its steps together", _paper_stage_1(), stage_1),
        _row("total_1_round", "Total, first round", PAPER_ONE_ROUND, first_rounds),
        _row(
            "total_max_rounds",
            f"Total, questions with {most} round{'s' * (most != 1)}",
            {1: PAPER_ONE_ROUND, 3: PAPER_THREE_ROUNDS}.get(most),
            longest,
        ),
        _row("total_question", "Total, all questions", None, [t.seconds for t in whole]),
    ]


def _paper_stage_1() -> float:
    """Sum of the rows of Table 2, which has none for it."""
    return sum(PAPER_STEPS[step][1] or 0.0 for step in STAGE_1)


def _row(step: str, label: str, paper: float | None, values: Sequence[float]) -> LatencyRow:
    if not values:
        return LatencyRow(step=step, label=label, n=0, paper=paper)
    p10, p25, median, p75, p90 = (float(v) for v in np.percentile(values, [10, 25, 50, 75, 90]))
    return LatencyRow(
        step=step,
        label=label,
        n=len(values),
        median=median,
        mean=float(np.mean(values)),
        p10=p10,
        p25=p25,
        p75=p75,
        p90=p90,
        paper=paper,
    )
