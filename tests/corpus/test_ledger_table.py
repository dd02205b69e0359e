from __future__ import annotations

import random
from pathlib import Path
from typing import Literal

import pyarrow.parquet as pq
import pymupdf
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvrag_core.corpus.build import build_corpus
from medvrag_core.corpus.ledger_report import ledger_report, left_out
from medvrag_core.corpus.ledger_table import LedgerRow, ledger_rows, read_ledger_table, write_ledger_table
from medvrag_core.corpus.store import CorpusStore
from medvrag_core.errors import InputError
from medvrag_core.records import Article, LedgerEntry, LedgerState, Page
from medvrag_core.settings import CorpusSettings

QUICK = CorpusSettings(dpi=72, seconds_per_page=10)


def page(article: str, number: int) -> Page:
    return Page(
        page_id=f"{article}#p{number}", article_id=article, number=number, width_pt=1, height_pt=1, image="i",
        image_width=10, image_height=20, dpi=72.0, text_source="pdf", text="two words",
    )  # fmt: skip


def entry(file: str, page_id: str, state: LedgerState, reason: str, detail: str = "") -> LedgerEntry:
    return LedgerEntry(file=file, page_id=page_id, state=state, reason=reason, detail=detail)


ARTICLES = [Article(article_id="a", file="a.pdf", sha256="0", pages=2, licence="cc-by 4.0")]
PAGES = [page("a", 1), page("a", 10)]
ENTRIES = [
    entry("a.pdf", "", "changed", "repaired", "damaged file, read after repair"),
    entry("a.pdf", "a#p1", "changed", "pixel_cap", "at 20 dpi"),
    entry("a.pdf", "a#p1", "kept", "text_layer", "10 x 20 pixels"),
    entry("a.pdf", "a#p2", "dropped", "blank_page"),
    entry("a.pdf", "a#p3", "kept", "ocr"),
    entry("a.pdf", "a#p3", "dropped", "duplicate_page", "same as b#p1"),
    entry("a.pdf", "a#p4", "quarantined", "time_limit"),
    entry("a.pdf", "a#p5", "dropped", "near_question"),
    entry("a.pdf", "a#p5", "dropped", "listed_page", "the last word"),
    entry("a.pdf", "a#p10", "kept", "text_layer"),
    entry("a.pdf", "", "quarantined", "time_limit", "pages after 10 left out"),
    entry("bomb.pdf", "", "quarantined", "memory_limit", "more than 10 MB"),
    entry("x/page.pdf", "", "dropped", "not_a_pdf", "an HTML page"),
    entry("copies.pdf", "copies#p1", "kept", "text_layer"),
    entry("copies.pdf", "copies#p1", "dropped", "duplicate_page"),
    entry("slow.pdf", "slow#p1", "quarantined", "time_limit"),
    entry("slow.pdf", "", "dropped", "no_usable_page"),
    entry("mixed.pdf", "mixed#p1", "dropped", "blank_page"),
    entry("mixed.pdf", "mixed#p2", "dropped", "degenerate_render"),
    entry("mixed.pdf", "", "dropped", "no_usable_page"),
    entry("none.pdf", "", "dropped", "no_usable_page"),
    entry("listed.pdf", "listed#p1", "kept", "text_layer"),
    entry("listed.pdf", "", "dropped", "excluded_article", "PMID 1 is in the benchmark"),
]


