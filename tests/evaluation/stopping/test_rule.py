"""The learned stop rule: no leak from held-out questions, no gain from noise, a gain where there is one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

from medvrag_core.errors import InputError
from medvrag_core.evaluation.statistics.contrasts import Rules
from medvrag_core.evaluation.statistics.folds import folds_of
from medvrag_core.evaluation.stopping.choices import FEATURES, GO, OWN, STOP, choices
from medvrag_core.evaluation.stopping.rule import (
    HINDSIGHT,
    LEARNED,
    RIDGE,
    Decisions,
    cross_fit,
    fit_logistic,
    stop_rule_report,
)
from medvrag_core.records import ParsedReply, Trace

MakeTrace = Callable[..., Trace]
ROUND = ((), (), ())
QUICK = Rules(resamples=200, permutations=200)


def outcomes(n: int, seed: int, *, signal: float) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]:
    """Features, and where going on recovers or loses; the first feature moves both apart by ``signal``."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, 4))
    up = 0.15 * np.exp(signal * features[:, 0])
    down = 0.15 * np.exp(-signal * features[:, 0])
    draw = rng.random(n)
    recovered = draw < np.minimum(up, 0.5)
    return features, recovered, ~recovered & (draw > 1 - np.minimum(down, 0.5))


def judged(n: int, seed: int, *, signal: float) -> tuple[Decisions, float]:
    """The decisions, and the right answers that they add to always stopping, a question."""
    features, recovered, lost = outcomes(n, seed, signal=signal)
    found = cross_fit(features, recovered, lost, np.ones(n), folds_of(map(str, range(n)), 5))
    goes = found.goes(0.0)
    return found, float((recovered[goes].sum() - lost[goes].sum()) / n)


def test_outcomes_of_a_fold_never_change_its_own_decisions() -> None:
    features, recovered, lost = outcomes(120, 1, signal=0.8)
    seconds = np.random.default_rng(2).random(120)
    fold = folds_of(map(str, range(120)), 5)
    before = cross_fit(features, recovered, lost, seconds, fold)
    for number in range(5):
        held = fold == number
        shuffled = np.random.default_rng(number).permutation(np.flatnonzero(held))
        changed = [values.copy() for values in (recovered, lost, seconds)]
        for old, new in zip((recovered, lost, seconds), changed, strict=True):
            new[held] = old[shuffled]
        changed[0][held] = ~changed[0][held]
        after = cross_fit(features, *changed, fold)
        for name in ("recovers", "loses", "seconds"):
            assert (getattr(before, name)[held] == getattr(after, name)[held]).all()
        assert (before.recovers[~held] != after.recovers[~held]).any(), "other folds did see them"


def test_held_out_features_never_change_each_others_decisions() -> None:
    features, recovered, lost = outcomes(60, 4, signal=0.8)
    fold = folds_of(map(str, range(60)), 5)
    before = cross_fit(features, recovered, lost, np.ones(60), fold)
    for number in range(5):
        held = np.flatnonzero(fold == number)
        changed = features.copy()
        changed[held[0]] += 10.0
        after = cross_fit(changed, recovered, lost, np.ones(60), fold)
        assert (before.gain[held[1:]] == after.gain[held[1:]]).all() and before.gain[held[0]] != after.gain[held[0]]


def test_noise_gives_no_gain_on_average_and_a_signal_does() -> None:
    noise = np.array([judged(100, seed, signal=0.0)[1] for seed in range(40)])
    signal = np.array([judged(100, seed, signal=1.0)[1] for seed in range(12)])
    error = noise.std(ddof=1) / np.sqrt(len(noise))
    assert abs(noise.mean()) < 3 * error
    assert signal.mean() > 3 * signal.std(ddof=1) / np.sqrt(len(signal))
    assert signal.mean() > 0.08


def test_the_fit_is_the_maximum_of_the_penalized_likelihood() -> None:
    features, recovered, _ = outcomes(150, 7, signal=0.7)
    design = np.column_stack([np.ones(150), features])

    def loss(b: NDArray[np.float64]) -> float:
        z = design @ b
        return float(np.logaddexp(0, z).sum() - z[recovered].sum() + RIDGE / 2 * (b[1:] ** 2).sum())

    reference = minimize(loss, np.zeros(5), method="BFGS").x
    intercept, weights = fit_logistic(features, recovered)
    assert np.r_[intercept, weights] == pytest.approx(reference, abs=2e-3)


@pytest.mark.parametrize("value", [False, True])
def test_an_event_without_a_counterexample_gets_a_finite_rate(value: bool) -> None:
    intercept, weights = fit_logistic(np.random.default_rng(0).normal(size=(19, 3)), np.full(19, value))
    rate = 1 / (1 + np.exp(-intercept))
    assert rate == pytest.approx(19.5 / 20 if value else 0.5 / 20)
    assert not weights.any()


