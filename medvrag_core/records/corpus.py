"""Articles, pages, and what became of every file."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from medvrag_core.records.base import Record

Box = tuple[float, float, float, float]
"""``(x0, y0, x1, y1)`` as fractions of the page's width and height, origin top left."""
TextSource = Literal["pdf", "ocr", "none"]
RegionKind = Literal["text", "heading", "caption", "table", "table_row", "figure", "margin"]


def _told(default: Any = "") -> Any:
    """A field that is left out of files while nothing is known, so that corpora of old keep their bytes."""
    return Field(default, exclude_if=lambda value: value == default)


class Article(Record):
    """One source document. ``article_id`` is the file stem (``PMC5502154``).

    From ``version`` on only a source that knows more than the file itself fills the fields: ``version`` counts the
    deposits of an article in PubMed Central, ``published`` is a date as text (``2018``, ``2018-07``, ``2018-07-02``),
    ``attribution`` one printable line with authors, title, journal, date and address; the licence is told beside it.
    """

    article_id: str
    file: str
    sha256: str
    pages: int
    title: str = ""
    doi: str = ""
    pmid: str = ""
    licence: str = ""
    version: int = _told(0)
    journal: str = _told()
    published: str = _told()
    article_type: str = _told()
    licence_url: str = _told()
    attribution: str = _told()
    source_url: str = _told()


class Word(Record):
    """One word as printed on the page."""

    text: str
    box: Box


class Region(Record):
    """A block of a page with its role in the layout."""

    kind: RegionKind
    box: Box
    text: str


class Page(Record):
    """One page of an article. ``page_id`` is ``<article_id>#p<number>``, numbers from 1.

    ``image`` is the path of the page image inside the corpus folder; ``dpi`` is the
    resolution really used (lower than asked where the pixel cap applied); ``rotation`` are the degrees, clockwise,
    by which the file says that the page is turned for display. Width and height are as displayed.
    """

    page_id: str
    article_id: str
    number: int
    width_pt: float
    height_pt: float
    image: str
    image_width: int
    image_height: int
    dpi: float
    text_source: TextSource
    text: str
    rotation: int = _told(0)


class PageLayout(Record):
    """Words and regions of one page, in reading order."""

    page_id: str
    words: tuple[Word, ...]
    regions: tuple[Region, ...]


class Summary(Record):
    """A short text that stands for a page in Stage 2 (paper section 3.1, ~120 tokens).

    ``method`` is the model that wrote it, or the version of the extract. ``tokens`` are those of that model; of an
    extract they are an upper estimate (:class:`~medvrag_core.models.tokens.EstimatedTokens`). ``flags`` tell what is
    wrong: ``shortened``; ``tokens_estimated``; or why there is an extract in place of what a model should have written,
    such as ``failed:timeout``. ``call`` is the key of the call in the call store.
    """

    page_id: str
    text: str
    method: str
    tokens: int = _told(0)
    flags: tuple[str, ...] = _told(())
    call: str = _told()


LedgerState = Literal["kept", "dropped", "changed", "quarantined"]


class LedgerEntry(Record):
    """What became of one file or page.

    ``state`` is ``kept``; ``changed`` (in the corpus, with something to know about it); ``dropped`` (by a rule, such as
    a blank page or a file that is no PDF); or ``quarantined``: out of the corpus until a person has looked at it, since
    it hurt the process that read it (time, memory, a crash) or its licence contradicts itself. ``reason`` is a short
    code (``encrypted``, ``not_a_pdf``, ``pixel_cap``, ...), ``detail`` says it in words, ``page_id`` is empty when the
    entry speaks of the whole file.
    """

    file: str
    page_id: str = ""
    state: LedgerState
    reason: str
    detail: str = ""
