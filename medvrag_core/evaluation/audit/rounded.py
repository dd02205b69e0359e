"""Printed numbers: each stands for all the values that round to it, and arithmetic keeps track of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from medvrag_core.errors import InputError

_NUMBER = re.compile(r"[~≈]?\s*(?P<sign>[+−-]?)(?P<digits>[0-9]+(?:\.(?P<decimals>[0-9]+))?)\s*(?P<unit>[KM]?)\s*%?")
_MARKS = "*†‡∗§ \t\u00a0"
_FACTORS = {"": 1, "K": 1_000, "M": 1_000_000}


@dataclass(frozen=True)
class Rounded:
    """A value with the closed range of values that it may have been rounded from.

    Sums, differences, products and quotients carry the range along, as if all the parts were rounded
    independently; so a range is never too narrow, and two numbers that do not :meth:`agree` differ by
    more than rounding. Fractions keep the arithmetic exact.

    >>> third = printed("15.93") * 3
    >>> third.show(2), third.agrees(printed("47.8"))
    ('47.79', True)
    """

    value: Fraction
    low: Fraction
    high: Fraction

    def __add__(self, other: Rounded | int | Fraction) -> Rounded:
        b = exact(other)
        return Rounded(self.value + b.value, self.low + b.low, self.high + b.high)

    def __sub__(self, other: Rounded | int | Fraction) -> Rounded:
        b = exact(other)
        return Rounded(self.value - b.value, self.low - b.high, self.high - b.low)

    def __mul__(self, other: Rounded | int | Fraction) -> Rounded:
        b = exact(other)
        ends = [x * y for x in (self.low, self.high) for y in (b.low, b.high)]
        return Rounded(self.value * b.value, min(ends), max(ends))

    def __truediv__(self, other: Rounded | int | Fraction) -> Rounded:
        b = exact(other)
        if b.low <= 0 <= b.high:
            raise InputError("a printed number divides by one that may be zero")
        return self * Rounded(1 / b.value, 1 / b.high, 1 / b.low)

    def agrees(self, other: Rounded) -> bool:
        """Whether some value lies in both ranges, ends included (so any rule for halves is allowed)."""
        return self.low <= other.high and other.low <= self.high

    def show(self, digits: int = 1, *, sign: bool = False) -> str:
        """The value with ``digits`` decimals, halves rounded up in size as a reader would by hand."""
        return _decimal(self.value, digits, sign=sign)

    def range(self, digits: int = 2) -> str:
        """The range as ``low to high``."""
        return f"{_decimal(self.low, digits)} to {_decimal(self.high, digits)}"

    def __float__(self) -> float:
        return float(self.value)


def exact(value: Rounded | int | Fraction) -> Rounded:
    """A count or a definition: a number without a rounding range."""
    return value if isinstance(value, Rounded) else Rounded(Fraction(value), Fraction(value), Fraction(value))


def printed(text: str, *, source: str = "number") -> Rounded:
    """Read a number as printed: its last digit is taken as rounded to the nearest.

    A leading ``~`` is dropped (what it allows beyond rounding is for the finding to say), ``K`` and
    ``M`` multiply, and footnote marks, ``%`` and Markdown bold are ignored.

    Raises :class:`InputError` naming ``source`` when the text is not one number.

    >>> printed("~73.7%").range()
    '73.65 to 73.75'
    >>> printed("350K").range(0)
    '349500 to 350500'
    """
    found = _NUMBER.fullmatch(text.strip(_MARKS))
    if found is None or len(text) > 40:
        raise InputError(f"{source}: '{text[:40]}' is not one printed number", way_out="write for example 73.7")
    factor = _FACTORS[found["unit"]]
    value = Fraction(found["digits"]) * factor * (1 if found["sign"] in ("", "+") else -1)
    half = Fraction(factor, 2 * 10 ** len(found["decimals"] or ""))
    return Rounded(value, value - half, value + half)


def is_missing(text: str | None) -> bool:
    """Whether a cell holds no number: empty, or a dash of any length, with or without a footnote mark."""
    return text is None or text.strip(_MARKS).lower() in {"", "-", "–", "—", "n/a", "na", "none"}


def signed(value: float | None, digits: int = 2) -> str:
    """A difference in points as printed by hand: with its sign, halves rounded up in size; a dash for ``None``.

    >>> signed(0.975), signed(-0.4, 1)
    ('+0.98', '-0.4')
    """
    # Differences of printed numbers have few decimals, which floats hold only nearly.
    return "–" if value is None else _decimal(Fraction(value).limit_denominator(10**6), digits, sign=True)


def total(parts: list[Rounded]) -> Rounded:
    """Sum of at least zero parts."""
    result = exact(0)
    for part in parts:
        result = result + part
    return result


def mean(parts: list[Rounded]) -> Rounded:
    """Plain mean of at least one part."""
    return total(parts) / len(parts)


def _decimal(value: Fraction, digits: int, *, sign: bool = False) -> str:
    scaled = abs(value) * 10**digits
    whole = int(scaled + Fraction(1, 2))
    text = f"{whole // 10**digits}" + (f".{whole % 10**digits:0{digits}d}" if digits else "")
    minus = "-" if value < 0 and whole else "+" if sign else ""
    return minus + text
