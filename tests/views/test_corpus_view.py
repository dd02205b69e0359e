from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from medvrag_core.corpus.ledger_report import LedgerReport, ledger_report
from medvrag_core.corpus.ledger_table import LedgerRow
from medvrag_core.corpus.showing import PagePicture
from medvrag_core.views.corpus_view import funnel_figure, licences_table, page_gallery, rejected_gallery, rules_table
from medvrag_core.views.ledger_text import ledger_text

EVIL = "<script>x</script>"
ROWS = [
    LedgerRow(file="a.pdf", article_id="a", status="kept", reason="rendered", licence="CC BY-NC 4.0", changes=(EVIL,)),
    LedgerRow(file="a.pdf", article_id="a", page=1, status="kept", reason="text_layer"),
    LedgerRow(file="a.pdf", article_id="a", page=2, status="dropped", reason="blank_page", detail="nothing printed"),
    LedgerRow(file=EVIL, article_id="b", status="quarantined", reason=EVIL, detail=EVIL),
    LedgerRow(file="c.pdf", article_id="c", status="kept", reason="rendered", licence="CC0"),
    LedgerRow(file="c.pdf", article_id="c", page=1, status="kept", reason="ocr"),
]


@pytest.fixture
def report() -> LedgerReport:
    return ledger_report(ROWS)


def test_the_funnel_has_an_axis_for_files_and_one_for_pages(report: LedgerReport) -> None:
    figure = funnel_figure(report.model_copy(update={"pages_indexed": 1}), caption="c")
    files, pages = figure.data
    assert (list(files.x), list(files.y)) == ([3, 2], ["files seen", "articles kept"])
    assert (list(pages.x), list(pages.y)) == ([3, 2, 1], ["pages seen", "pages kept", "pages indexed"])
    assert "2 of 3 pages, 2 of 3 files" in figure.layout.title.text


def test_tables_tell_rules_and_licences(report: LedgerReport) -> None:
    rules = rules_table(report)._repr_html_()
    assert "blank_page" in rules and "quarantined" in rules and EVIL not in rules
    licences = licences_table(report)._repr_html_()
    assert "yes, with attribution" in licences
    assert "no: its licence, CC BY-NC 4.0, allows no commercial use" in licences


def test_the_gallery_has_a_card_for_each_and_escapes() -> None:
    gone = [row for row in ROWS if row.status != "kept"]
    html = rejected_gallery(gone).html
    assert html.count("<code>") == 2 and "a.pdf, page 2" in html and "nothing printed" in html
    assert EVIL not in html and "&lt;script&gt;" in html
    assert "2 files and pages left out" in html
    assert "nothing was left out" in rejected_gallery([]).html
    cut = rejected_gallery(gone * 20, limit=5).html
    assert cut.count("<code>") == 5 and "first 5 of 40 shown" in cut


def test_samples_stand_side_by_side_with_id_and_credit(tmp_path: Path) -> None:
    Image.new("RGB", (85, 110)).save(tmp_path / "p.png")
    html = page_gallery([PagePicture(f"a#p{n}", tmp_path / "p.png", f"Credit {n}.", "") for n in (1, 2)]).html
    assert html.count("data:image/jpeg") == 2 and "a#p2" in html and "Credit 2." in html


def test_the_text_tells_the_same(report: LedgerReport) -> None:
    text = ledger_text(report.model_copy(update={"pages_indexed": 1, "near_duplicates": 4}))
    assert "        3  files seen" in text and "4  near-duplicates left out" in text
    assert "CC BY-NC 4.0 (not in a published book)" in text and "CC0\n" in f"{text}\n"
