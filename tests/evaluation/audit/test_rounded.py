from __future__ import annotations

from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvrag_core.errors import InputError
from medvrag_core.evaluation.audit.rounded import exact, is_missing, printed, signed

values = st.decimals(min_value=0, max_value=1000, places=4, allow_nan=False, allow_infinity=False)


def rounded(value: Decimal, digits: int = 1, rule: str = ROUND_HALF_UP) -> str:
    return str(value.quantize(Decimal(1).scaleb(-digits), rounding=rule))


@given(values, st.sampled_from([ROUND_HALF_UP, ROUND_HALF_EVEN]), st.integers(0, 3))
def test_the_range_of_a_printed_number_holds_what_was_printed(value: Decimal, rule: str, digits: int) -> None:
    number = printed(rounded(value, digits, rule))
    assert number.low <= Fraction(value) <= number.high


@given(values, values)
def test_arithmetic_on_printed_numbers_never_loses_the_true_result(a: Decimal, b: Decimal) -> None:
    x, y, p, q = Fraction(a), Fraction(b), printed(rounded(a)), printed(rounded(b))
    for true, computed in ((x + y, p + q), (x - y, p - q), (x * y, p * q)):
        assert computed.low <= true <= computed.high
    if q.low > 0:
        assert (p / q).low <= x / y <= (p / q).high


@given(values)
def test_showing_a_number_rounds_halves_up(value: Decimal) -> None:
    assert exact(Fraction(value)).show(2) == rounded(value, 2)


@pytest.mark.parametrize(
    ("text", "value"),
    [("~73.7%", "73.7"), ("**79.4**†", "79.4"), ("+5.8", "5.8"), ("−0.4", "-0.4"), ("350K", "350000"), (" 70 ", "70")],
)
def test_numbers_are_read_as_papers_print_them(text: str, value: str) -> None:
    assert printed(text).value == Fraction(value)


@pytest.mark.parametrize(
    "text", ["", "—", "73,7", "82.4 ± 1.3", "1e3", "nan", "0x10", "7" * 50, "__import__('os')", "٧٣"]
)
def test_anything_else_is_refused_by_name(text: str) -> None:
    with pytest.raises(InputError, match="row 3, MedQA"):
        printed(text, source="row 3, MedQA")


def test_dashes_and_marks_mean_not_printed() -> None:
    assert all(is_missing(text) for text in ("", "-", "–", "—", "—∗", " n/a ", None))
    assert not is_missing("0")


def test_division_by_what_may_be_zero_is_refused() -> None:
    with pytest.raises(InputError, match="zero"):
        printed("1") / printed("0.0")


def test_steps_are_shown_as_by_hand() -> None:
    assert [signed(0.975), signed(-0.05, 1), signed(None)] == ["+0.98", "-0.1", "–"]
