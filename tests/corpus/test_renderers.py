"""Children that serve one file after another tell the same story as one child a file."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest

from medvrag_core.corpus import render, renderers
from medvrag_core.corpus.build import build_corpus
from medvrag_core.corpus.job import Job
from medvrag_core.corpus.renderers import Renderer, Renderers
from medvrag_core.settings import CorpusSettings

QUICK = CorpusSettings(dpi=72, ocr="off")


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[Renderer]:
    """All children that are begun."""
    children: list[Renderer] = []

    class Counted(Renderer):
        def __init__(self) -> None:
            super().__init__()
            children.append(self)

    monkeypatch.setattr(render, "Renderer", Counted)
    return children


@pytest.fixture
def pdfs(made_pdfs: Path, tmp_path: Path) -> Path:
    folder = Path(shutil.copytree(made_pdfs, tmp_path / "pdfs"))
    shutil.copy(folder / "gout.pdf", folder / "zz-last.pdf")
    with (folder / "zz-last.pdf").open("ab") as handle:
        handle.write(b"%")
    return folder


def files(source: Path, folder: Path, settings: CorpusSettings = QUICK) -> dict[str, bytes]:
    """Every file of a corpus built by one worker."""
    build_corpus(source, folder, settings, workers=1, progress=False)
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_one_child_serves_all_files_and_each_comes_out_as_from_its_own(
    pdfs: Path, tmp_path: Path, begun: list[Renderer], monkeypatch: pytest.MonkeyPatch
) -> None:
    together = files(pdfs, tmp_path / "together")
    assert [child.served for child in begun] == [4]
    monkeypatch.setattr(renderers, "MOST_FILES", 1)
    apart = files(pdfs, tmp_path / "apart")
    assert [child.served for child in begun] == [4, 1, 1, 1, 1]
    assert together == apart
    assert all(child._child.poll() is not None for child in begun), "none is left behind"


def test_a_death_in_a_child_that_served_others_costs_nothing(
    pdfs: Path, tmp_path: Path, begun: list[Renderer], monkeypatch: pytest.MonkeyPatch
) -> None:
    undisturbed = files(pdfs, tmp_path / "undisturbed")
    begun.clear()
    send = Renderer.send

    def deadly(self: Renderer, job: Job) -> bool:
        if job.article_id == "gout" and self.served:
            os.killpg(self._child.pid, signal.SIGKILL)
        return send(self, job)

    monkeypatch.setattr(Renderer, "send", deadly)
    assert files(pdfs, tmp_path / "disturbed") == undisturbed
    assert [child.served for child in begun] == [3, 2], "begun again by a child of its own, which goes on"


def test_a_file_that_leaves_marks_ends_its_child(pdfs: Path, tmp_path: Path, begun: list[Renderer]) -> None:
    (pdfs / "b-cut.pdf").write_bytes((pdfs / "gout.pdf").read_bytes()[:300])
    (pdfs / "c-html.pdf").write_text("<!DOCTYPE html><html></html>")
    files(pdfs, tmp_path / "c")
    # anemia, asthma, b-cut (again by its own child, which ends too) | c-html, gout, zz-last
    assert sum(child.served for child in begun) in (6, 7)
    assert begun[-1].served == 3


def test_a_child_that_has_grown_is_ended(
    pdfs: Path, tmp_path: Path, begun: list[Renderer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(render, "GROWN_SHARE", 0.01)
    files(pdfs, tmp_path / "c")
    assert [child.served for child in begun] == [1, 1, 1, 1]


def test_no_child_waits_after_its_limit_of_files() -> None:
    waiting, child = Renderers(), Renderer()
    child.served = renderers.MOST_FILES
    waiting.give_back(child)
    assert waiting.waiting() is None
    assert child._child.poll() is not None
