from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvrag_core.errors import InputError
from medvrag_core.evaluation.rounds import recovered_errors, rounds_report
from medvrag_core.evaluation.scoring import accuracy_report
from medvrag_core.records import Trace

MakeTrace = Callable[..., Trace]
ROUND = ((), (), ())


@given(st.lists(st.tuples(st.integers(1, 3), st.booleans()), min_size=1, max_size=30))
def test_shares_times_accuracies_give_the_accuracy(make_trace: MakeTrace, cases: list[tuple[int, bool]]) -> None:
    traces = [make_trace(str(i), "A" if right else "B", rounds=[ROUND] * k) for i, (k, right) in enumerate(cases)]
    rows = rounds_report(traces)
    assert sum(r.share for r in rows) == pytest.approx(1.0)
    assert sum(r.share * r.accuracy for r in rows) == pytest.approx(accuracy_report(traces).accuracy)
    assert [r.rounds for r in rows] == sorted({k for k, _ in cases})


def test_recovered_errors_are_counted_against_a_forced_single_round(make_trace: MakeTrace) -> None:
    single = [make_trace(f"q{i}", label, system="single") for i, label in enumerate("BBBAA")]
    full = [
        make_trace(f"q{i}", label, rounds=[ROUND] * k)
        for i, (label, k) in enumerate(zip("AABAB", (2, 3, 3, 1, 2), strict=True))
    ]
    result = recovered_errors(single, full)
    assert (result.errors, result.recovered, result.lost) == (3, {2: 1, 3: 1}, 1)
    with pytest.raises(InputError, match="'q4'"):
        recovered_errors(single, full[:-1])
