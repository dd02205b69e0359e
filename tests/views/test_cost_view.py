from __future__ import annotations

import pytest

from medvrag_core.evaluation.cost.bill import CostReport, cost_report
from medvrag_core.evaluation.cost.extra_right import ExtraCost
from medvrag_core.evaluation.cost.prices import PriceTable
from medvrag_core.evaluation.stopping.rounds import rounds_report
from medvrag_core.records import Trace
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.answering import read_traces
from medvrag_core.views import cost_view
from medvrag_core.views.cost_text import cost_text

HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture
def traces(paid_run: Workspace) -> list[Trace]:
    return read_traces(paid_run, "medvrag", made_by="the fixture")


@pytest.fixture
def report(traces: list[Trace]) -> CostReport:
    prices = PriceTable.model_validate(
        {"currency": HOSTILE[:12], "date": "2026-01-01", "source": "s", "gpu_hour": 3600.0}
    )
    return cost_report(traces, prices=prices)


def test_every_row_stands_in_table_and_text(report: CostReport, traces: list[Trace]) -> None:
    html = cost_view.cost_table(report).html
    assert html.count("<tr>") == len(report.rows) + 1
    assert "<img" not in html and "&lt;img" in html
    seconds = sum(row.quantity == "seconds" for row in report.rows)
    assert cost_view.cost_table(report, timed=False).html.count("<tr>") == len(report.rows) + 1 - seconds
    text = cost_text(report)
    for row in report.rows:
        assert row.label in html and row.label in text
    assert all(note in text for note in report.notes)
    assert cost_view.cost_notes_table(report).html.count("<tr>") == len(report.notes) + 1
    assert cost_view.rounds_cost_table(report, rounds_report(traces)).html.count("<tr>") == len(report.rounds) + 1
    assert "24.3 s" in cost_view.expected_table(report).html


def test_the_figure_has_a_box_for_each_timed_stage_and_a_point_for_each_question(report: CostReport) -> None:
    *boxes, tail = cost_view.stage_times(report).data
    timed = {row.label: row for row in report.rows if row.quantity == "seconds" and row.stage != "total"}
    assert [box.y[0] for box in boxes] == list(timed) == list(tail.y)
    assert all(len(box.x) == report.n for box in boxes)
    assert list(tail.x) == [row.p95 for row in timed.values()]


def test_hostile_ids_are_escaped(report: CostReport) -> None:
    named = report.model_copy(
        update={"questions": tuple(q.model_copy(update={"id": HOSTILE}) for q in report.questions)}
    )
    assert HOSTILE not in cost_view.stage_times(named).to_json()


def test_a_ratio_without_bound_is_words() -> None:
    row = ExtraCost(quantity="seconds", mean_a=1, mean_b=2, difference=1, low=0.5, high=1.5)
    assert cost_view.per_extra(row, "") == "no bound"
    assert cost_view.difference(row, "") == "1.0 s [500 ms, 1.5 s]"
