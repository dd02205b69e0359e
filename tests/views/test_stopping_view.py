"""Tables, figure and sentences about stopping; the sentences must change with the verdict."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from medvrag_core.evaluation.statistics.contrasts import Rules
from medvrag_core.evaluation.statistics.estimands import Arm
from medvrag_core.evaluation.stopping.choices import FEATURES, GO, OWN, STOP, Choices
from medvrag_core.evaluation.stopping.policies import Policy, PolicyStep, policy_row, policy_steps
from medvrag_core.evaluation.stopping.rounds import IterationGain
from medvrag_core.evaluation.stopping.rule import HINDSIGHT, LEARNED, StopRuleReport, stop_rule_report
from medvrag_core.views import stopping_view

QUICK = Rules(resamples=300, permutations=300)


def policy(name: str, right: np.ndarray, rounds: np.ndarray) -> Policy:
    ids = tuple(f"q{i:03d}" for i in range(len(right)))
    labels = np.where(right, "x", "y")[None]
    arm = Arm(name, ids, ("all",) * len(ids), right[None], labels, ("x",) * len(ids), ("f",))
    return Policy(arm, 2.0 * rounds, rounds.astype(np.intp))


@pytest.fixture(scope="module")
def report() -> StopRuleReport:
    """Going on recovers where the first feature is high, on half of 120 questions, and loses nowhere."""
    n = 120
    helps = np.arange(n) % 2 == 0
    features = np.zeros((n, len(FEATURES)))
    features[:, 0] = np.where(helps, 1.0, -1.0)
    stop, go = policy(STOP, ~helps, np.full(n, 1)), policy(GO, np.ones(n, dtype=bool), np.full(n, 3))
    made = Choices(stop, go, policy(OWN, ~helps, np.full(n, 1)), np.ones(n, dtype=bool), features, n)
    return stop_rule_report(made, price=0.05, rules=QUICK)


def step(won: int, lost: int, n: int = 100, seconds: tuple[int, int] = (1, 2)) -> PolicyStep:
    right_a = np.arange(n) < 30
    right_b = right_a.copy()
    right_b[:lost] = False
    right_b[30 : 30 + won] = True
    pair = [policy(OWN, right_a, np.full(n, seconds[0])), policy(LEARNED, right_b, np.full(n, seconds[1]))]
    return policy_steps(pair, {"s": (OWN, LEARNED)}, QUICK, family="f")[0]


def test_the_stop_rule_is_told_by_its_verdict(report: StopRuleReport) -> None:
    def said(made: PolicyStep) -> str:
        return stopping_view.stop_rule_sentence(report.model_copy(update={"steps": (made,)}))

    assert "right more often than the loop's own" in said(step(25, 1))
    assert "right less often than the loop's own" in said(step(1, 25))
    assert "no gain in right answers is shown, nor a loss" in said(step(3, 2))
    assert "right equally often, within the margin" in said(step(0, 0, n=4_000))
    assert "takes 2.0 s more a question" in said(step(3, 2)) and "2.0 s less" in said(step(3, 2, seconds=(2, 1)))
    assert "a difference in time is not shown" in said(step(3, 2, seconds=(1, 1)))
    assert "on 60 and right into wrong on 0 of 120 questions" in stopping_view.stop_rule_sentence(report)
    assert "right more often than the loop's own" in stopping_view.stop_rule_sentence(report)


def test_steps_show_count_interval_and_adjusted_p(report: StopRuleReport) -> None:
    table = stopping_view.steps_table(report.steps)
    assert [row[0] for row in table.rows] == [f"{LEARNED} over {name}" for name in (STOP, GO, OWN)]
    first, second, _ = table.rows
    assert "60 / 0" in first and "+50.0" in first and "+500" in first
    rate = table.columns.index("right answers a second more")
    assert first[rate] != "–" and second[rate] == "–", "a faster policy has no rate"
    (made,) = stopping_view.steps_table([step(3, 1)]).rows
    assert "3 / 1" in made and "+2.0 s" in made and "+20" in made and "+0.01" in made


def test_policies_and_weights_are_tabled(report: StopRuleReport) -> None:
    rows = stopping_view.policies_table(report.policies).rows
    assert [row[0] for row in rows] == [STOP, GO, OWN, LEARNED, HINDSIGHT]
    assert rows[0][1] == "60 of 120" and rows[-1][1] == "120 of 120"
    weights = stopping_view.weights_table(report.weights).rows
    assert [row[0] for row in weights] == [next(iter(FEATURES))] and float(weights[0][1]) > 0.5


def test_the_frontier_runs_from_stopping_to_going_on(report: StopRuleReport) -> None:
    random, line, *points = stopping_view.frontier_figure(report, caption="<b>").data
    assert (random.x[0], random.x[-1]) == (line.x[0], line.x[-1]) == (2.0, 6.0)
    assert [p.name.split(" (")[0] for p in points] == [STOP, GO, OWN, LEARNED, HINDSIGHT]
    assert max(line.y) == pytest.approx(100) and line.y[0] == pytest.approx(50)


def test_gains_are_told_by_their_verdict() -> None:
    def gain(won: int, lost: int, n: int = 100) -> IterationGain:
        (effect,) = step(won, lost, n).contrast.sets
        named = effect.model_copy(update={"name": "<2> rounds"})
        return IterationGain(n=n + 7, answered_at_once=7, differing_at_once=1, iterated=effect, by_rounds=(named,))

    told: Callable[[IterationGain], str] = stopping_view.gain_sentence
    assert told(gain(30, 2)).endswith("later rounds help.") and told(gain(2, 25)).endswith("later rounds hurt.")
    assert told(gain(3, 2)).endswith("it is not shown that later rounds help or hurt.")
    assert "recovers 3 and loses 2" in told(gain(3, 2)) and "the 100 of 107 questions" in told(gain(3, 2))
    table = stopping_view.gains_table(gain(3, 2))
    assert [row[0] for row in table.rows] == ["all that iterated", "<2> rounds"] and "3 / 2" in table.rows[0]
    assert "7 of 107 questions were answered in round 1; on 1 of these" in table.caption
    assert "<2>" not in table.html
    none = IterationGain(n=5, answered_at_once=5, differing_at_once=0, iterated=None, by_rounds=())
    assert "no later round" in told(none) and stopping_view.gains_table(none).rows == ()


def test_a_policy_row_is_printed_as_it_is() -> None:
    row = policy_row(policy(STOP, np.array([True, False]), np.array([1, 2])))
    assert stopping_view.policies_table([row]).rows[0][1:] == (
        "1 of 2", "50.0%", f"[{100 * row.low:.1f}%, {100 * row.high:.1f}%]", "1.50", "3.0 s", "3.0 s",
    )  # fmt: skip
