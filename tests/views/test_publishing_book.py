"""Building the book: the prose is the real one, the chapters are made up."""

from __future__ import annotations

import json
import re
from pathlib import Path

import nbformat
import plotly.graph_objects as go
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from medvrag_core.errors import InputError, NotBuiltError
from medvrag_core.evaluation.claims.checks import check_claims
from medvrag_core.evaluation.claims.table import load_claims
from medvrag_core.profiles.load import load_profile
from medvrag_core.runs.stage import record_stage
from medvrag_core.views.inspector.export import ExportReport
from medvrag_core.views.publishing.book import SIZES, build_book
from medvrag_core.views.publishing.errors import BookError
from medvrag_core.views.publishing.mime import PLOTLY_MIME, figure_html
from medvrag_core.views.publishing.offline import external_requests
from medvrag_core.views.publishing.paper_map import paper_map
from medvrag_core.views.publishing.sizes import BookSizes
from medvrag_core.views.publishing.staging import chapters_of, stage_book

REPO = Path(__file__).resolve().parents[2]
BOOK = REPO / "book"
HOSTILE = '</script><img src="http://evil.example/x.png" onerror="alert(1)">'


def executed_chapter(run: Path, name: str, *outputs: nbformat.NotebookNode, text: str = "Prose.") -> None:
    """A notebook as the runner leaves it after a pass, with the record of its stage."""
    done = {"papermill": {"status": "completed"}}
    cells = [
        new_markdown_cell(f"# Chapter {name}\n\n{text} $S(q,p)$", metadata=done),
        new_code_cell('profile = "cpu"', execution_count=1, metadata={"tags": ["parameters"], **done}),
        new_code_cell('run_id = "demo"', execution_count=2, metadata={"tags": ["injected-parameters"], **done}),
        new_code_cell("show()", execution_count=3, outputs=list(outputs), metadata=done),
    ]
    folder = run / "notebooks"
    folder.mkdir(parents=True, exist_ok=True)
    notebook = new_notebook(cells=cells, metadata={"papermill": {"input_path": "/secret/place/x.ipynb"}})
    notebook.metadata["language_info"] = {"name": "python", "pygments_lexer": "ipython3"}
    nbformat.write(notebook, folder / f"{name}.ipynb")
    with record_stage(run, name[3:], profile="cpu", settings=load_profile("cpu")):
        pass


@pytest.fixture
def run(tmp_path: Path) -> Path:
    run = tmp_path / "demo"
    figure = go.Figure(go.Bar(x=["a", HOSTILE], y=[1, 2])).update_layout(title=HOSTILE)
    plotly_output = new_output("display_data", data={PLOTLY_MIME: figure.to_plotly_json(), "text/plain": "figure"})
    table = new_output("display_data", data={"text/html": "<table><tr><td>1</td></tr></table>", "text/plain": "t"})
    for name in chapters_of(BOOK):
        executed_chapter(run, name, plotly_output, table)
    return run


@pytest.mark.slow
def test_the_real_prose_builds_without_a_warning_and_fetches_nothing(run: Path, tmp_path: Path) -> None:
    built = build_book(run, BOOK, tmp_path / "out")
    index = built.index
    site = index.parent
    assert index.is_file()
    assert external_requests(site) == []
    chapter = (site / "chapters" / "03_filter.html").read_text()
    assert "medvrag-figure" in chapter
    assert "<img src=" not in chapter.split('type="application/json">')[1].split("</script>")[0]
    assert "run <code" in chapter
    assert "/secret/place" not in chapter
    assert 'class="btn search-button-field' in chapter and "canonical" not in chapter
    assert not re.search(r'search-button-field[^>]*aria-label="Search"', chapter), "its name holds what it shows"
    assert "<summary>" in chapter and 'aria-label="Toggle hidden content"' not in chapter
    assert 'class="citation-list"' in (sources := (site / "sources.html").read_text()) and 'role="list"' not in sources
    assert 'id="medvrag_core.index.base.PageIndex.search"' in (site / "_generated" / "api_index.html").read_text()
    assert "by default" in (site / "_generated" / "api_records.html").read_text()
    assert "PageIndex" in (site / "searchindex.js").read_text(), "the search finds names of the reference"
    assert BookSizes.from_json((site.parent / SIZES).read_text()) == built.sizes
    assert {"chapters/03_filter.html", "_generated/settings.html"} <= {page.page for page in built.sizes.pages}
    assert "Paper map" in (site / "_generated" / "paper_map.html").read_text()
    assert (site / "_static" / "plotly.min.js").stat().st_size > 1_000_000
    assert (site / "_static" / "mathjax" / "tex-chtml.js").is_file()
    assert sum(path.stat().st_size for path in (site / "_static" / "mathjax").rglob("*") if path.is_file()) < 4_000_000
    assert not (BOOK / "chapters").exists(), "the source folder must not be written to"


@pytest.mark.slow
def test_a_warning_is_an_error_and_keeps_the_former_site(run: Path, tmp_path: Path) -> None:
    site = tmp_path / "out" / "html"
    site.mkdir(parents=True)
    (site / "index.html").write_text("former")
    executed_chapter(run, "03_filter", text="See [nowhere](nowhere.md).")
    with pytest.raises(BookError, match=r"03_filter.*nowhere"):
        build_book(run, BOOK, tmp_path / "out")
    assert (site / "index.html").read_text() == "former"


