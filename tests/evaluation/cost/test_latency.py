from __future__ import annotations

from collections.abc import Callable

import pytest

from medvrag_core.evaluation.audit.paper import load_paper
from medvrag_core.evaluation.cost.latency import PAPER_ONE_ROUND, PAPER_STEPS, PAPER_THREE_ROUNDS, latency_report
from medvrag_core.evaluation.stopping.rounds import PAPER_ROUNDS
from medvrag_core.records import Trace

MakeTrace = Callable[..., Trace]
ROUND = ((), (), ())


def test_rows_of_table_2(make_trace: MakeTrace) -> None:
    times = {"encode_query": 0.02, "ann": 0.001, "coarse": 0.002, "exact": 0.003, "filter": 0.1, "read": 0.5}
    traces = [make_trace("q1", times=times, seconds=0.7)]
    traces += [make_trace("q2", times=times, seconds=2.0, rounds=[ROUND] * 3)]
    rows = {row.step: row for row in latency_report(traces)}
    assert list(rows) == [*times, "stage_1", "total_1_round", "total_max_rounds", "total_question"]
    assert (rows["ann"].n, rows["ann"].median, rows["ann"].paper) == (4, 0.001, 0.0019)
    assert (rows["stage_1"].n, rows["stage_1"].median) == (4, pytest.approx(0.006))
    assert rows["stage_1"].paper == pytest.approx(0.0274)
    assert rows["total_1_round"].n == 2
    assert rows["total_1_round"].median == pytest.approx(sum(times.values()))
    assert (rows["total_max_rounds"].n, rows["total_max_rounds"].median, rows["total_max_rounds"].paper) == (
        1,
        2.0,
        47.8,
    )
    assert rows["total_question"].mean == pytest.approx(1.35)
    assert rows["encode_query"].paper is None


def test_steps_the_paper_does_not_know_are_shown_and_absent_ones_are_null(make_trace: MakeTrace) -> None:
    rows = {row.step: row for row in latency_report([make_trace("q", times={"bm25": 0.3})])}
    assert rows["bm25"].median == 0.3
    assert (rows["ann"].n, rows["ann"].median) == (rows["stage_1"].n, rows["stage_1"].median) == (0, None)
    assert rows["total_max_rounds"].label == "Total, questions with 1 round"
    assert rows["total_max_rounds"].paper == 15.9


def test_stage_1_is_whatever_steps_its_mode_has(make_trace: MakeTrace) -> None:
    modes = ({"exact": 0.3, "read": 9.0}, {"coarse": 0.1, "exact": 0.1}, {"ann": 0.05, "coarse": 0.03, "exact": 0.02})
    rows = {r.step: r for r in latency_report([make_trace(f"q{n}", times=times) for n, times in enumerate(modes)])}
    assert (rows["stage_1"].n, rows["stage_1"].median, rows["ann"].n) == (3, pytest.approx(0.2), 1)
    assert rows["stage_1"].mean == pytest.approx(0.2)


def test_spread_is_ordered_and_errors_are_left_out(make_trace: MakeTrace) -> None:
    traces = [make_trace(f"q{i}", times={"read": float(i)}, seconds=float(i)) for i in range(11)]
    traces.append(make_trace("e", None, outcome="error", times={"read": 1e6}, seconds=1e6))
    row = next(row for row in latency_report(traces) if row.step == "read")
    assert (row.n, row.p10, row.p25, row.median, row.p75, row.p90) == (11, 1.0, 2.5, 5.0, 7.5, 9.0)


def test_the_papers_times_and_rounds_are_those_that_the_audit_reads() -> None:
    paper = load_paper()

    def number(name: str) -> float:
        return float(paper.number(name).value)

    steps = {"ann": "ann_ms", "coarse": "coarse_ms", "exact": "fine_ms"}
    assert {step: PAPER_STEPS[step][1] for step in steps} == {s: number(n) / 1000 for s, n in steps.items()}
    assert (PAPER_STEPS["filter"][1], PAPER_STEPS["read"][1]) == (number("filter_s"), number("vlm_s"))
    assert (number("one_round_s"), number("three_rounds_s")) == (PAPER_ONE_ROUND, PAPER_THREE_ROUNDS)
    printed = {k: (number(f"rounds_{k}_share"), number(f"rounds_{k}_accuracy")) for k in PAPER_ROUNDS}
    assert {k: tuple(pytest.approx(100 * v) for v in pair) for k, pair in PAPER_ROUNDS.items()} == printed
