from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, Literal

import pymupdf
import pytest
from PIL import Image

from medvrag_core.corpus import render
from medvrag_core.corpus.build import article_folder, build_corpus
from medvrag_core.corpus.job import Note
from medvrag_core.corpus.source import FolderSource, SourceDocument
from medvrag_core.corpus.store import CorpusStore
from medvrag_core.errors import InputError, MedvragError, MismatchError, NotBuiltError
from medvrag_core.models.images import image_identity, image_url, sized
from medvrag_core.settings import CorpusSettings

QUICK = CorpusSettings(dpi=72, seconds_per_page=10)


def build(source: Path, folder: Path, settings: CorpusSettings = QUICK) -> CorpusStore:
    return build_corpus(source, folder, settings, workers=2, progress=False)


def reasons(store: CorpusStore) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for entry in store.ledger:
        found.setdefault(entry.file, set()).add(entry.reason)
    return found


@pytest.fixture
def pdfs(made_pdfs: Path, tmp_path: Path) -> Path:
    """A writable copy of the made PDFs."""
    return Path(shutil.copytree(made_pdfs, tmp_path / "pdfs"))


def test_pages_carry_images_words_regions_and_summaries(pdfs: Path, tmp_path: Path) -> None:
    store = build(pdfs, tmp_path / "c")
    assert [p.page_id for p in store.pages] == ["anemia#p1", "asthma#p1", "asthma#p2", "gout#p1", "gout#p2"]
    page = store.page("gout#p1")
    assert (page.image_width, page.image_height, page.text_source) == (420, 595, "pdf")
    assert "Allopurinol is started at 100 mg daily" in " ".join(page.text.split())
    assert store.image_path("gout#p1").is_file()
    layout = store.layout("gout#p1")
    assert {"Allopurinol", "100"} <= {w.text for w in layout.words}
    assert all(0 <= v <= 1 for w in layout.words for v in w.box)
    assert "heading" in {r.kind for r in layout.regions}
    assert set(store.summaries) == {p.page_id for p in store.pages}
    assert "100 mg" in store.summaries["gout#p1"].text
    with pytest.raises(InputError, match="'gout#p9'"):
        store.page("gout#p9")


@pytest.mark.parametrize("name", ["jpeg", "png", "webp"])
def test_images_in_the_form_of_the_setting_are_readable_for_models_and_views(
    pdfs: Path, tmp_path: Path, name: Literal["jpeg", "png", "webp"]
) -> None:
    store = build(pdfs, tmp_path / "c", CorpusSettings(dpi=72, ocr="off", image_format=name))
    path = store.image_path("gout#p1")
    with Image.open(path) as image:
        assert (image.format, image.size) == (name.upper(), (420, 595))
    sent = sized(path, 100_000)
    assert image_url(sent).startswith("data:image/jpeg;base64,")
    assert image_identity(sent) != image_identity(sized(store.image_path("gout#p2"), 100_000))