def test_a_dearer_second_never_sends_more_questions_on() -> None:
    found, _ = judged(100, 3, signal=0.5)
    counts = [int(found.goes(price).sum()) for price in (0.0, 0.05, 0.1, 0.3, 2.0)]
    assert counts == sorted(counts, reverse=True) and counts[0] > counts[-1] == 0


def traces(make_trace: MakeTrace, n: int = 60) -> tuple[list[Trace], list[Trace]]:
    """Every third question is answered at once; of the others, those with even numbers are recovered."""

    def asking(trace: Trace, number: int) -> Trace:
        first = trace.rounds[0]
        words = "new words entirely" if number % 2 else "old"
        parsed = ParsedReply(query_update=words, findings=("f",) * (number % 2))
        return trace.model_copy(update={"rounds": (first.model_copy(update={"parsed": parsed}), *trace.rounds[1:])})

    single = [
        make_trace(f"q{i:03d}", "B" if i % 3 and not i % 2 else "A", system="page_single", seconds=1.0)
        for i in range(n)
    ]
    loop = [
        asking(make_trace(f"q{i:03d}", "A", rounds=[ROUND] * 2, seconds=2.0), i)
        if i % 3
        else make_trace(f"q{i:03d}", "A", seconds=1.0)
        for i in range(n)
    ]
    return single, loop


def test_a_rule_that_can_be_learned_is_learned_from_stored_traces(make_trace: MakeTrace) -> None:
    report = stop_rule_report(choices(*traces(make_trace)), rules=QUICK)
    assert (report.n, report.open, report.recovered, report.lost) == (60, 40, 20, 0)
    rows = {row.name: row for row in report.policies}
    assert list(rows) == [STOP, OWN, LEARNED, HINDSIGHT]
    assert rows[OWN].correct == rows[HINDSIGHT].correct == 60 and rows[STOP].correct == 40
    assert rows[HINDSIGHT].mean_rounds == pytest.approx(1 + 20 / 60)
    dear = stop_rule_report(choices(*traces(make_trace)), price=0.5, rules=QUICK)
    learned = {row.name: row for row in dear.policies}[LEARNED]
    assert learned.correct == 60 and learned.mean_rounds == pytest.approx(1 + 20 / 60)
    assert dear.went_on == 20
    assert {step.contrast.a for step in dear.steps} == {STOP, OWN}
    shares = [point.share for point in dear.frontier]
    assert shares == sorted(shares) and shares[0] == 0 and shares[-1] == 1
    assert dear.frontier[0].accuracy == rows[STOP].accuracy and dear.frontier[-1].accuracy == rows[OWN].accuracy


def test_an_arm_forced_into_a_second_round_opens_all_questions(make_trace: MakeTrace) -> None:
    single, loop = traces(make_trace)
    forced = [make_trace(t.question.id, "B", rounds=[ROUND] * 2, system="fixed_two_rounds", seconds=5.0) for t in loop]
    made = choices(single, loop, forced)
    assert made.open.all()
    asked = made.own.rounds > 1
    assert (made.go.right == asked).all(), "where the loop asked, its own outcome counts"
    assert set(made.go.seconds[~asked]) == {5.0} and made.stop.right[~asked].all()
    report = stop_rule_report(made, rules=QUICK)
    assert [row.name for row in report.policies] == [STOP, GO, OWN, LEARNED, HINDSIGHT]
    assert (report.recovered, report.lost) == (20, 20)


def test_features_see_neither_the_gold_answer_nor_a_later_round(make_trace: MakeTrace) -> None:
    single, loop = traces(make_trace)
    blind = [
        t.model_copy(
            update={
                "question": t.question.model_copy(update={"answer": "D"}),
                "correct": False,
                "rounds": (t.rounds[0], *(r.model_copy(update={"query": "z"}) for r in t.rounds[1:])),
            }
        )
        for t in loop
    ]
    regraded = [
        t.model_copy(update={"question": t.question.model_copy(update={"answer": "D"}), "correct": t.label == "D"})
        for t in single
    ]
    assert (choices(single, loop).features == choices(regraded, blind).features).all()
    assert choices(single, loop).features.shape == (60, len(FEATURES))


def test_nothing_to_learn_from_leaves_the_loop_as_it_stops(make_trace: MakeTrace) -> None:
    single, loop = traces(make_trace)
    at_once = [make_trace(t.question.id) for t in loop]
    for made, opened in ((choices(single, at_once), 0), (choices(single[1:2], loop[1:2]), 1)):
        report = stop_rule_report(made, rules=QUICK)
        assert (report.open, report.went_on, report.weights) == (opened, 0, ())
        rows = {row.name: row for row in report.policies}
        assert rows[LEARNED].correct == rows[STOP].correct and rows[LEARNED].mean_rounds == 1.0


def test_bad_input_is_refused(make_trace: MakeTrace) -> None:
    single, loop = traces(make_trace)
    with pytest.raises(InputError, match="different questions"):
        choices(single[1:], loop)
    with pytest.raises(InputError, match="not negative"):
        stop_rule_report(choices(single, loop), price=-1.0)
