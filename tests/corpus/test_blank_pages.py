"""Blank pages stay in a corpus unless the settings say otherwise, and the ledger names them either way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pymupdf
import pytest

from medvrag_core.corpus import mupdf
from medvrag_core.corpus.build import build_corpus
from medvrag_core.corpus.job import Job
from medvrag_core.corpus.ledger_report import ledger_report
from medvrag_core.corpus.ledger_table import read_ledger_table
from medvrag_core.corpus.page_reader import Engines, PageReader
from medvrag_core.errors import MismatchError
from medvrag_core.settings import CorpusSettings

QUICK = CorpusSettings(dpi=36, ocr="off")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A file whose second and fourth pages are blank, the fourth with white words on it; and one that is all blank."""
    (tmp_path / "p").mkdir()
    with pymupdf.open() as document:
        for number in range(1, 5):
            page = document.new_page(width=300, height=400)
            if number % 2:
                page.insert_text((30, 50), f"Give {number} tablets of 75 mg")
        page.insert_text((30, 50), "Answer B", color=(1, 1, 1))
        document.save(tmp_path / "p" / "a.pdf")
    with pymupdf.open() as document:
        document.new_page(width=300, height=400)
        document.save(tmp_path / "p" / "b.pdf")
    return tmp_path / "p"


def test_they_are_kept_each_of_them_and_told(source: Path, tmp_path: Path) -> None:
    store = build_corpus(source, tmp_path / "c", QUICK, workers=1, progress=False)
    assert [page.page_id for page in store.pages] == ["a#p1", "a#p2", "a#p3", "a#p4", "b#p1"]
    assert [page.text_source for page in store.pages] == ["pdf", "none", "pdf", "none", "none"]
    rows = read_ledger_table(tmp_path / "c")
    blank = {row.page_id: row.changes for row in rows if "blank_page" in row.changes}
    assert blank == {"a#p2": ("blank_page",), "a#p4": ("blank_page", "hidden_text"), "b#p1": ("blank_page",)}
    report = ledger_report(rows)
    assert (report.pages_kept, report.changes["blank_page"]) == (5, 3)


def test_left_out_by_setting_which_belongs_to_the_corpus(source: Path, tmp_path: Path) -> None:
    leaving = QUICK.model_copy(update={"blank_pages": "leave_out"})
    store = build_corpus(source, tmp_path / "c", leaving, workers=1, progress=False)
    assert [page.page_id for page in store.pages] == ["a#p1", "a#p3"]
    report = ledger_report(read_ledger_table(tmp_path / "c"))
    assert (report.pages_seen, {(r.status, r.reason): r.count for r in report.rules if r.level == "page"}) == (
        5,
        {("dropped", "blank_page"): 3, ("kept", "text_layer"): 2},
    )
    with pytest.raises(MismatchError, match="blank_pages"):
        build_corpus(source, tmp_path / "c", QUICK, workers=1, progress=False)


@pytest.mark.parametrize("ocr", ["auto", "always"])
def test_no_ocr_looks_at_one(source: Path, tmp_path: Path, ocr: str) -> None:
    class NoEngines(Engines):
        def read(self, *_: Any) -> Any:
            raise AssertionError("OCR of a blank page")

    settings = CorpusSettings.model_validate({"dpi": 36, "ocr": ocr})
    job = Job(path=str(source / "b.pdf"), folder=str(tmp_path), article_id="b", image_prefix="x", settings=settings)
    said: list[Any] = []
    told = PageReader(job, said.append, NoEngines()).read(mupdf.open_document(source / "b.pdf"), 1)
    assert [(note.state, note.reason) for note in told.notes] == [("changed", "blank_page"), ("kept", "no_text")]
    assert said == []