def test_there_is_one_row_a_file_and_one_a_page_and_it_tells_the_last_word() -> None:
    rows = {(r.file, r.page): r for r in ledger_rows(ARTICLES, PAGES, ENTRIES)}
    assert {key: (r.status, r.reason) for key, r in rows.items()} == {
        ("a.pdf", None): ("kept", "rendered"),
        ("a.pdf", 1): ("kept", "text_layer"),
        ("a.pdf", 2): ("dropped", "blank_page"),
        ("a.pdf", 3): ("dropped", "duplicate_page"),
        ("a.pdf", 4): ("quarantined", "time_limit"),
        ("a.pdf", 5): ("dropped", "listed_page"),
        ("a.pdf", 10): ("kept", "text_layer"),
        ("bomb.pdf", None): ("quarantined", "memory_limit"),
        ("copies.pdf", None): ("dropped", "duplicate_page"),
        ("copies.pdf", 1): ("dropped", "duplicate_page"),
        ("listed.pdf", None): ("dropped", "excluded_article"),
        ("listed.pdf", 1): ("dropped", "excluded_article"),
        ("mixed.pdf", None): ("dropped", "no_usable_page"),
        ("mixed.pdf", 1): ("dropped", "blank_page"),
        ("mixed.pdf", 2): ("dropped", "degenerate_render"),
        ("none.pdf", None): ("dropped", "no_usable_page"),
        ("slow.pdf", None): ("quarantined", "time_limit"),
        ("slow.pdf", 1): ("quarantined", "time_limit"),
        ("x/page.pdf", None): ("dropped", "not_a_pdf"),
    }
    whole = rows["a.pdf", None]
    assert (whole.article_id, whole.pages_seen, whole.pages_kept) == ("a", 6, 2)
    assert (whole.licence, whole.changes) == ("CC BY 4.0", ("repaired", "time_limit"))
    assert "pages after 10 left out" in whole.detail
    first = rows["a.pdf", 1]
    assert (first.changes, first.words, first.image_width, first.image_height) == (("pixel_cap",), 2, 10, 20)
    assert rows["a.pdf", 2].words is None
    assert {rows[name, None].article_id for name in ("x/page.pdf", "bomb.pdf")} == {"page", "bomb"}


def test_rows_come_in_order_of_pages_whatever_the_order_of_entries() -> None:
    rows = ledger_rows(ARTICLES, PAGES, ENTRIES)
    assert [r.page for r in rows[:7]] == [None, 1, 2, 3, 4, 5, 10]
    files = [entry_ for entry_ in ENTRIES if entry_.file != "a.pdf"]
    random.Random(0).shuffle(files)
    mixed = sorted(files, key=lambda e: e.reason == "duplicate_page")
    assert ledger_rows(ARTICLES, PAGES[::-1], [*mixed, *ENTRIES[:11]]) == rows


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 4), st.sampled_from(["kept", "dropped", "changed", "quarantined"]))
    ),
    st.sets(st.tuples(st.integers(0, 3), st.integers(1, 4))),
)
def test_kept_rows_are_the_pages_of_the_corpus(
    told: list[tuple[int, int, Literal["kept", "dropped", "changed", "quarantined"]]], kept: set[tuple[int, int]]
) -> None:
    pages = [page(f"f{file}", number) for file, number in sorted(kept)]
    articles = [
        Article(article_id=f"f{file}", file=f"f{file}.pdf", sha256="", pages=1) for file in {file for file, _ in kept}
    ]
    entries = [entry(f"f{f}.pdf", f"f{f}#p{n}" if n else "", state, state) for f, n, state in told]
    rows = ledger_rows(articles, pages, entries)
    assert sorted(r.page_id for r in rows if r.page and r.status == "kept") == [p.page_id for p in pages]
    assert {r.file for r in rows} == {e.file for e in entries} | {a.file for a in articles}
    assert len({(r.file, r.page) for r in rows}) == len(rows)
    assert {r.file for r in rows if r.page is None and r.status == "kept"} == {a.file for a in articles}
    report = ledger_report(rows)
    assert sum(rule.count for rule in report.rules) == len(rows)
    assert (report.pages_kept, report.articles) == (len(pages), len(articles))
    assert [step.count for step in report.funnel] == [report.files, report.articles, report.pages_seen, len(pages)]


def test_the_table_is_parquet_with_the_same_bytes_for_the_same_rows(tmp_path: Path) -> None:
    rows = ledger_rows(ARTICLES, PAGES, ENTRIES)
    path = write_ledger_table(tmp_path, rows)
    before = path.read_bytes()
    assert write_ledger_table(tmp_path, rows).read_bytes() == before
    assert read_ledger_table(tmp_path) == rows
    table = pq.read_table(path)
    assert {"file", "article_id", "page", "status", "reason"} <= set(table.column_names)
    assert table["page"].null_count == sum(row.page is None for row in rows)


def test_the_report_counts_rules_changes_and_licences() -> None:
    report = ledger_report(ledger_rows(ARTICLES, PAGES, ENTRIES))
    assert (report.files, report.articles, report.pages_seen, report.pages_kept) == (8, 1, 11, 2)
    counts = {(rule.level, rule.status, rule.reason): rule.count for rule in report.rules}
    assert counts["page", "kept", "text_layer"] == 2
    assert counts["page", "dropped", "duplicate_page"] == 2
    assert counts["file", "quarantined", "memory_limit"] == 1
    assert report.changes == {"pixel_cap": 1, "repaired": 1, "time_limit": 1}
    assert [(of.licence, of.use, of.hidden, of.articles) for of in report.licences] == [
        ("CC BY 4.0", "commercial", "", 1)
    ]


