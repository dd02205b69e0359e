"""Chapter 01 on a few small files, one of them faulty, and on the faulty files of the demo corpus."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from medvrag_core.profiles.load import load_profile
from medvrag_core.runs.stage import read_stage
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.corpus_report import rows_of
from medvrag_core.systems.prepare import build_store
from medvrag_core.views.publishing.runner import run_chapters

NAME = "01_corpus_build"
REPO = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def odd(made_pdfs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The faulty files, as the builder of the demo corpus writes them."""
    folder = tmp_path_factory.mktemp("odd") / "files"
    sys.path.insert(0, str(REPO / "data" / "demo"))
    try:
        from odd_files import write_odd_files  # type: ignore[import-not-found]
    finally:
        sys.path.pop(0)
    write_odd_files(folder, (made_pdfs / "gout.pdf").read_bytes())
    return folder


@pytest.mark.slow
def test_every_faulty_file_has_the_story_that_its_name_tells(odd: Path, tmp_path: Path) -> None:
    profile = load_profile("test", {"corpus.seconds_per_page": 5.0})
    store = build_store(odd, tmp_path / "store", profile, calls_of=Workspace(tmp_path), progress=False)
    told = {row.file: (row.status, row.reason) for row in rows_of(store.folder) if row.page is None}
    # Whether a cut file has pages to look for depends on where it was cut.
    assert told.pop("cut_off.pdf") in (("dropped", "no_pages"), ("dropped", "damaged"))
    assert told == {
        "a_web_page.pdf": ("dropped", "not_a_pdf"),
        "blank_second_page.pdf": ("kept", "rendered"),
        "empty.pdf": ("dropped", "not_a_pdf"),
        "endless_drawing.pdf": ("quarantined", "time_limit"),
        "locked.pdf": ("dropped", "encrypted"),
        "poster.pdf": ("kept", "rendered"),
        "the_same_page_again.pdf": ("dropped", "duplicate_page"),
        "tiny_page.pdf": ("dropped", "degenerate_render"),
        "two_licences.pdf": ("kept", "rendered"),
    }


@pytest.mark.notebook
@pytest.mark.parametrize("with_odd", [True, False])
def test_it_passes_on_a_few_files_and_hides_what_the_book_may_not_show(
    made_pdfs: Path, odd: Path, tmp_path: Path, with_odd: bool
) -> None:
    (tmp_path / "notebooks").mkdir()
    shutil.copy(REPO / "notebooks" / f"{NAME}.ipynb", tmp_path / "notebooks")
    (tmp_path / "pyproject.toml").write_text("")
    pdfs = Path(shutil.copytree(made_pdfs, tmp_path / "pdfs"))
    (pdfs / "a_page.pdf").write_text("<html>404")
    if with_odd:
        (pdfs / "licence.yaml").write_text("licence: CC BY 4.0")
        shutil.copytree(odd, tmp_path / "odd")
    run = tmp_path / "runs" / "small"
    given = {"source": "pdfs", "example_page": "", "odd_files": "odd" if with_odd else ""}
    assert run_chapters(tmp_path / "notebooks", run, profile="test", parameters=given, progress=lambda _: None) == [
        NAME
    ]
    metrics = read_stage(run, "corpus_build", made_by="this test").metrics
    assert metrics["ledger"]["files"] == 4 and metrics["ledger"]["pages_kept"] == metrics["pages"] == 5
    executed = (run / "notebooks" / f"{NAME}.ipynb").read_text(encoding="utf-8")
    assert ("data:image/jpeg" in executed) == with_odd
    assert ("its licence is not known" in executed) != with_odd
    assert ("time_limit" in executed) == with_odd and "not_a_pdf" in executed
