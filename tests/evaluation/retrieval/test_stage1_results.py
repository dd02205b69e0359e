from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from stage1_file import engine, report, write

from medvrag_core.errors import InputError
from medvrag_core.evaluation.retrieval.stage1_results import Stage1Run, read_stage1_run, read_stage1_runs
from medvrag_core.runs.workspace import project_root


def test_files_are_read_in_order_of_their_names(tmp_path: Path) -> None:
    write(tmp_path, "stage1-b.json")
    write(tmp_path, "stage1-a.json")
    write(tmp_path, "other.json", {"no": "results"})
    assert [run.source for run in read_stage1_runs(tmp_path)] == ["stage1-a.json", "stage1-b.json"]
    assert read_stage1_runs(tmp_path / "none") == ()


def test_figures_are_those_of_the_file(tmp_path: Path) -> None:
    (run,) = read_stage1_runs(write(tmp_path))
    assert (run.machine.cores, run.machine.load, run.generator.topics) == (2, 1.25, 300)
    small = run.sizes[0]
    assert (small.pages, small.difficulty.two_way_top_100_in_one_way) == (20_000, 0.44)
    assert small.read_bytes_per_s == {1: 17e9, 2: 25e9}
    told = json.loads((tmp_path / "stage1.json").read_text())["sizes"][0]["engines"]
    assert [(e.name, e.threads) for e, _ in small.measured] == [(t["name"], t["threads"]) for t in told[:4]]
    for (_, figures), row in zip(small.measured, told, strict=False):
        assert figures.recall == {10: row["recall@10"], 100: row["recall@100"], 2_000: None}
        assert (figures.cpu_ms_p50, figures.wall_ms_p95) == (row["cpu_ms_p50"], row["wall_ms_p95"])
        assert figures.of_floor == row["wall_ms_p50"] / row["floor_ms"]
    assert [(e.name, e.threads, e.reason) for e in small.not_measured] == [
        ("absent", threads, "no Python that was named has absent") for threads in (1, 2)
    ]


def test_ratios_are_to_the_same_number_of_threads(tmp_path: Path) -> None:
    told = report()
    told["sizes"][0]["engines"].append(engine("<one-way>", 2, ways=1, cpu=44.0))
    told["sizes"][0]["engines"].append(engine("alone", 3))
    (run,) = read_stage1_runs(write(tmp_path, told=told))
    found = run.sizes[0]
    ratios = {(e.name, e.threads): found.ratio(e) for e in found.engines}
    assert ratios["ours exact", 1] == ratios["ours exact", 2] == 1.0
    assert ratios["<one-way>", 1] == pytest.approx(100 / 20)
    assert ratios["<one-way>", 2] == pytest.approx(44 * 900 / 20_000)
    assert ratios["alone", 3] is None and ratios["absent", 1] is None
    fewest = {(e.name, e.threads) for e, _ in found.on_fewest_threads}
    assert fewest == {("ours exact", 1), ("ours fast", 1), ("<one-way>", 1), ("alone", 3)}


def test_an_engine_may_run_on_some_threads_alone(tmp_path: Path) -> None:
    told = report()
    told["sizes"][0]["engines"][1] |= {"status": "skipped", "reason": "not done after 660 s"}
    (run,) = read_stage1_runs(write(tmp_path, told=told))
    assert [e.threads for e, _ in run.sizes[0].measured if e.name == "ours exact"] == [1]
    assert {(e.name, e.status) for e in run.sizes[0].not_measured} == {
        ("ours exact", "skipped"),
        ("absent", "not installed"),
    }


def test_nothing_to_read_has_no_floor(tmp_path: Path) -> None:
    told = report(kernel=None)
    told["sizes"][0]["engines"][0]["floor_ms"] = 0.0
    (run,) = read_stage1_runs(write(tmp_path, told=told))
    assert run.kernel is None and run.sizes[0].measured[0][1].of_floor is None


def test_what_benchmarks_learn_to_tell_later_is_passed_over(tmp_path: Path) -> None:
    told = report(news=1)
    told["sizes"][0]["engines"][0]["energy_j"] = 3
    told["machine"]["gpu"] = "none"
    (run,) = read_stage1_runs(write(tmp_path, told=told))
    assert run.sizes == read_stage1_runs(write(tmp_path / "plain"))[0].sizes


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (("machine", "cpu"), None, "field 'machine.cpu'"),
        (("sizes", 1, "pages"), "many", "field 'sizes.1.pages'"),
        (("sizes", 0, "engines", 0, "ways"), 3, "field 'sizes.0.engines.0.ways'"),
        (("sizes", 0, "engines", 2, "cpu_ms_p50"), "fast", "field 'sizes.0.engines.2.figures.cpu_ms_p50'"),
        (("generator",), [], "field 'generator'"),
    ],
)
def test_a_faulty_file_is_named_with_its_field(
    tmp_path: Path, place: tuple[Any, ...], value: object, words: str
) -> None:
    told: Any = report()
    inner = told
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    with pytest.raises(InputError, match=r"stage1\.json") as caught:
        read_stage1_runs(write(tmp_path, told=told))
    assert words in str(caught.value)


@pytest.mark.parametrize("name", ["cpu_ms_p50", "recall", "threads", "floor_ms"])
def test_a_missing_figure_is_named(tmp_path: Path, name: str) -> None:
    told = report()
    row = told["sizes"][0]["engines"][0]
    for key in [key for key in row if key.split("@")[0] == name]:
        del row[key]
    with pytest.raises(InputError, match=rf"stage1\.json: field 'sizes\.0\.engines\.0\.(figures\.)?{name}' is missing"):
        read_stage1_runs(write(tmp_path, told=told))


def test_half_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "stage1.json").write_text(json.dumps(report())[:-20])
    with pytest.raises(InputError, match=r"stage1\.json"):
        read_stage1_runs(tmp_path)


def test_the_files_of_this_checkout_can_be_read() -> None:
    runs = read_stage1_runs(project_root(Path(__file__).parent) / "benchmarks" / "results")
    if not runs:
        pytest.skip("benchmarks/results holds no stage1*.json")
    for run in runs:
        assert run.sizes or run.kernel
        for found in run.sizes:
            assert found.beside in {e.name for e, _ in found.measured}


@pytest.mark.slow
def test_what_the_benchmark_writes_can_be_read(tmp_path: Path) -> None:
    script = project_root(Path(__file__).parent) / "benchmarks" / "stage1.py"
    sizes = ["--pages", "250", "--queries", "3", "--rounds", "1", "--threads", "1", "--kernel"]
    command = [sys.executable, str(script), *sizes, "--peers", "none", "--json", str(tmp_path / "stage1.json")]
    subprocess.run(command, check=True, capture_output=True)
    run = read_stage1_run(tmp_path / "stage1.json")
    assert isinstance(run, Stage1Run) and run.kernel is not None
    (found,) = run.sizes
    names = [e.name for e, _ in found.measured]
    assert found.beside in names and len(names) == len(found.engines) > 1
    assert all(figures.recall[100] is not None for _, figures in found.measured)
