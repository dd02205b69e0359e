from __future__ import annotations

from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvrag_core.errors import InputError
from medvrag_core.evaluation.audit.grim import fitting_totals, grim_cells, possible_counts
from medvrag_core.evaluation.audit.rounded import printed
from medvrag_core.evaluation.audit.table import AccuracyTable, ArmRow


def one_cell(text: str, n: int, *, own: bool = True) -> AccuracyTable:
    row = ArmRow(arm="a", cells={"s": text}, own=own)
    return AccuracyTable(name="t", sets=("s",), sizes={"s": n}, rows=(row,))


@given(st.integers(1, 3000), st.data(), st.sampled_from([ROUND_HALF_UP, ROUND_HALF_EVEN]), st.integers(0, 2))
def test_an_accuracy_that_came_from_counts_never_fails(n: int, data: st.DataObject, rule: str, digits: int) -> None:
    k = data.draw(st.integers(0, n))
    text = str((Decimal(100 * k) / n).quantize(Decimal(1).scaleb(-digits), rounding=rule))
    assert k in possible_counts(printed(text), n)
    assert grim_cells(one_cell(text, n))[0].possible


@given(st.integers(1, 400), st.integers(0, 1000))
def test_counts_are_those_of_a_search_through_all(n: int, tenths: int) -> None:
    accuracy = printed(f"{tenths / 10:.1f}")
    assert list(possible_counts(accuracy, n)) == [k for k in range(n + 1) if abs(1000 * k - tenths * n) * 2 <= n]


def test_odd_tenths_are_impossible_on_500_questions_and_even_ones_are_not() -> None:
    for tenths in range(1001):
        cell = grim_cells(one_cell(f"{tenths / 10:.1f}", 500))[0]
        assert cell.telling
        assert cell.possible == (tenths % 2 == 0)
        assert cell.runs_needed == (1 if cell.possible else 2)
        assert not cell.truncated_only


def test_the_test_cannot_fail_where_steps_are_finer_than_the_print() -> None:
    cell = grim_cells(one_cell("74.8", 1273))[0]
    assert (cell.possible, cell.telling, cell.counts) == (True, False, (952, 952))


def test_a_mean_of_runs_has_finer_steps() -> None:
    assert not grim_cells(one_cell("73.7", 500))[0].possible
    assert grim_cells(one_cell("73.7", 500), runs=2)[0].counts == (737, 737)


def test_cutting_instead_of_rounding_is_told_apart() -> None:
    cell = grim_cells(one_cell("66.6", 3))[0]
    assert (cell.possible, cell.truncated_only) == (False, True)


def test_only_own_rows_are_judged_on_request() -> None:
    table = one_cell("73.7", 500, own=False)
    assert grim_cells(table, own_only=True) == []
    assert len(grim_cells(table)) == 1


def test_shares_name_the_totals_that_they_fit() -> None:
    shares = [printed(text) for text in ("35.9", "19.7", "29.5", "14.9")]
    assert fitting_totals(shares, range(50, 301), complete=True) == [295]


def test_no_runs_are_refused() -> None:
    with pytest.raises(InputError, match="at least one run"):
        grim_cells(one_cell("50", 2), runs=0)
