from __future__ import annotations

from pathlib import Path

import pytest

from medvrag_core.errors import InputError
from medvrag_core.evaluation.cost.latency import PAPER_STEPS
from medvrag_core.evaluation.cost.unit_costs import read_costs, shipped_costs


def test_every_shipped_cost_says_how_it_is_known() -> None:
    costs = shipped_costs()
    measured = {name for name, cost in costs.items() if cost.kind == "measured"}
    assert {name for name, cost in costs.items() if cost.kind == "paper"} == {"filter_s", "reader_s"}
    assert all("benchmarks/" in costs[name].source or "stage1-" in costs[name].source for name in measured)
    assert {name for name in costs if name.startswith("gpu_")} <= costs.keys() - measured, "no GPU was measured"
    assert all(cost.value > 0 for cost in costs.values())


def test_the_papers_times_are_those_of_its_table() -> None:
    costs = shipped_costs()
    assert (costs["filter_s"].value, costs["reader_s"].value) == (PAPER_STEPS["filter"][1], PAPER_STEPS["read"][1])


def test_a_file_of_another_machine_takes_the_place_of_what_it_names(tmp_path: Path) -> None:
    path = tmp_path / "costs.yaml"
    path.write_text("render_s: {value: 0.5, unit: s, kind: measured, source: here}\n")
    costs, shipped = read_costs(path), shipped_costs()
    assert costs["render_s"].value == 0.5
    assert {name for name in costs if costs[name] != shipped[name]} == {"render_s"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rendering: {value: 1, unit: s, kind: measured, source: x}", "no plan asks for 'rendering'; known are ann_s"),
        ("render_s: {value: -1, unit: s, kind: measured, source: x}", "costs.yaml: "),
        ("render_s: {value: .inf, unit: s, kind: measured, source: x}", "costs.yaml: "),
        ("render_s: {value: 1, unit: s, kind: guessed, source: x}", "kind"),
        ("render_s: {value: 1, unit: s, kind: measured}", "source"),
        ("- 1", "is no table of unit costs"),
        ("a: [", "not valid YAML"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "costs.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as refused:
        read_costs(path)
    assert words in str(refused.value)
    with pytest.raises(InputError, match=r"none\.yaml: cannot be read"):
        read_costs(tmp_path / "none.yaml")
