from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from medvrag_core.corpus import text_pages
from medvrag_core.corpus.store import CorpusStore
from medvrag_core.corpus.text_pages import TextDocument, TextPageSettings, build_text_pages
from medvrag_core.errors import InputError, MismatchError

PROSE = "Allopurinol is started at 100 mg daily and raised every four weeks until urate is below 6 mg/dl."
DOCUMENTS = [
    TextDocument(document_id="b2", title="Gout", text=PROSE),
    TextDocument(document_id="a1", title="", text="Lithium needs a blood level twice a year.\nIt harms the kidney."),
    TextDocument(document_id="c3", title=" ", text="\n"),
]


def build(folder: Path, documents: list[TextDocument], settings: TextPageSettings) -> CorpusStore:
    return build_text_pages(documents, folder, settings, progress=False)


def test_a_text_becomes_a_page_of_a_corpus(tmp_path: Path, as_printed: TextPageSettings) -> None:
    store = build(tmp_path, DOCUMENTS, as_printed)
    assert [page.page_id for page in store.pages] == ["a1#p1", "b2#p1"]
    page, layout = store.page("b2#p1"), store.layout("b2#p1")
    assert page.text == f"Gout\n\n{PROSE}"
    assert (page.image_width, page.text_source) == (800, "pdf")
    assert [word.text for word in layout.words] == ["Gout", *PROSE.split()]
    assert [(region.kind, region.text) for region in layout.regions] == [("text", "Gout"), ("text", PROSE)]
    assert all(0 <= edge <= 1 for word in layout.words for edge in word.box)
    assert [region.text for region in store.layout("a1#p1").regions][1] == "It harms the kidney."
    assert store.image_path("b2#p1").read_bytes().startswith(b"\x89PNG")
    assert "Allopurinol" in store.summaries["b2#p1"].text
    told = {entry.file: (entry.state, entry.reason) for entry in store.ledger}
    assert told == {"a1": ("kept", "text_layer"), "b2": ("kept", "text_layer"), "c3": ("dropped", "blank_page")}


def test_the_title_of_a_long_text_is_no_running_head(tmp_path: Path, as_printed: TextPageSettings) -> None:
    store = build(tmp_path, [TextDocument(document_id="a", title="Gout", text=" ".join([PROSE] * 20))], as_printed)
    title, text = store.layout("a#p1").regions
    assert (title.kind, title.text) == ("text", "Gout")
    assert title.box[3] < 0.075, "it stands where running heads do"
    assert text.kind == "text"


def test_a_build_goes_on_where_it_stopped(
    tmp_path: Path, as_printed: TextPageSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_pages, "_PART", 1)
    first = build(tmp_path / "a", DOCUMENTS, as_printed)
    part = tmp_path / "a" / "articles" / "part-00001"
    before = [path.stat().st_mtime_ns for path in sorted(part.rglob("*"))]
    shutil.rmtree(tmp_path / "a" / "articles" / "part-00000")
    (tmp_path / "a" / "manifest.json").unlink()
    again = build(tmp_path / "a", DOCUMENTS, as_printed)
    assert again.fingerprint == first.fingerprint
    assert [path.stat().st_mtime_ns for path in sorted(part.rglob("*"))] == before
    changed = [DOCUMENTS[0].model_copy(update={"title": "Gout again"}), *DOCUMENTS[1:]]
    assert "Gout again" in build(tmp_path / "a", changed, as_printed).page("b2#p1").text


def test_what_is_no_collection_of_texts_is_refused(tmp_path: Path, as_printed: TextPageSettings) -> None:
    for bad in ("", "a b", "a#p1"):
        with pytest.raises(InputError, match="cannot hold"):
            build(tmp_path, [TextDocument(document_id=bad, text="x")], as_printed)
    with pytest.raises(InputError, match="'a' stands twice"):
        build(tmp_path, [TextDocument(document_id="a", text="x"), TextDocument(document_id="a", text="y")], as_printed)
    with pytest.raises(InputError, match="no usable page"):
        build(tmp_path, [DOCUMENTS[2]], as_printed)
    with pytest.raises(InputError, match=r"document 'a1': a page of 800 x .* above the cap"):
        build(tmp_path / "b", DOCUMENTS, as_printed.model_copy(update={"max_pixels": 100_000}))
    build(tmp_path / "c", DOCUMENTS, as_printed)
    with pytest.raises(MismatchError, match="font_size: 24 -> 30"):
        build(tmp_path / "c", DOCUMENTS, as_printed.model_copy(update={"font_size": 30}))


@pytest.mark.parametrize("reader", ["tesseract", pytest.param("rapidocr", marks=pytest.mark.slow)])
def test_a_page_is_read_back_from_its_image(tmp_path: Path, as_printed: TextPageSettings, reader: str) -> None:
    if reader == "tesseract" and shutil.which("tesseract") is None:
        pytest.skip("no program 'tesseract' on PATH (Debian: apt install tesseract-ocr)")
    printed = build(tmp_path / "printed", DOCUMENTS, as_printed)
    read = build(tmp_path / reader, DOCUMENTS, as_printed.model_copy(update={"reader": reader}))
    assert {page.text_source for page in read.pages} == {"ocr"}
    assert {entry.reason for entry in read.ledger if entry.state == "kept"} == {"ocr"}
    assert read.page("b2#p1").text == printed.page("b2#p1").text
    for found, true in zip(read.layout("b2#p1").words, printed.layout("b2#p1").words, strict=True):
        assert found.text == true.text
        x0, y0, x1, y1 = true.box
        assert (found.box[0], found.box[2]) == pytest.approx((x0, x1), abs=0.02)
        assert found.box[1] < found.box[3]
        assert y0 <= (found.box[1] + found.box[3]) / 2 <= y1, (
            "boxes of RapidOCR reach beyond the line, not their middle"
        )
