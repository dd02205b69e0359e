"""PDFium and PyMuPDF agree on what both must tell: sizes, words and where they stand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pymupdf
import pytest

from medvrag_core.corpus import mupdf, pdfium
from medvrag_core.corpus.build import build_corpus
from medvrag_core.corpus.job import ArticleOutcome, RenderSettings
from medvrag_core.corpus.lines import words_of
from medvrag_core.corpus.opened import OpenedPage
from medvrag_core.records import Box
from medvrag_core.settings import CorpusSettings

QUICK = CorpusSettings(dpi=72, ocr="off", renderer="pypdfium2")


def both(path: Path, number: int = 1) -> tuple[OpenedPage, OpenedPage]:
    return mupdf.open_document(path).page(number), pdfium.open_document(path).page(number)


def boxes(page: OpenedPage) -> dict[str, Box]:
    return {word.text: word.box for word in words_of(page.text_layer())}


@pytest.mark.parametrize("turned", [0, 90, 180, 270])
@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_words_of_turned_pages_and_turned_text_stand_at_one_place(tmp_path: Path, rotation: int, turned: int) -> None:
    with pymupdf.open() as document:
        page = document.new_page(width=420, height=595)
        page.insert_text((200, 300), "Aspirin 75 mg daily", rotate=turned)
        page.set_cropbox((10, 20, 400, 580))
        page.set_rotation(rotation)
        document.save(tmp_path / "a.pdf")
    ours, theirs = both(tmp_path / "a.pdf")
    assert (ours.width, ours.height, ours.rotation) == (theirs.width, theirs.height, theirs.rotation)
    for dpi in (36, 100):
        one, two = ours.render(dpi).astype(int), theirs.render(dpi).astype(int)
        assert max(abs(a - b) for a, b in zip(one.shape, two.shape, strict=True)) <= 1
    assert list(boxes(ours)) == list(boxes(theirs)) == ["Aspirin", "75", "mg", "daily"]
    for word, box in boxes(ours).items():
        assert boxes(theirs)[word] == pytest.approx(box, abs=0.012)
    line = theirs.text_layer().lines[0]
    assert (line.text, round(line.size)) == ("Aspirin 75 mg daily", 11)
    assert line.width > 5 * (line.box[3] - line.box[1]), "text runs to the right in its frame"


def test_a_cut_out_is_the_same_piece_of_the_page(tmp_path: Path) -> None:
    with pymupdf.open() as document:
        document.new_page(width=200, height=300).draw_rect((40, 60, 80, 90), color=(1, 0, 0), fill=(1, 0, 0))
        document.save(tmp_path / "a.pdf")
    for page in both(tmp_path / "a.pdf"):
        piece = page.render(72, (40, 60, 80, 90))
        assert max(abs(piece.shape[0] - 30), abs(piece.shape[1] - 40)) <= 1
        assert np.abs(piece[5:-5, 5:-5].astype(int) - (255, 0, 0)).max() < 8


def test_a_corpus_by_pdfium_has_the_pages_words_and_story_of_one_by_pymupdf(made_pdfs: Path, tmp_path: Path) -> None:
    theirs = build_corpus(made_pdfs, tmp_path / "b", QUICK, workers=1, progress=False)
    plain = QUICK.model_copy(update={"renderer": "pymupdf"})
    ours = build_corpus(made_pdfs, tmp_path / "a", plain, workers=1, progress=False)
    assert [(e.file, e.page_id, e.state, e.reason) for e in theirs.ledger] == [
        (e.file, e.page_id, e.state, e.reason) for e in ours.ledger
    ]
    for page, other in zip(ours.pages, theirs.pages, strict=True):
        assert (page.page_id, page.width_pt, page.height_pt) == (other.page_id, other.width_pt, other.height_pt)
        assert abs(page.image_width - other.image_width) <= 1
        assert abs(page.image_height - other.image_height) <= 1
        assert sorted(page.text.split()) == sorted(other.text.split())
    outcome = ArticleOutcome.from_json((tmp_path / "b" / "articles" / "gout" / "outcome.json").read_bytes())
    assert outcome.renderer == RenderSettings.of(QUICK).renderer
    assert outcome.renderer.startswith("pypdfium2 ")


def test_words_of_real_articles_are_those_of_pymupdf(shared_data: Path) -> None:
    for name, numbers in (("PMC5502154", (1, 2, 6)), ("rsp-56-9-pt", (2, 3))):
        for number in numbers:
            ours, theirs = both(shared_data / "articles" / "pdf" / f"{name}.pdf", number)
            one, two = ({w.text for w in words_of(page.text_layer())} for page in (ours, theirs))
            assert len(one & two) > 0.9 * len(one | two)
