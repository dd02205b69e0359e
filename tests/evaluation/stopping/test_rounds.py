from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medvrag_core.errors import InputError
from medvrag_core.evaluation.scoring import accuracy_report
from medvrag_core.evaluation.statistics.contrasts import Rules
from medvrag_core.evaluation.statistics.proportions import holm, mcnemar
from medvrag_core.evaluation.stopping.rounds import iteration_gain, rounds_report
from medvrag_core.records import Trace
from medvrag_core.views.stopping_view import gains_table

MakeTrace = Callable[..., Trace]
ROUND = ((), (), ())


@settings(deadline=None)  # the first example imports scipy
@given(st.lists(st.tuples(st.integers(1, 3), st.booleans()), min_size=1, max_size=30))
def test_shares_times_accuracies_give_the_accuracy(make_trace: MakeTrace, cases: list[tuple[int, bool]]) -> None:
    traces = [make_trace(str(i), "A" if right else "B", rounds=[ROUND] * k) for i, (k, right) in enumerate(cases)]
    rows = rounds_report(traces)
    assert sum(r.share for r in rows) == pytest.approx(1.0)
    assert sum(r.share * r.accuracy for r in rows) == pytest.approx(accuracy_report(traces).accuracy)
    assert [r.rounds for r in rows] == sorted({k for k, _ in cases})


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 3), st.booleans(), st.booleans()), min_size=1, max_size=25))
def test_gains_are_exact_tests_on_the_questions_that_iterated(
    make_trace: MakeTrace, cases: list[tuple[int, bool, bool]]
) -> None:
    single = [make_trace(f"q{i}", "A" if before else "B", system="single") for i, (_, before, _) in enumerate(cases)]
    full = [make_trace(f"q{i}", "A" if after else "B", rounds=[ROUND] * k) for i, (k, _, after) in enumerate(cases)]
    gain = iteration_gain(single, full, Rules(resamples=50, permutations=50))
    later = [(before, after) for k, before, after in cases if k > 1]
    assert (gain.n, gain.answered_at_once) == (len(cases), len(cases) - len(later))
    assert gain.differing_at_once == sum(k == 1 and before != after for k, before, after in cases)
    if not later:
        assert gain.iterated is None and gain.by_rounds == ()
        return
    won, lost = later.count((False, True)), later.count((True, False))
    assert gain.iterated is not None and (gain.iterated.won, gain.iterated.lost) == (won, lost)
    assert gain.iterated.test == "mcnemar" and gain.iterated.p_value == pytest.approx(mcnemar(won, lost))
    assert {e.name: e.n for e in gain.by_rounds} == {
        f"{count} rounds": sum(k == count for k, _, _ in cases)
        for count in (2, 3)
        if any(k == count for k, _, _ in cases)
    }
    assert [e.p_adjusted for e in gain.by_rounds] == pytest.approx(holm([e.p_value for e in gain.by_rounds]))


def test_a_gain_over_other_questions_is_refused(make_trace: MakeTrace) -> None:
    with pytest.raises(InputError, match="different questions"):
        iteration_gain([make_trace("q1", system="single")], [make_trace("q2", rounds=[ROUND] * 2)])


def test_of_several_sets_both_means_of_the_gain_are_told(make_trace: MakeTrace) -> None:
    """One question of one set is recovered; of three of another, none."""

    def asked(system: str, labels: str, rounds: int) -> list[Trace]:
        made = [make_trace(f"q{k}", label, system=system, rounds=[ROUND] * rounds) for k, label in enumerate(labels)]
        return [
            t.model_copy(update={"question": t.question.model_copy(update={"dataset": "one" if k == 0 else "three"})})
            for k, t in enumerate(made)
        ]

    quick = Rules(resamples=50, permutations=50)
    gain = iteration_gain(asked("single", "BABB", 1), asked("medvrag", "AABB", 2), quick)
    assert gain.iterated is not None and gain.iterated.difference == pytest.approx(25)
    assert gain.over_sets is not None and gain.over_sets.difference == pytest.approx(50)
    rows = gains_table(gain).rows
    assert [row[0] for row in rows] == ["all that iterated", "all that iterated, mean over sets", "2 rounds"]
    assert "+50.0" in rows[1] and "sign flips" in gains_table(gain).caption