def test_a_webp_image_stays_within_the_format(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    document = pymupdf.open()
    document.new_page(width=5_000, height=60).insert_text((100, 40), "A ruler", fontsize=30)
    document.save(tmp_path / "p" / "long.pdf")
    store = build(tmp_path / "p", tmp_path / "c", CorpusSettings(dpi=300, ocr="off", image_format="webp"))
    assert 16_300 < store.pages[0].image_width <= 16_383
    assert "pixel_cap" in reasons(store)["long.pdf"]


def test_the_same_source_gives_the_same_corpus(pdfs: Path, tmp_path: Path) -> None:
    first, second = build(pdfs, tmp_path / "a"), build(pdfs, tmp_path / "b")
    assert first.fingerprint == second.fingerprint
    assert first.summaries == second.summaries


def test_finished_articles_are_not_rendered_again(pdfs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = build(pdfs, tmp_path / "c")
    monkeypatch.setattr("medvrag_core.corpus.build.render_document", lambda *a, **k: pytest.fail("rendered again"))
    assert build(pdfs, tmp_path / "c").fingerprint == first.fingerprint


def test_changed_and_removed_files_are_followed(pdfs: Path, tmp_path: Path) -> None:
    before = build(pdfs, tmp_path / "c").fingerprint
    shutil.copy(pdfs / "gout.pdf", pdfs / "anemia.pdf")
    (pdfs / "gout.pdf").unlink()
    store = build(pdfs, tmp_path / "c")
    assert [p.page_id for p in store.pages] == ["anemia#p1", "anemia#p2", "asthma#p1", "asthma#p2"]
    assert store.fingerprint != before


def test_p5_other_render_settings_are_refused_by_name(pdfs: Path, tmp_path: Path) -> None:
    build(pdfs, tmp_path / "c")
    with pytest.raises(MismatchError, match="dpi: 72 -> 100"):
        build(pdfs, tmp_path / "c", QUICK.model_copy(update={"dpi": 100}))
    build(pdfs, tmp_path / "c", QUICK.model_copy(update={"summary_tokens": 20, "seconds_per_page": 9.0}))


def test_p1_a_killed_build_goes_on_and_ends_the_same(pdfs: Path, tmp_path: Path) -> None:
    for n in range(6):
        shutil.copy(pdfs / "asthma.pdf", pdfs / f"copy{n}.pdf")
        with (pdfs / f"copy{n}.pdf").open("ab") as handle:
            handle.write(b"%" + str(n).encode())
    script = (
        "import sys; from pathlib import Path; from medvrag_core.corpus.build import build_corpus\n"
        "from medvrag_core.settings import CorpusSettings\n"
        f"build_corpus(Path({str(pdfs)!r}), Path({str(tmp_path / 'c')!r}), CorpusSettings(dpi=72), workers=1)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not list((tmp_path / "c" / "articles").glob("[!.]*/outcome.json")) and time.monotonic() < deadline:
        time.sleep(0.02)
    child.send_signal(signal.SIGKILL)
    child.wait()
    with pytest.raises(NotBuiltError):
        CorpusStore.open(tmp_path / "c")
    assert build(pdfs, tmp_path / "c").fingerprint == build(pdfs, tmp_path / "fresh").fingerprint


def test_what_a_killed_build_left_is_swept_and_that_of_a_running_one_kept(pdfs: Path, tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    articles = tmp_path / "c" / "articles"
    dead, alive = articles / f".gout.{gone.pid}.part", articles / f".other.{os.getpid()}.part"
    for folder in (dead, alive):
        (folder / "images").mkdir(parents=True)
    (tmp_path / "c" / f".ledger.jsonl.{gone.pid}.part").write_text("half")
    build(pdfs, tmp_path / "c")
    assert list(tmp_path.glob("c/.*.part")) == []
    assert list(articles.glob(".*.part")) == [alive]


def test_a_renderer_that_cannot_start_is_no_fault_of_the_files(pdfs: Path, tmp_path: Path) -> None:
    with pytest.raises(MedvragError, match="renderer does not start"):
        build(pdfs, tmp_path / "c", QUICK.model_copy(update={"memory_mb": 60}))
    assert len(build(pdfs, tmp_path / "c").pages) == 5


class TestBadFiles:
    def test_bc35_p8_bad_files_are_named_and_good_neighbors_unharmed(self, pdfs: Path, tmp_path: Path) -> None:
        clean = build(pdfs, tmp_path / "clean")
        (pdfs / "html.pdf").write_text("<!DOCTYPE html><html><body>404</body></html>")
        (pdfs / "empty.pdf").write_bytes(b"")
        (pdfs / "cut.pdf").write_bytes((pdfs / "gout.pdf").read_bytes()[:300])
        locked = pymupdf.open()
        locked.new_page()
        locked.save(pdfs / "locked.pdf", encryption=pymupdf.PDF_ENCRYPT_AES_256, user_pw="x", owner_pw="y")
        store = build(pdfs, tmp_path / "c")
        assert store.fingerprint == clean.fingerprint
        told = reasons(store)
        assert told["html.pdf"] == told["empty.pdf"] == {"not_a_pdf"}
        assert told["locked.pdf"] == {"encrypted"}
        assert told["cut.pdf"] & {"no_pages", "damaged", "no_usable_page"}

    def test_bc33_a_poster_is_rendered_within_the_pixel_cap(self, tmp_path: Path) -> None:
        (tmp_path / "p").mkdir()
        document = pymupdf.open()
        document.new_page(width=3421, height=1890).insert_text((100, 100), "A poster", fontsize=60)
        document.save(tmp_path / "p" / "poster.pdf")
        store = build(tmp_path / "p", tmp_path / "c", CorpusSettings(dpi=300))
        page = store.pages[0]
        assert page.image_width * page.image_height <= 20_000_000
        assert page.image_width / page.image_height == pytest.approx(3421 / 1890, rel=0.01)
        assert page.dpi == pytest.approx(126.6, abs=0.5)
        assert reasons(store)["poster.pdf"] >= {"pixel_cap", "text_layer"}

    @pytest.mark.parametrize("reason", ["time_limit", "memory_limit", "crashed"])
    def test_a_file_that_hurts_its_reader_is_quarantined(
        self, pdfs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str
    ) -> None:
        (pdfs / "hostile.pdf").write_bytes(b"%PDF-1.7 " + reason.encode())
        whole = render._one_child

        def hurt(document: SourceDocument, *rest: Any) -> Note | None:
            if document.article_id != "hostile":
                return whole(document, *rest)
            rest[3].started = True
            return Note(state="dropped", reason=reason, detail="by this test")

        monkeypatch.setattr(render, "_one_child", hurt)
        store = build(pdfs, tmp_path / "c")
        told = [entry for entry in store.ledger if entry.file == "hostile.pdf"]
        assert [(e.page_id, e.state, e.reason) for e in told] == [("", "quarantined", reason)]
        assert len(store.pages) == 5

    def test_bc34_a_degenerate_page_is_dropped_and_the_article_kept(self, tmp_path: Path) -> None:
        (tmp_path / "p").mkdir()
        document = pymupdf.open()
        document.new_page(width=3, height=3)
        document.new_page(width=300, height=300).insert_text((50, 50), "text")
        document.save(tmp_path / "p" / "tiny.pdf")
        store = build(tmp_path / "p", tmp_path / "c")
        assert [p.page_id for p in store.pages] == ["tiny#p2"]
        assert "degenerate_render" in reasons(store)["tiny.pdf"]

    def test_pages_seen_before_are_dropped(self, pdfs: Path, tmp_path: Path) -> None:
        (pdfs / "again.pdf").write_bytes((pdfs / "gout.pdf").read_bytes() + b"%x")
        store = build(pdfs, tmp_path / "c")
        assert Counter(e.reason for e in store.ledger)["duplicate_page"] == 2
        assert [p.page_id for p in store.pages] == ["again#p1", "again#p2", "anemia#p1", "asthma#p1", "asthma#p2"]

    def test_a_folder_without_pdf_or_usable_page(self, tmp_path: Path) -> None:
        (tmp_path / "none").mkdir()
        with pytest.raises(InputError, match="holds no PDF"):
            build(tmp_path / "none", tmp_path / "c")
        with pytest.raises(InputError, match="no such folder"):
            build(tmp_path / "nowhere", tmp_path / "c")
        (tmp_path / "none" / "x.pdf").write_text("x")
        with pytest.raises(InputError, match=r"no usable page in 1 files.*ledger\.jsonl"):
            build(tmp_path / "none", tmp_path / "c")
        assert "not_a_pdf" in (tmp_path / "c" / "ledger.jsonl").read_text()

    def test_two_files_of_one_name_are_told_apart(self, pdfs: Path, tmp_path: Path) -> None:
        (pdfs / "sub").mkdir()
        shutil.copy(pdfs / "gout.pdf", pdfs / "sub" / "gout.pdf")
        shutil.copy(pdfs / "asthma.pdf", pdfs / "sub" / "anemia.pdf")
        source = FolderSource(pdfs)
        assert [d.article_id for d in source.documents()] == ["anemia", "asthma", "gout"]
        assert sorted(e.reason for e in source.ledger()) == ["duplicate_file", "duplicate_name"]

    def test_a_page_without_text_layer_is_read_by_ocr(self, pdfs: Path, tmp_path: Path) -> None:
        (tmp_path / "p").mkdir()
        with pymupdf.open(pdfs / "gout.pdf") as document:
            image = document[0].get_pixmap(dpi=150).tobytes("png")
        scan = pymupdf.open()
        scan.new_page(width=420, height=595).insert_image((0, 0, 420, 595), stream=image)
        scan.save(tmp_path / "p" / "scan.pdf")
        store = build(tmp_path / "p", tmp_path / "c")
        assert store.pages[0].text_source == "ocr"
        assert "Allopurinol" in store.pages[0].text
        blind = build(tmp_path / "p", tmp_path / "d", QUICK.model_copy(update={"ocr": "off"}))
        assert blind.pages[0].text_source == "none"
        assert blind.summaries["scan#p1"].text == "This page holds no text that could be read."

    def test_always_means_that_the_text_layer_is_not_looked_at(self, tmp_path: Path) -> None:
        with pymupdf.open() as document:
            page = document.new_page(width=420, height=595)
            page.insert_text((40, 60), "Printed for everyone to see", fontsize=16)
            page.insert_text((40, 120), "hidden layer words", render_mode=3)
            (tmp_path / "p").mkdir()
            document.save(tmp_path / "p" / "a.pdf")
        keeping = QUICK.model_copy(update={"hidden_text": "keep"})
        assert "hidden" in build(tmp_path / "p", tmp_path / "auto", keeping).pages[0].text
        store = build(tmp_path / "p", tmp_path / "always", QUICK.model_copy(update={"ocr": "always"}))
        assert (store.pages[0].text_source, store.pages[0].text) == ("ocr", "Printed for everyone to see")
        assert reasons(store) == {"a.pdf": {"ocr"}}


@pytest.mark.parametrize("article_id", ["..", ".", "a/b", "x" * 400, "ü"])
def test_no_article_id_leaves_the_corpus(article_id: str) -> None:
    folder = Path("/corpus") / article_folder(article_id)
    assert folder.parent == Path("/corpus/articles")
    assert len(folder.name) < 200
