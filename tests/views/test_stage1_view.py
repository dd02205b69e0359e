from __future__ import annotations

from pathlib import Path

import pytest
from stage1_file import engine, missing, report, write

from medvrag_core.evaluation.retrieval.stage1_results import Stage1Run, read_stage1_runs
from medvrag_core.views import stage1_view as view
from medvrag_core.views.markup import HtmlBlock


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Stage1Run, ...]:
    return read_stage1_runs(write(tmp_path))


def test_without_results_one_sentence_says_so() -> None:
    for draw, sentences in (
        (view.recall_figure, 1),
        (view.growth_figure, 0),
        (view.times_tables, 1),
        (view.facts, 0),
    ):
        drawn = draw(())
        assert isinstance(drawn, HtmlBlock)
        assert drawn.html.count("<p>") == drawn.html.count("There are no results to draw") == sentences


def test_recall_is_drawn_against_time_one_panel_a_size(runs: tuple[Stage1Run, ...]) -> None:
    figure = view.recall_figure(runs)
    assert [a.text for a in figure.layout.annotations] == ["20,000 pages", "100,000 pages"]
    assert figure.layout.xaxis.type == figure.layout.xaxis2.type == "log"
    assert figure.layout.title.subtitle.text == "made-up page vectors. Nothing ran on a GPU."
    drawn = {(t.name, t.xaxis): t for t in figure.data}
    exact = drawn["ours exact", "x"]
    # With one thread, although two were tried too.
    assert (list(exact.x), list(exact.y)) == ([20.0], [0.98])
    assert "1 thread<br>" in exact.hovertemplate and "of exact two-way" in exact.hovertemplate
    one = drawn["&lt;one-way&gt; (one way)", "x2"]
    assert one.marker.symbol.endswith("-open") and not exact.marker.symbol.endswith("-open")
    assert list(one.x) == [500.0] and "of exact one-way" in one.hovertemplate
    assert len(figure.data) == 6 and sum(bool(t.showlegend) for t in figure.data) == 3
    same = [t for t in figure.data if t.legendgroup == "ours exact"]
    assert same[0].marker == same[1].marker


def test_an_engine_without_a_recall_is_not_drawn(tmp_path: Path) -> None:
    told = report()
    told["sizes"][0]["engines"].append(engine("few", **{"recall@100": None}))
    figure = view.recall_figure(read_stage1_runs(write(tmp_path, told=told)))
    assert "few" not in {t.name for t in figure.data}


def test_many_engines_look_different(tmp_path: Path) -> None:
    told = report()
    told["sizes"][0]["engines"] = [engine(f"e{number}") for number in range(20)]
    figure = view.recall_figure(read_stage1_runs(write(tmp_path, told=told)))
    marks = [(t.marker.color, t.marker.symbol) for t in figure.data if t.name.startswith("e")]
    assert len(marks) == len(set(marks)) == 20


def test_cost_grows_with_pages(runs: tuple[Stage1Run, ...]) -> None:
    figure = view.growth_figure(runs)
    lines = {t.name: t for t in figure.data}
    assert set(lines) == {"ours exact", "ours fast", "&lt;one-way&gt; (one way)"}
    assert list(lines["ours fast"].x) == [20_000, 100_000] and list(lines["ours fast"].y) == [4.0, 20.0]
    assert figure.layout.xaxis.type == figure.layout.yaxis.type == "log"
    assert list(figure.layout.xaxis.ticktext) == ["20,000", "100,000"]


