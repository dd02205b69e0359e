"""Inference on counts: intervals of shares, exact paired tests, power; numbers in, numbers out."""

from __future__ import annotations

import math
from collections.abc import Sequence

from medvrag_core.errors import InputError


def wilson(k: int, n: int, *, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson score interval of a share ``k / n``; ``(0, 1)`` when ``n`` is 0.

    >>> low, high = wilson(20, 100)
    >>> round(low, 2), round(high, 2)
    (0.13, 0.29)
    """
    from scipy.stats import binomtest

    if n == 0:
        return 0.0, 1.0
    interval = binomtest(k, n).proportion_ci(confidence_level=confidence, method="wilson")
    return float(interval.low), float(interval.high)


def mcnemar(won: int, lost: int) -> float:
    """Two-sided exact McNemar p-value from the discordant counts.

    >>> round(mcnemar(12, 3), 3)
    0.035
    """
    from scipy.stats import binomtest

    return float(binomtest(won, won + lost, 0.5).pvalue) if won + lost else 1.0


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm-adjusted p-values of one family of tests, in the order given.

    >>> holm([0.01, 0.04])
    [0.02, 0.04]
    """
    from statsmodels.stats.multitest import multipletests

    if len(p_values) < 2:
        return list(p_values)
    return [float(p) for p in multipletests(list(p_values), method="holm")[1]]


def detectable_difference(n: float, discordance: float, *, alpha: float = 0.05, power: float = 0.8) -> float | None:
    """Smallest true difference, in points, that a McNemar test of ``n`` questions finds.

    Normal approximation. ``None`` when it would be larger than the discordance itself, which no
    difference can be.

    >>> round(detectable_difference(1273, 0.10), 1)
    2.5
    """
    from scipy.stats import norm

    if n == 0 or discordance <= 0:
        return None
    z_alpha, z_power = norm.ppf(1 - alpha / 2), norm.ppf(power)
    # Root of (delta sqrt(n) - z_alpha sqrt(psi))^2 = z_power^2 (psi - delta^2).
    b = z_alpha * math.sqrt(n * discordance)
    c = discordance * (z_alpha**2 - z_power**2)
    delta = (b + math.sqrt(max(0.0, b * b - (n + z_power**2) * c))) / (n + z_power**2)
    return None if delta > discordance else 100 * float(delta)


def questions_needed(difference: float, discordance: float, *, alpha: float = 0.05, power: float = 0.8) -> int:
    """Questions that a McNemar test needs to find a true ``difference`` (in points).

    >>> questions_needed(1.0, 0.10)
    7847
    """
    from scipy.stats import norm

    delta = abs(difference) / 100
    if not 0 < delta <= discordance <= 1:
        raise InputError(f"a difference of {difference} points cannot come from a discordance of {discordance:.1%}")
    root = norm.ppf(1 - alpha / 2) * math.sqrt(discordance) + norm.ppf(power) * math.sqrt(discordance - delta**2)
    return math.ceil(float(root / delta) ** 2)
