"""What parent and child of the page renderer say to each other; plain records, one JSON line each."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from medvrag_core.records import Article, LedgerEntry, LedgerState, Page, PageLayout, Record
from medvrag_core.settings import CorpusSettings, StageSettings

STORE_FORMAT = 2
MIN_SIDE = 16
"""Pixels; a page image with a shorter side is taken as a failed rendering."""
BLANK = "blank_page"
"""Reason of a page on which nothing is printed, kept or left out."""
HURTFUL = frozenset({"time_limit", "memory_limit", "crashed"})
"""Reasons that tell of harm to the renderer; what they cost the corpus is quarantined, not dropped."""


class RenderSettings(StageSettings):
    """The part of :class:`CorpusSettings` that shapes stored pages, with the renderer that read them.

    Time and memory limits, worker counts and summary settings are left out on purpose: changing
    them must not throw away rendered pages.
    """

    store_format: int
    renderer: str
    dpi: int
    image_format: str
    jpeg_quality: int
    max_pixels: int
    ocr: str
    ocr_engine: str
    ocr_dpi: int
    ocr_figures: bool
    max_pages: int
    hidden_text: str = Field("leave_out", exclude_if=lambda choice: choice == "leave_out")
    blank_pages: str = Field("keep", exclude_if=lambda choice: choice == "keep")

    @classmethod
    def of(cls, settings: CorpusSettings) -> RenderSettings:
        """The shaping fields of ``settings``."""
        from importlib.metadata import version

        own = (set(cls.model_fields) & set(CorpusSettings.model_fields)) - {"renderer"}
        return cls(
            store_format=STORE_FORMAT,
            renderer=f"{settings.renderer} {version(settings.renderer)}",
            **settings.model_dump(include=own),
        )


class Job(Record):
    """Render one file from ``first_page`` on; ``no_ocr`` names pages whose OCR failed before."""

    path: str
    folder: str
    article_id: str
    image_prefix: str
    settings: CorpusSettings
    first_page: int = 1
    no_ocr: tuple[int, ...] = ()


class Note(Record):
    """What is said of one page: becomes a ledger entry in the parent."""

    state: LedgerState
    reason: str
    detail: str = ""


class FrontMatter(Record):
    """What the first page and the file's metadata tell about an article; empty where unknown."""

    title: str = ""
    doi: str = ""
    pmid: str = ""
    licence: str = ""


class Message(Record):
    """One line from the child.

    ``ready`` (imports done), ``refused`` (file unusable), ``opened`` (page count known), ``ocr``
    (page ``number`` goes to OCR next), ``page`` (page ``number`` is finished), ``disk`` (no space
    left), ``done``. ``done`` and ``refused`` end a job; ``done`` tells the address space that the child has taken.
    """

    event: Literal["ready", "refused", "opened", "ocr", "page", "disk", "done"]
    number: int = 0
    pages: int = 0
    notes: tuple[Note, ...] = ()
    front: FrontMatter | None = None
    memory_mb: int = 0


class StoredPage(Record):
    """A page as it lies in the folder of its article."""

    page: Page
    image_sha256: str


class RenderedPage(StoredPage):
    """A stored page with its layout; the file that the child hands over."""

    layout: PageLayout


class ArticleOutcome(Record):
    """The finished story of one source file; written last into the folder of the article.

    ``article`` is None where the file was refused. ``limited`` tells that a time or memory limit
    stopped some page; such a file is tried again when the limits grow. ``renderer`` is its name and version.
    """

    article_id: str
    sha256: str
    article: Article | None
    entries: tuple[LedgerEntry, ...]
    limited: bool = False
    seconds_per_page: float = 0.0
    memory_mb: int = 0
    renderer: str = Field("", exclude_if=lambda name: not name)