def test_what_is_left_out_is_told_once_and_in_words() -> None:
    told = {(r.file, r.page): (r.reason, r.detail) for r in left_out(ledger_rows(ARTICLES, PAGES, ENTRIES))}
    assert told["a.pdf", 3] == ("duplicate_page", "same as b#p1")
    assert told["listed.pdf", None] == ("excluded_article", "PMID 1 is in the benchmark")
    assert {key for key in told if key[0] in ("slow.pdf", "mixed.pdf", "copies.pdf")} == {
        ("slow.pdf", None), ("copies.pdf", None), ("mixed.pdf", None), ("mixed.pdf", 1), ("mixed.pdf", 2),
    }  # fmt: skip
    assert ("a.pdf", None) not in told and ("a.pdf", 1) not in told


@pytest.mark.parametrize("content", [None, b"", b"PAR1 no"])
def test_a_missing_or_damaged_table_is_named(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "ledger.parquet").write_bytes(content)
    with pytest.raises(InputError, match=r"ledger\.parquet: no readable ledger"):
        read_ledger_table(tmp_path)


def test_a_build_ends_with_the_table_also_where_nothing_could_be_used(made_pdfs: Path, tmp_path: Path) -> None:
    store = build_corpus(made_pdfs, tmp_path / "c", QUICK, progress=False)
    rows = read_ledger_table(store.folder)
    assert rows == ledger_rows(store.articles, store.pages, store.ledger)
    assert [r.page_id for r in rows if r.page] == [p.page_id for p in store.pages]
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "x.pdf").write_text("<html>")
    with pytest.raises(InputError, match="no usable page"):
        build_corpus(tmp_path / "bad", tmp_path / "d", QUICK, progress=False)
    assert [(r.file, r.status, r.reason) for r in read_ledger_table(tmp_path / "d")] == [
        ("x.pdf", "dropped", "not_a_pdf")
    ]


def test_bc36_a_file_whose_licence_contradicts_itself_stays_for_local_use(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    document = pymupdf.open()
    text = "Open access under http://creativecommons.org/licenses/by/4.0/\nNo commercial exploitation is permitted."
    document.new_page().insert_text((50, 50), text)
    document.save(tmp_path / "p" / "two_minds.pdf")
    store = build_corpus(tmp_path / "p", tmp_path / "c", QUICK, progress=False)
    assert store.articles[0].licence.startswith("conflict: CC BY 4.0 against")
    (whole,) = [row for row in read_ledger_table(store.folder) if row.page is None]
    assert (whole.status, whole.changes, whole.licence) == ("kept", ("licence_conflict",), "conflict")
    given_ = build_corpus(tmp_path / "p", tmp_path / "c", QUICK.model_copy(update={"licence": "CC0"}), progress=False)
    assert given_.articles == store.articles


def test_rows_refuse_what_is_no_status() -> None:
    with pytest.raises(ValueError, match="status"):
        LedgerRow.model_validate({"file": "a", "article_id": "a", "status": "changed", "reason": "x"})


def test_a_corpus_of_old_has_its_ledger_too(made_pdfs: Path, tmp_path: Path) -> None:
    store = build_corpus(made_pdfs, tmp_path / "c", QUICK, progress=False)
    before = (store.folder / "ledger.parquet").read_bytes()
    (store.folder / "ledger.parquet").unlink()
    again = CorpusStore.open(store.folder)
    assert (
        write_ledger_table(again.folder, ledger_rows(again.articles, again.pages, again.ledger)).read_bytes() == before
    )


@pytest.mark.slow
def test_every_odd_file_has_one_row_of_its_own(shared_data: Path, tmp_path: Path) -> None:
    settings = QUICK.model_copy(update={"ocr": "off"})
    store = build_corpus(shared_data / "odd_pdfs", tmp_path, settings, progress=False)
    files = [row.file for row in read_ledger_table(store.folder) if row.page is None]
    assert files == sorted(path.name for path in (shared_data / "odd_pdfs").glob("*.pdf"))
