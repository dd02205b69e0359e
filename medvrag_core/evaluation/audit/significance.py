"""How sure could a printed difference be? Papers seldom print on how many questions two arms differ.

Two arms that answer the same questions differ on some share of them, the *discordance*; the smaller it
is, the more a given difference says. Since it is not printed, every p-value here is a function of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from medvrag_core.evaluation.audit.averages import StepRow
from medvrag_core.evaluation.audit.table import AccuracyTable
from medvrag_core.evaluation.statistics.proportions import holm, mcnemar
from medvrag_core.records import Record

DISCORDANCES = (0.04, 0.06, 0.08, 0.10, 0.15, 0.20)
PLAUSIBLE = (0.08, 0.15)
"""What variants of one pipeline usually differ on. Published answers of GPT-3.5 and GPT-4 with and without
retrieval differ on 10 to 23% of MedQA and MMLU-Med, and a sample in the paper implies at least 11%."""
ALPHA = 0.05


class StepTest(Record):
    """p-values of one step at one assumed discordance, the same in every set; ``None`` where it is too small.

    ``by_set``: exact McNemar. ``plain`` and ``weighted``: normal tests of the mean of sets and of the mean
    of questions; ``*_holm`` are adjusted over the steps tested together.
    """

    first: str
    second: str
    discordance: float
    by_set: dict[str, float | None]
    plain: float | None
    weighted: float | None
    plain_holm: float | None = None
    weighted_holm: float | None = None


@lru_cache(maxsize=4096)
def mcnemar_at(net: int, n: int, discordance: float) -> float | None:
    """Exact p-value of ``net`` questions won of ``n`` when ``discordance * n`` questions differ.

    The number that differ has the parity of ``net``, rounded up to it; ``None`` when it would be smaller than ``net``.

    >>> p = mcnemar_at(13, 1273, 0.10)
    >>> p is not None and round(p, 3)
    0.287
    """
    differing = round(discordance * n)
    if (differing - net) % 2:
        differing += 1
    if differing < abs(net):
        return None
    won = (differing + abs(net)) // 2
    return mcnemar(won, differing - won)


@lru_cache(maxsize=4096)
def largest_discordance(net: int, n: int, *, alpha: float = ALPHA) -> float | None:
    """Largest discordance at which ``net`` of ``n`` is still significant; ``None`` when it never is.

    >>> largest = largest_discordance(13, 1273)
    >>> largest is not None and round(100 * largest, 1)
    2.9
    """
    net = abs(net)
    if net == 0 or mcnemar(net, 0) >= alpha:
        return None
    low, high = 0, (n - net) // 2
    while low < high:  # The p-value grows with the number of lost questions.
        middle = (low + high + 1) // 2
        low, high = (middle, high) if mcnemar(net + middle, middle) < alpha else (low, middle - 1)
    return (net + 2 * low) / n


def step_tests(
    table: AccuracyTable, made: Sequence[StepRow], *, discordances: Sequence[float] = DISCORDANCES
) -> list[StepTest]:
    """Tests of all ``made`` steps at each assumed discordance, Holm-adjusted among themselves."""
    tests = []
    for discordance in discordances:
        raw = [_test(table, row, discordance) for row in made]
        plain, weighted = _adjusted([t.plain for t in raw]), _adjusted([t.weighted for t in raw])
        tests += [
            t.model_copy(update={"plain_holm": p, "weighted_holm": w})
            for t, p, w in zip(raw, plain, weighted, strict=True)
        ]
    return tests


def _test(table: AccuracyTable, row: StepRow, discordance: float) -> StepTest:
    sizes = [table.sizes[name] for name in row.by_set if name in table.sizes]
    complete = len(sizes) == len(table.sets)
    plain = weighted = None
    if complete:
        shares = [1 / len(sizes)] * len(sizes), [n / sum(sizes) for n in sizes]
        plain, weighted = (
            _normal(delta, weights, sizes, list(row.by_set.values()), discordance)
            for delta, weights in zip((row.plain, row.weighted), shares, strict=True)
        )
    return StepTest(
        first=row.first,
        second=row.second,
        discordance=discordance,
        by_set={name: mcnemar_at(net, table.sizes[name], discordance) for name, net in row.net.items()},
        plain=plain,
        weighted=weighted,
    )


def _normal(
    delta: float | None, weights: list[float], sizes: list[int], by_set: list[float], discordance: float
) -> float | None:
    """Two-sided p-value of a weighted mean of differences whose variance in a set is ``(psi - delta^2) / n``."""
    from scipy.stats import norm

    spread = [discordance - (d / 100) ** 2 for d in by_set]
    if delta is None or any(abs(d) / 100 > discordance for d in by_set):
        return None
    error = math.sqrt(sum(w * w * s / n for w, s, n in zip(weights, spread, sizes, strict=True)))
    return float(2 * norm.sf(abs(delta) / 100 / error)) if error > 0 else None


def _adjusted(values: list[float | None]) -> list[float | None]:
    known = [value for value in values if value is not None]
    # A family with a member that cannot be tested is not adjusted as if it were smaller.
    return [*_holm(tuple(known))] if len(known) == len(values) else [None] * len(values)


@lru_cache(maxsize=1024)
def _holm(values: tuple[float, ...]) -> tuple[float, ...]:
    # Kept, since statsmodels collects garbage on every call, which takes longer than all the rest.
    return tuple(holm(values))