def test_files_of_one_machine_make_one_line(tmp_path: Path) -> None:
    small, large = report(), report()
    small["sizes"], large["sizes"] = small["sizes"][:1], large["sizes"][1:]
    write(tmp_path, "stage1-a.json", large)
    runs = read_stage1_runs(write(tmp_path, "stage1-b.json", small))
    lines = {t.name: t for t in view.growth_figure(runs).data}
    assert list(lines["ours fast"].x) == [20_000, 100_000] and len(lines) == 3
    panels = [a.text for a in view.recall_figure(runs).layout.annotations]
    assert panels == ["20,000 pages<br>stage1-b.json", "100,000 pages<br>stage1-a.json"]
    assert view.facts(runs).html.count("<p>") == 2
    large["machine"]["cpu"] = "Another"
    runs = read_stage1_runs(write(tmp_path, "stage1-a.json", large))
    lines = {t.name: t for t in view.growth_figure(runs).data}
    assert list(lines["ours fast, Another"].x) == [100_000] and len(lines) == 6


def test_the_table_has_every_number_and_says_what_it_is_of(runs: tuple[Stage1Run, ...]) -> None:
    html = view.times_tables(runs).html
    assert html.count("<table") == 3 and html.count("<tr>") == 3 * 1 + 2 * 4 + 1
    first = html[: html.index("</table>")]
    for text in (
        "made-up page vectors. Nothing ran on a GPU; 20,000 pages",
        "20,000 pages of 103 vectors",
        "40 queries of 20 vectors",
        "Some &lt;CPU&gt;, 2 cores, 24 GB, avx2 avx512_vnni, load 1.25 at the start; load 1.5 to 2.5 while",
        "17.0 GB/s with 1 thread, 25.0 GB/s with 2 threads",
        "; not installed: absent<",
        "recall@2,000",
        "14,120",
        "beside ours exact",
    ):
        assert text in first, text
    rows = [row.split("</tr>")[0] for row in first.split("<tr>")[2:]]
    cells = [[cell.split(">")[-1] for cell in row.split("</td>")[:-1]] for row in rows]
    assert cells[0] == [
        *("ours exact", "1", "exact two-way", "20", "1", "20", "40", "4", "5", "1.000", "0.980", "–", "14,120", "0.7"),
    ]
    assert cells[3][:5] == ["&lt;one-way&gt;", "1", "exact one-way", "100", "5"]
    assert "scoring alone, 2,000 pages" in html[html.rindex("<table") :]


def test_what_did_not_run_is_named_with_its_reason(tmp_path: Path) -> None:
    told = report()
    engines = told["sizes"][0]["engines"]
    engines[1] |= {"status": "failed", "reason": "out of <memory>"}
    engines += [missing("slow", threads) | {"status": "skipped", "reason": "too long"} for threads in (1, 2)]
    html = view.times_tables(read_stage1_runs(write(tmp_path, told=told))).html
    assert (
        "; ours exact with 2 threads: failed, out of &lt;memory&gt;; slow with 1 and 2 threads: skipped, too long; "
        "not installed: absent<"
    ) in html


def test_a_gpu_is_named_and_has_no_floor(tmp_path: Path) -> None:
    told = report()
    told["sizes"][1]["engines"][0] |= {"device": "cuda:0", "floor_ms": 0}
    runs = read_stage1_runs(write(tmp_path, told=told))
    assert view.growth_figure(runs).layout.title.subtitle.text == "made-up page vectors. On a GPU: ours exact."
    assert "Nothing ran" not in view.facts(runs).html
    row = next(row for row in view.times_tables(runs).html.split("<tr>") if "ours exact on cuda:0" in row)
    assert [cell.split(">")[-1] for cell in row.split("</td>")][7:9] == ["–", "–"]


def test_facts_tell_command_machine_generator_and_difficulty(runs: tuple[Stage1Run, ...]) -> None:
    told = view.facts(runs).html
    for text in (
        "stage1.json: benchmarks/stage1.py --pages 20000 100000, measured on Some &lt;CPU&gt;",
        "Python 3.12.3. Nothing ran on a GPU. The page",
        "The page vectors are made up, 128 numbers wide, from seed 0: 300 topics of 20 concepts, 20% of the regions",
        "Among 100,000 pages exact search puts the page that a query was made from first in 60% of 40 queries",
        "one way and two ways share 44% of their first 100 pages",
    ):
        assert text in told, text
