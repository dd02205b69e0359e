"""A corpus from texts: each is set as one page image, and read back from that image (VisRAG, Table 13).

What comes out opens as any other corpus. Pages are published in parts, so that a build can be stopped at any moment
and goes on where it stopped.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Literal

from pydantic import Field
from tqdm import tqdm

from medvrag_core.corpus.build import publish_index, read_stored_pages, write_pages
from medvrag_core.corpus.job import STORE_FORMAT, RenderedPage
from medvrag_core.corpus.lines import PageLines, words_of
from medvrag_core.corpus.ocr import ocr_engine, page_of
from medvrag_core.corpus.regions import find_regions, page_text
from medvrag_core.corpus.store import CorpusStore
from medvrag_core.corpus.summaries import summarize_pages
from medvrag_core.corpus.text import vocabulary_of
from medvrag_core.corpus.textlayer import fraction_box
from medvrag_core.corpus.typeset import TypesetPage, TypesetSettings, typeset
from medvrag_core.errors import InputError
from medvrag_core.records import Article, LedgerEntry, Page, PageLayout, Record
from medvrag_core.runs.publish import sha256_of, whole_folder
from medvrag_core.runs.stage import require_same_settings, save_settings
from medvrag_core.settings import CorpusSettings

_PART = 64  # documents that are set, read and published together
_DPI = 96.0  # what a pixel of a screen is taken for


class TextDocument(Record):
    """One text of a collection; its id becomes the article id of its page."""

    document_id: str
    title: str = ""
    text: str = ""


class TextPageSettings(TypesetSettings):
    """How texts become pages, and who reads the words of a page back."""

    store_format: int = STORE_FORMAT
    reader: Literal["tesseract", "rapidocr", "typesetter"] = Field(
        "tesseract", description="typesetter reads nothing: words and boxes are as they were set, as from a text layer"
    )


def build_text_pages(
    documents: Iterable[TextDocument],
    folder: Path,
    settings: TextPageSettings,
    *,
    workers: int = 2,
    progress: bool = True,
) -> CorpusStore:
    """Set every document that is not in ``folder`` yet as a page, read it, and open the result.

    Titles are printed above the text and known only from there. Documents without any word leave no page.

    Raises
    ------
    InputError : no document has a word; an id stands twice, or cannot be an article id; no font
    MismatchError : ``folder`` was made under other settings; the fields are named
    """
    given = sorted(documents, key=lambda document: document.document_id)
    _check_ids(given)
    require_same_settings(folder, settings, way_out="choose another folder, or delete that one")
    save_settings(folder, settings)
    parts = [given[start : start + _PART] for start in range(0, len(given), _PART)]
    homes = [f"articles/part-{number:05d}" for number in range(len(parts))]
    with ThreadPoolExecutor(max_workers=max(1, workers)) as pool:
        done = pool.map(partial(_ensure_part, folder=folder, settings=settings), parts, homes)
        for _ in tqdm(done, total=len(parts), desc="typeset", unit="part", disable=None if progress else True):
            pass
    _publish(given, folder, homes)
    summarize_pages(CorpusStore.open(folder), CorpusSettings())
    return CorpusStore.open(folder)


def _check_ids(documents: Sequence[TextDocument]) -> None:
    seen: set[str] = set()
    for document in documents:
        name = document.document_id
        if not name or name.split() != [name] or "#" in name:
            raise InputError(f"document id {name!r} is empty or holds white space or '#', which page ids cannot hold")
        if name in seen:
            raise InputError(f"document id '{name}' stands twice")
        seen.add(name)


def _ensure_part(documents: Sequence[TextDocument], home: str, *, folder: Path, settings: TextPageSettings) -> None:
    digest = hashlib.sha256("".join(document.to_json() + "\n" for document in documents).encode()).hexdigest()
    mark = folder / home / "documents.sha256"
    if mark.is_file() and mark.read_text(encoding="utf-8") == digest:
        return
    (folder / "manifest.json").unlink(missing_ok=True)
    with whole_folder(folder / home) as fresh:
        (fresh / "images").mkdir()
        printed: list[tuple[TextDocument, TypesetPage, Path]] = []
        for number, document in enumerate(documents):
            try:
                page = typeset([document.title, document.text], settings)
            except InputError as error:
                raise InputError(f"document '{document.document_id}': {error.problem}", way_out=error.way_out) from None
            if page.lines:
                path = fresh / "images" / f"{number:02d}.png"
                page.image.save(path, compress_level=3)
                printed.append((document, page, path))
        read = _read([page for _, page, _ in printed], [path for _, _, path in printed], settings)
        pages = [
            _page(document, f"{home}/images/{path.name}", page, path, lines, settings)
            for (document, page, path), lines in zip(printed, read, strict=True)
        ]
        write_pages(fresh, pages)
        (fresh / "documents.sha256").write_text(digest, encoding="utf-8")


def _read(pages: Sequence[TypesetPage], paths: Sequence[Path], settings: TextPageSettings) -> list[PageLines]:
    if settings.reader != "typesetter":
        found = ocr_engine(settings.reader).read_files(paths) if paths else []
        return [page_of(lines, *page.image.size) for lines, page in zip(found, pages, strict=True)]
    return [_as_printed(page) for page in pages]


def _as_printed(page: TypesetPage) -> PageLines:
    width, height = page.image.size
    return PageLines(page.lines, (0.0, 0.0, width, height), lambda box: fraction_box(box, width, height))


def _page(
    document: TextDocument, image: str, printed: TypesetPage, path: Path, lines: PageLines, settings: TextPageSettings
) -> RenderedPage:
    words = words_of(lines)
    vocabulary = vocabulary_of(word.text for word in words)
    # A short first or last paragraph of a page that holds one text is no running head.
    regions = tuple(
        region.model_copy(update={"kind": "text"}) if region.kind == "margin" else region
        for region in find_regions(lines, vocabulary)
    )
    width, height = printed.image.size
    page_id = f"{document.document_id}#p1"
    page = Page(
        page_id=page_id,
        article_id=document.document_id,
        number=1,
        width_pt=width * 72 / _DPI,
        height_pt=height * 72 / _DPI,
        image=image,
        image_width=width,
        image_height=height,
        dpi=_DPI,
        text_source="pdf" if settings.reader == "typesetter" else "ocr" if words else "none",
        text=page_text(regions),
    )
    return RenderedPage(
        page=page,
        image_sha256=sha256_of(path),
        layout=PageLayout(page_id=page_id, words=words, regions=regions),
    )


def _publish(documents: Sequence[TextDocument], folder: Path, homes: Sequence[str]) -> None:
    stored = {page.page.article_id: page for home in homes for page in read_stored_pages(folder / home)}
    articles, ledger = [], []
    for document in documents:
        name = document.document_id
        if name in stored:
            digest = hashlib.sha256(document.to_json().encode()).hexdigest()
            articles.append(Article(article_id=name, file=name, sha256=digest, pages=1))
            how = {"pdf": "text_layer", "ocr": "ocr", "none": "no_text"}[stored[name].page.text_source]
            ledger.append(LedgerEntry(file=name, page_id=f"{name}#p1", state="kept", reason=how))
        else:
            ledger.append(LedgerEntry(file=name, state="dropped", reason="blank_page", detail="a text without a word"))
    publish_index(folder, articles, list(stored.values()), ledger)
