"""Averages and steps of a printed table, with every set and with every question counting the same."""

from __future__ import annotations

from itertools import pairwise

from medvrag_core.evaluation.audit.rounded import Rounded
from medvrag_core.evaluation.audit.table import AccuracyTable, plain_mean, question_mean
from medvrag_core.records import Record


class AverageRow(Record):
    """An arm's printed average beside its two means, in points; ``None`` where it cannot be computed."""

    arm: str
    printed: float | None
    plain: float | None
    weighted: float | None
    agrees_plain: bool | None
    agrees_weighted: bool | None


class StepRow(Record):
    """One row of a table minus another, in points: by set, and under both weightings."""

    first: str
    second: str
    by_set: dict[str, float]
    net: dict[str, int]
    plain: float | None
    weighted: float | None


def average_rows(table: AccuracyTable) -> list[AverageRow]:
    """Both means of every arm, and which of them its printed average agrees with."""
    rows = []
    for row in table.rows:
        shown = table.average(row.arm)
        plain, weighted = plain_mean(table, row.arm), question_mean(table, row.arm)
        rows.append(
            AverageRow(
                arm=row.arm,
                printed=None if shown is None else float(shown),
                plain=None if plain is None else float(plain),
                weighted=None if weighted is None else float(weighted),
                agrees_plain=_agree(shown, plain),
                agrees_weighted=_agree(shown, weighted),
            )
        )
    return rows


def step(table: AccuracyTable, first: str, second: str) -> StepRow:
    """What arm ``second`` has over arm ``first``; ``net`` counts questions, rounded, where sizes are known."""
    a, b = table.known(first), table.known(second)
    shared = [name for name in table.sets if name in a and name in b]
    deltas = {name: (b[name] - a[name]).value for name in shared}
    plain = [plain_mean(table, arm) for arm in (first, second)]
    weighted = [question_mean(table, arm) for arm in (first, second)]
    return StepRow(
        first=first,
        second=second,
        by_set={name: float(delta) for name, delta in deltas.items()},
        net={name: round(delta * table.sizes[name] / 100) for name, delta in deltas.items() if name in table.sizes},
        plain=_difference(plain),
        weighted=_difference(weighted),
    )


def steps(table: AccuracyTable, arms: list[str] | None = None) -> list[StepRow]:
    """Each arm over the one before it; all rows in their order unless ``arms`` are given."""
    return [step(table, a, b) for a, b in pairwise(arms or [row.arm for row in table.rows])]


def _difference(pair: list[Rounded | None]) -> float | None:
    first, second = pair
    return None if first is None or second is None else float((second - first).value)


def _agree(shown: Rounded | None, computed: Rounded | None) -> bool | None:
    return None if shown is None or computed is None else shown.agrees(computed)
