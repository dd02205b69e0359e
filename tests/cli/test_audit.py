"""The verb ``audit`` from the shell, with its views."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from medvrag_core.cli.app import app
from medvrag_core.errors import InputError

TABLE = "arm,MedQA,PubMedQA,average\n<b>base</b>\x1b[31m,71.4,73.7,72.6\n+ text,74.8,73.4,80.0\n"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.csv"
    path.write_text(TABLE, encoding="utf-8")
    return path


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["audit", *arguments])
    if result.exception is not None:
        raise result.exception
    return result.output


def test_a_table_is_audited_and_nothing_in_it_steers_the_terminal(table: Path) -> None:
    text = run(str(table), "--size", "MedQA=1273", "--size", "PubMedQA=500")
    assert "1 with no whole count" in text
    assert "73.7 on 500 questions lies between 73.60 (368) and 73.80 (369); possible as a mean of 2 runs" in text
    assert "agrees with neither" in text
    assert "MedQA +3.40 (+43)" in text
    assert "\x1b" not in text


def test_sizes_that_are_missing_are_asked_for(table: Path) -> None:
    text = run(str(table), "--size", "MedQA=1273")
    assert "no size known for PubMedQA" in text
    assert "1 cells tested" in text or "2 cells tested" in text


def test_runs_make_the_steps_finer(table: Path) -> None:
    made = json.loads(run(str(table), "--size", "PubMedQA=500", "--runs", "2", "--json"))
    assert [cell["counts"] for cell in made["grim"]] == [[737, 737], [734, 734]]


def test_without_a_table_the_paper_is_audited() -> None:
    made = json.loads(run("--json"))
    assert {"fails", "open", "holds", "derived"} == {finding["verdict"] for finding in made["findings"]}
    text = run()
    assert "[A] accuracies on 500 questions of PubMedQA" in text
    assert "could be explained" in text


@pytest.mark.parametrize("pair", ["MedQA", "MedQA=", "MedQA=-3", "MedQA=0", "MedQA=1e3", "MedQA=٣"])
def test_faulty_sizes_are_refused(table: Path, pair: str) -> None:
    with pytest.raises(InputError, match="is not SET=N"):
        run(str(table), "--size", pair)


def test_sizes_without_a_table_are_refused() -> None:
    with pytest.raises(InputError, match="go with a table"):
        run("--size", "MedQA=1273")