def test_the_inspector_is_published_with_the_cases_that_the_run_wrote(run: Path, tmp_path: Path) -> None:
    report = ExportReport(arms=1, cases=1, pages=1, restricted=1, files=1, bytes=4, largest=4)
    (run / "inspector" / "cases").mkdir(parents=True)
    (run / "inspector" / "cases" / "0-0.js").write_text("data")
    (run / "inspector" / "report.json").write_text(report.to_json())
    with pytest.raises(NotBuiltError, match="1 pages that a published book may not show"):
        stage_book(run, BOOK, tmp_path / "stage")
    (run / "notebooks" / "10_case_inspector.key.json").write_text('{"audience": "private"}')
    stage_book(run, BOOK, tmp_path / "stage")
    published = tmp_path / "stage" / "_vendor" / "inspector"
    assert (published / "cases" / "0-0.js").read_text() == "data"
    assert "mountAll" in (published / "inspector.js").read_text()
    for page in ("index.md", "inspector.md"):
        assert 'src="_static/inspector/inspector.js"' in (tmp_path / "stage" / page).read_text()


def test_a_chapter_that_was_not_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotBuiltError, match=r"no executed chapter 00_start_here; medvrag book run --run .*demo"):
        stage_book(tmp_path / "demo", BOOK, tmp_path / "stage")


def test_a_chapter_with_an_error_output_is_not_published(run: Path, tmp_path: Path) -> None:
    executed_chapter(run, "03_filter", new_output("error", ename="ValueError", evalue="no", traceback=[]))
    with pytest.raises(NotBuiltError, match=r"chapter 03_filter, code cell 2 .*: ValueError: no"):
        stage_book(run, BOOK, tmp_path / "stage")


def test_imports_and_injected_parameters_are_folded_and_the_note_comes_first(run: Path, tmp_path: Path) -> None:
    path = run / "notebooks" / "03_filter.ipynb"
    notebook = nbformat.read(path, as_version=4)
    done = {"papermill": {"status": "completed"}}
    notebook.cells.insert(1, new_code_cell("import this", execution_count=1, metadata=done))
    nbformat.write(notebook, path)
    stage_book(run, BOOK, tmp_path / "stage")
    staged = nbformat.read(tmp_path / "stage" / "chapters" / "03_filter.ipynb", as_version=4)
    assert "What made these numbers" in staged.cells[1].source
    folded = [cell.source for cell in staged.cells if "hide-input" in cell.metadata.get("tags", [])]
    assert folded == ["import this", 'run_id = "demo"']


def test_a_folder_that_is_no_book_is_refused(run: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"holds no _config\.yml"):
        build_book(run, tmp_path, tmp_path / "out")


def test_figures_escape_what_could_leave_the_script() -> None:
    html = figure_html({"data": [{"name": HOSTILE}], "layout": {"title": {"text": HOSTILE}}})
    inside = html.split('type="application/json">')[1].split("</script>")[0]
    assert json.loads(inside)["data"][0]["name"] == HOSTILE
    assert html.count("</script>") == 1
    assert "<img" not in html


def test_offline_check_sees_each_way_of_fetching(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<script src="https://a.example/x.js"></script><link rel="stylesheet" href="//b.example/x.css">'
        '<img src="http://c.example/x.png"><img srcset="https://d.example/2x.png 2x">'
        '<style>@import "https://e.example/x.css"; b { background: url(//f.example/y.png) }</style>'
        '<p style="background:url(https://g.example/z.png)"></p>'
        '<a href="https://fine.example">a link</a><link rel="canonical" href="https://fine.example">'
        '<img src="local.png"><script src="_static/x.js"></script>'
    )
    (tmp_path / "b.css").write_text("@font-face { src: url('https://h.example/f.woff2') }")
    hosts = [line.split("//")[1][0] for line in external_requests(tmp_path)]
    assert sorted(hosts) == list("abcdefgh")


def test_paper_map_holds_every_claim_and_escapes_it() -> None:
    claims = load_claims()
    page = paper_map(check_claims(claims))
    assert page.count("<tr><td>") == len(claims.rows)
    hostile = claims.rows[0].model_copy(update={"what": HOSTILE, "where": HOSTILE, "unit": HOSTILE, "chapter": HOSTILE})
    assert "<img" not in paper_map(check_claims(claims.model_copy(update={"rows": (hostile,)})))


def test_paper_map_shows_what_the_run_measured_and_never_the_stated_status_alone(tmp_path: Path) -> None:
    row = next(row for row in load_claims().rows if row.id == "corpus-articles")
    lie = row.model_copy(update={"status": "reproduced"})
    claims = load_claims().model_copy(update={"rows": (lie,)})
    assert 'data-status="not in this run"' in paper_map(check_claims(claims, tmp_path / "demo"))
    with record_stage(tmp_path / "demo", "corpus_build", profile="cpu", settings=load_profile("cpu")) as stage:
        stage.measure(pages=5_123, articles=4_321)
    page = paper_map(check_claims(claims, tmp_path / "demo"))
    assert "<td>~18,000 articles</td>" in page and "<td>4,321 articles</td>" in page
    assert 'data-status="scaled down"' in page and 'data-status="reproduced"' not in page
