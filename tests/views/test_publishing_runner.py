"""The runner and its verdict, on made-up chapters."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from medvrag_core.errors import InputError, SettingsError
from medvrag_core.views.publishing.chapters import check_parameters, find_chapters
from medvrag_core.views.publishing.errors import ChapterFailed
from medvrag_core.views.publishing.runner import is_private, run_chapters
from medvrag_core.views.publishing.verdict import require_complete, require_record

PARAMETERS = 'profile: str = "cpu"\nrun_id: str = "demo"\nn_questions: int = 3'
RECORD = """from pathlib import Path
from medvrag_core.runs.stage import record_stage
from medvrag_core.profiles.load import load_profile
run = Path("runs") / run_id
with record_stage(run, "{stage}", profile=profile, settings=load_profile(profile)) as stage:
    stage.measure(n_questions=n_questions)"""


def write_chapter(
    folder: Path, name: str, *cells: str, parameters: str | None = PARAMETERS, record: bool = True
) -> None:
    """A chapter with a title, its parameters, the given cells and (last) its RunRecord."""
    code = [new_code_cell(cell) for cell in cells]
    if record:
        code.append(new_code_cell(RECORD.format(stage=name[3:])))
    head = [new_markdown_cell(f"# {name}")]
    if parameters is not None:
        head.append(new_code_cell(parameters, metadata={"tags": ["parameters"]}))
    folder.mkdir(parents=True, exist_ok=True)
    nbformat.write(new_notebook(cells=head + code), folder / f"{name}.ipynb")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "notebooks"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "demo"


def run_quietly(folder: Path, run: Path, **options: object) -> list[str]:
    lines: list[str] = []
    run_chapters(folder, run, profile="test", progress=lines.append, **options)  # type: ignore[arg-type]
    return [line.split(" in ")[0] for line in lines]


# --- what is refused before anything runs -----------------------------------------------


def test_bc41_a_chapter_without_parameters_cell_is_refused(folder: Path, run: Path) -> None:
    write_chapter(folder, "01_first", parameters=None)
    with pytest.raises(ChapterFailed, match=r"chapter 01_first: has 0 cells tagged 'parameters'"):
        run_quietly(folder, run, parameters={"n_questions": 20})
    assert not run.exists()


def test_a_second_parameters_cell_is_refused(folder: Path, run: Path) -> None:
    write_chapter(folder, "01_first")
    notebook = nbformat.read(folder / "01_first.ipynb", as_version=4)
    notebook.cells.append(new_code_cell("x = 1", metadata={"tags": ["parameters"]}))
    nbformat.write(notebook, folder / "01_first.ipynb")
    with pytest.raises(ChapterFailed, match="has 2 cells tagged"):
        find_chapters(folder)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_question": 20}, r"no chapter has a parameter 'n_question' \(did you mean 'n_questions'\?\)"),
        ({"profile": "a100"}, "'profile' is set by the runner"),
        ({"n_questions": float("nan")}, "not text, a finite number"),
        ({"n_questions": Path("x")}, "not text, a finite number"),
    ],
)
def test_bad_parameters_are_refused(folder: Path, parameters: dict[str, object], message: str) -> None:
    write_chapter(folder, "01_first")
    with pytest.raises(SettingsError, match=message):
        check_parameters(find_chapters(folder), parameters)


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("profile = 'cpu'", "lacks run_id"),
        ("profile = 'cpu'\nrun_id = open('x')", "must hold plain values"),
        ("profile = ", "must hold plain values"),
    ],
)
def test_parameters_cell_holds_plain_values(folder: Path, cell: str, message: str) -> None:
    write_chapter(folder, "01_first", parameters=cell)
    with pytest.raises(ChapterFailed, match=message):
        find_chapters(folder)


def test_folder_and_names_are_checked(folder: Path, run: Path) -> None:
    with pytest.raises(InputError, match="holds no notebook"):
        find_chapters(folder)
    write_chapter(folder, "first")
    with pytest.raises(InputError, match=r"named NN_stage\.ipynb"):
        find_chapters(folder)
    (folder / "first.ipynb").unlink()
    write_chapter(folder, "01_first")
    with pytest.raises(InputError, match="no chapter '02_second'"):
        run_quietly(folder, run, only=["02_second"])
    (folder / "02_broken.ipynb").write_text("{")
    with pytest.raises(ChapterFailed, match=r"02_broken\.ipynb: not a readable notebook"):
        find_chapters(folder)


# --- the verdict, without a kernel ------------------------------------------------------


def executed(status: str = "completed", count: int | None = 1, source: str = "1") -> nbformat.NotebookNode:
    cell = new_code_cell(source, execution_count=count, metadata={"papermill": {"status": status}})
    return new_notebook(cells=[cell])


def test_a_whole_notebook_passes_and_blank_cells_do_not_matter() -> None:
    require_complete(executed(), "x")
    require_complete(executed(count=None, source="  \n"), "x")


@pytest.mark.parametrize(
    "notebook", [executed("pending"), executed("running"), executed(count=None), executed("failed"), executed("absent")]
)
def test_each_kind_of_unfinished_cell_fails(notebook: nbformat.NotebookNode) -> None:
    with pytest.raises(ChapterFailed, match=r"chapter x, code cell 1 \(`1`\)"):
        require_complete(notebook, "x")


def test_papermill_exception_flag_fails_even_when_cells_look_clean() -> None:
    notebook = executed()
    notebook.metadata["papermill"] = {"exception": True}
    with pytest.raises(ChapterFailed, match="stopped early"):
        require_complete(notebook, "x")


def test_record_of_another_run_is_refused(tmp_path: Path) -> None:
    record = {
        "run_id": "other", "stage": "first", "profile": "cpu", "settings": {}, "fingerprint": "f",
        "started": "2026-01-01T00:00:00+00:00", "seconds": 1.0,
    }  # fmt: skip
    path = tmp_path / "demo" / "records" / "first.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(record))
    with pytest.raises(ChapterFailed, match="its record is of run 'other'"):
        require_record(tmp_path / "demo", "01_first", "first")


# --- real kernels -----------------------------------------------------------------------


@pytest.mark.notebook
def test_chapters_run_in_order_and_only_what_changed_runs_again(folder: Path, run: Path) -> None:
    write_chapter(folder, "01_first", "import os", "assert os.path.isdir('notebooks')")
    write_chapter(folder, "02_second", parameters=PARAMETERS.replace("n_questions", "n_questions: int = 1\nextra"))
    first = run_quietly(folder, run, parameters={"n_questions": 20})
    assert first == ["01_first: passed", "02_second: passed"]
    assert json.loads((run / "records" / "first.json").read_text())["metrics"] == {"n_questions": 20}

    again = run_quietly(folder, run, parameters={"n_questions": 20})
    assert again == ["01_first: up to date", "02_second: up to date"]

    notebook = nbformat.read(folder / "01_first.ipynb", as_version=4)
    notebook.cells[0].source = "# another title"
    nbformat.write(notebook, folder / "01_first.ipynb")
    prose = run_quietly(folder, run, parameters={"n_questions": 20})
    assert prose == ["01_first: passed", "02_second: up to date"]

    notebook.cells[2].source += "\n"
    notebook.cells[2].source += "pass"
    nbformat.write(notebook, folder / "01_first.ipynb")
    code = run_quietly(folder, run, parameters={"n_questions": 20})
    assert code == ["01_first: passed", "02_second: passed"]

    (run / "records" / "second.json").unlink()
    lost = run_quietly(folder, run, parameters={"n_questions": 20})
    assert lost == ["01_first: up to date", "02_second: passed"]


@pytest.mark.notebook
@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (
            ["a = 1", "1 / 0", "b = 2"],
            r"chapter 01_first, code cell 3 \(`1 / 0`\): ZeroDivisionError: division",
        ),
        (["import sys; sys.exit(0)", "b = 2"], r"code cell 2 .*: SystemExit: 0"),
        (
            ["import os; os.kill(os.getpid(), 9)", "b = 2"],
            r"code cell 2 .*: Kernel died",
        ),
    ],
)
def test_bc41_a_failing_chapter_names_itself_and_the_cell(
    folder: Path, run: Path, cells: list[str], message: str
) -> None:
    write_chapter(folder, "01_first", *cells)
    write_chapter(folder, "02_second")
    with pytest.raises(ChapterFailed, match=message) as caught:
        run_quietly(folder, run)
    assert caught.value.exit_code != 0
    names = sorted(path.name for path in (run / "notebooks").iterdir())
    assert names == ["01_first.failed.ipynb"]


@pytest.mark.notebook
def test_a_chapter_that_leaves_no_new_record_fails(folder: Path, run: Path) -> None:
    write_chapter(folder, "01_first", record=False)
    with pytest.raises(ChapterFailed, match="left no record of stage 'first'"):
        run_quietly(folder, run)


def test_chapters_of_a_book_are_run_for_the_public_unless_it_is_private(folder: Path, run: Path) -> None:
    tell = "import os\nfrom pathlib import Path\nPath('told').write_text(os.environ.get('MEDVRAG_AUDIENCE', 'one'))"
    write_chapter(folder, "00_tell", tell)
    for private, told in ((False, "public"), (True, "one"), (True, "")):
        (folder.parent / "told").unlink(missing_ok=True)
        run_quietly(folder, run, private=private)
        assert is_private(run, "00_tell") == private
        path = folder.parent / "told"
        assert (path.read_text() if path.is_file() else "") == told
