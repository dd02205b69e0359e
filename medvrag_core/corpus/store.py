"""The page store: what a finished corpus holds, read lazily."""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path

from medvrag_core.corpus.records_file import KeyedRecords, RecordsFile
from medvrag_core.corpus.showing import PagePicture, picture_of
from medvrag_core.errors import InputError, NotBuiltError
from medvrag_core.records import Article, LedgerEntry, Page, PageLayout, Record, Summary

_ARTICLES_IN_MEMORY = 8


class CorpusManifest(Record):
    """Written last: its presence means that the corpus is whole."""

    articles: int
    pages: int
    fingerprint: str


class CorpusStore:
    """Pages of a corpus with their images, words, regions, summaries and ledger.

    Use :meth:`open`. Pages are in order of article id and number.
    """

    def __init__(self, folder: Path, manifest: CorpusManifest) -> None:
        self.folder = folder
        self.fingerprint = manifest.fingerprint
        self._layouts = lru_cache(maxsize=_ARTICLES_IN_MEMORY)(self._read_layouts)

    @classmethod
    def open(cls, folder: Path) -> CorpusStore:
        """Open a finished corpus; NotBuiltError names the folder if there is none."""
        path = folder / "manifest.json"
        if not path.is_file():
            raise NotBuiltError(
                f"{folder}: no finished corpus", way_out="run notebook 01_corpus_build or `medvrag run`"
            )
        return cls(folder, CorpusManifest.from_json(path.read_bytes(), source=str(path)))

    @cached_property
    def articles(self) -> Sequence[Article]:
        """Articles with at least one page."""
        return RecordsFile(self.folder / "articles.jsonl", Article)

    @cached_property
    def pages(self) -> RecordsFile[Page]:
        """All pages, each read when it is asked for."""
        return RecordsFile(self.folder / "pages.jsonl", Page)

    @cached_property
    def ledger(self) -> Sequence[LedgerEntry]:
        """What became of every file and page of the source."""
        return RecordsFile(self.folder / "ledger.jsonl", LedgerEntry)

    @cached_property
    def summaries(self) -> Mapping[str, Summary]:
        """Summaries by page id."""
        records = RecordsFile(self.folder / "summaries.jsonl", Summary)
        return KeyedRecords(records, lambda summary: summary.page_id)

    @cached_property
    def _by_id(self) -> Mapping[str, Page]:
        return KeyedRecords(self.pages, lambda page: page.page_id)

    @cached_property
    def _articles_by_id(self) -> dict[str, Article]:
        return {article.article_id: article for article in self.articles}

    def page(self, page_id: str) -> Page:
        """One page; raises InputError for an id that the corpus does not have."""
        page = self._by_id.get(page_id)
        if page is None:
            raise InputError(f"page '{page_id}' is not in this corpus", way_out="page ids look like 'PMC5502154#p6'")
        return page

    def image_path(self, page_id: str) -> Path:
        """Path of the page image."""
        return self.folder / self.page(page_id).image

    def picture(self, page_id: str) -> PagePicture:
        """The page image with its credit, and whether a published book may show it; what views are given."""
        article = self._articles_by_id[self.page(page_id).article_id]
        return picture_of(article, page_id, self.image_path(page_id))

    def layout(self, page_id: str) -> PageLayout:
        """Words and regions of one page."""
        return self.layout_of(self.page(page_id))

    def layout_of(self, page: Page) -> PageLayout:
        """The same for a page at hand; the other pages are not read for it."""
        return self._layouts(str(Path(page.image).parent.parent))[page.page_id]

    def _read_layouts(self, home: str) -> dict[str, PageLayout]:
        path = self.folder / home / "layouts.jsonl.gz"
        with gzip.open(path, "rb") as handle:
            layouts = [PageLayout.from_json(line, source=str(path)) for line in handle]
        return {layout.page_id: layout for layout in layouts}
