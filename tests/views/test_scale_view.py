"""Figures and tables of chapter 11, and the same in plain text."""

from __future__ import annotations

from pathlib import Path

import pytest

from medvrag_core.evaluation.cost.plan import corpus_plan, plan_run
from medvrag_core.evaluation.cost.prices import PriceTable
from medvrag_core.evaluation.cost.run_size import RunSize
from medvrag_core.evaluation.cost.unit_costs import shipped_costs
from medvrag_core.evaluation.retrieval.stage1_results import read_stage1_runs
from medvrag_core.evaluation.scale.laws import laws
from medvrag_core.evaluation.scale.limits import limits
from medvrag_core.evaluation.scale.outlook import ServerMachine, outlook
from medvrag_core.evaluation.scale.scatter import Fleet, at_loads
from medvrag_core.profiles.load import load_profile
from medvrag_core.views import scale_view
from medvrag_core.views.scale_text import scale_lines

PROFILE, COSTS, SIZES = load_profile("a100"), shipped_costs(), (350_000, 70_000_000)
FOUND = tuple(outlook(PROFILE, pages, COSTS, ServerMachine()) for pages in SIZES)
LAWS = laws(read_stage1_runs(Path(__file__).parents[2] / "benchmarks" / "results"))


def cells(table: scale_view.HtmlTable, column: str) -> list[str]:
    place = table.columns.index(column)
    return [str(row[place]) for row in table.rows]


def test_tables_say_what_is_extrapolated() -> None:
    table = scale_view.time_table(FOUND)
    assert cells(table, "the law is") == ["within what was measured"] * 2 + ["extrapolated"] * 2
    assert cells(scale_view.size_table(FOUND), "codes") == ["5.02 GB", "1 TB"]
    assert "nothing ran on a GPU" in table.caption
    assert cells(scale_view.residence_table(FOUND), "read a query")[:2] == ["–", "–"]
    assert len(scale_view.law_table(LAWS).rows) == 8


def test_money_stands_where_a_price_was_given() -> None:
    plan = plan_run(PROFILE, RunSize(articles=1, pages=1_000, questions=0), COSTS)
    table = PriceTable.model_validate({"currency": "X<", "date": "2026-01-01", "source": "s", "gpu_hour": 2.0})
    priced = plan.priced(table)
    assert priced.money == pytest.approx(2 * plan.gpu_hours)
    assert "X&lt;" in scale_view.model_table([priced]).html
    assert cells(scale_view.model_table([plan]), "GPU hours cost") == ["–"]
    assert plan.priced(table.model_copy(update={"gpu_hour": 0.0})).money is None


def test_the_law_is_drawn_solid_where_it_was_measured_alone() -> None:
    figure = scale_view.latency_figure(LAWS, SIZES, cores=32)
    for trace in (trace for trace in figure.data if trace.mode == "lines"):
        assert (trace.line.dash == "solid") == (max(trace.x) <= 350_001)
        assert (trace.line.dash == "dash") == (min(trace.x) >= 349_999)
        assert (trace.line.dash == "dot") == ("32 parts" in trace.name)
    marks = [trace for trace in figure.data if trace.mode == "markers"]
    assert [len(trace.x) for trace in marks] == [4, 4]


def test_bytes_are_drawn_beside_one_machine() -> None:
    figure = scale_view.bytes_figure(FOUND)
    assert [trace.name for trace in figure.data[:4]] == ["page images and text", "vectors", "codes", "centroids"]
    disk, memory = figure.data[4:]
    assert (set(disk.y), disk.name) == ({7_680}, "disk of one machine")
    assert set(memory.y) == {FOUND[0].machine.index_bytes / 1e9}


def test_waiting_is_drawn_and_told_by_fleet() -> None:
    fleet = Fleet(parts=2, median_s=0.1, tail=1.3)
    waited = at_loads(fleet, (0.5, 0.9), queries=500)
    figure = scale_view.load_figure([("<b>", waited)])
    assert [trace.name for trace in figure.data] == ["&lt;b&gt;, median", "&lt;b&gt;, 95th percentile"]
    table = scale_view.fleet_table([("one", fleet, waited)])
    assert table.columns[-1].endswith("90%")
    assert cells(table, "parts × replicas") == ["2 × 1"]


def test_the_terminal_says_the_same() -> None:
    found = limits(PROFILE, COSTS, ServerMachine())
    text = "\n".join(scale_lines(FOUND[1], found))
    assert text.count("a guess beyond 350,000 pages") == 2
    assert "off by 5% at most" in text and "off by 11% at most" in text
    assert text.count("  at ") == len(found) == len(scale_view.limits_table(found).rows)
    assert "guess" not in "\n".join(scale_lines(FOUND[0], ()))


def test_hours_are_drawn_by_device() -> None:
    plans = [corpus_plan(PROFILE, pages, COSTS) for pages in SIZES]
    figure = scale_view.hours_figure(plans)
    by = {line.name: line.y for line in figure.data}
    assert set(by) == {"summaries, GPU hours", "embedding, GPU hours", "rendering, core hours", "index, core hours"}
    for name, hours in by.items():
        grows = hours[-1] / hours[0] / (SIZES[-1] / SIZES[0])
        assert grows > 2 if name.startswith("index") else grows == pytest.approx(1), "near-duplicates grow by 1.5"
    gpu = [sum(values) for values in zip(by["summaries, GPU hours"], by["embedding, GPU hours"], strict=True)]
    assert gpu == pytest.approx([plan.gpu_hours for plan in plans])
