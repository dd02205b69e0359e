"""GRIM: whether an accuracy, as printed, can be a whole number of right answers out of the questions asked.

The test is Brown and Heathers' (2017): a mean of whole numbers moves in steps of one over their count.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from medvrag_core.errors import InputError
from medvrag_core.evaluation.audit.rounded import Rounded
from medvrag_core.evaluation.audit.table import AccuracyTable
from medvrag_core.records import Record

MOST_RUNS = 10


class GrimCell(Record):
    """One cell: the counts of right answers that it can stand for.

    ``counts`` are the first and last whole count, of ``runs`` times ``n`` answers, whose share rounds
    to what is printed; ``None`` when there is no such count. ``telling`` says whether the test could
    fail at all here: with more answers than printed steps, every number has a count. ``below`` and
    ``above`` are the nearest accuracies that exist. ``runs_needed``: the smallest number of runs whose
    mean could be printed so, up to 10.
    """

    arm: str
    set_name: str
    accuracy: str
    n: int
    runs: int
    counts: tuple[int, int] | None
    truncated_only: bool
    telling: bool
    below: str
    above: str
    runs_needed: int | None

    @property
    def possible(self) -> bool:
        """Whether rounding to the nearest can print this number."""
        return self.counts is not None


def possible_counts(accuracy: Rounded, n: int) -> range:
    """Counts ``k`` with ``100 k / n`` in the range that rounds to ``accuracy`` (in points).

    >>> from medvrag_core.evaluation.audit.rounded import printed
    >>> list(possible_counts(printed("77.2"), 500)), list(possible_counts(printed("73.7"), 500))
    ([386], [])
    """
    first = max(0, math.ceil(accuracy.low * n / 100))
    last = min(n, math.floor(accuracy.high * n / 100))
    return range(first, last + 1)


def fitting_totals(shares: Sequence[Rounded], totals: range, *, complete: bool = False) -> list[int]:
    """Totals for which every share has a whole count; ``complete``: and the counts can add up to the total."""
    found = []
    for n in totals:
        counts = [possible_counts(share, n) for share in shares]
        if not all(counts):
            continue
        if complete and not sum(c[0] for c in counts) <= n <= sum(c[-1] for c in counts):
            continue
        found.append(n)
    return found


def grim_cells(table: AccuracyTable, *, runs: int = 1, own_only: bool = False) -> list[GrimCell]:
    """The test for every printed cell of a set whose size is known; ``runs`` is how many runs a cell averages."""
    if runs < 1:
        raise InputError(f"runs = {runs}: an accuracy is the mean of at least one run")
    return [
        _cell(row.arm, name, row.cells[name], accuracy, table.sizes[name], runs)
        for row in table.rows
        if row.own or not own_only
        for name, accuracy in table.known(row.arm).items()
        if name in table.sizes
    ]


def _cell(arm: str, set_name: str, text: str, accuracy: Rounded, n: int, runs: int) -> GrimCell:
    answers = n * runs
    counts = possible_counts(accuracy, answers)
    step = accuracy.high - accuracy.low
    cut = math.ceil(accuracy.value * answers / 100)
    truncated = not counts and accuracy.value <= Fraction(100 * cut, answers) < accuracy.value + step
    below = math.floor(accuracy.value * answers / 100)
    above = min(answers, below + 1)
    needed = next((m for m in range(1, MOST_RUNS + 1) if possible_counts(accuracy, n * m)), None)
    return GrimCell(
        arm=arm,
        set_name=set_name,
        accuracy=text,
        n=n,
        runs=runs,
        counts=(counts[0], counts[-1]) if counts else None,
        truncated_only=truncated,
        telling=Fraction(100, answers) > step,
        below=f"{100 * below / answers:.2f} ({below})",
        above=f"{100 * above / answers:.2f} ({above})",
        runs_needed=needed,
    )
