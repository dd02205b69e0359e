"""The ledger as one table: a row for every file and every page that was seen, what became of it, and by which rule.

``ledger.jsonl`` is the story as it was told, with several entries a page where several things happened. The table says
it once: ``ledger.parquet`` has one row a file and one a page, and any tool that reads Parquet can count in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Literal, NamedTuple

from medvrag_core.corpus.licences import parsed_licence
from medvrag_core.corpus.source import article_id_of
from medvrag_core.errors import InputError
from medvrag_core.records import Article, LedgerEntry, Page, Record, TextSource
from medvrag_core.runs.publish import whole_file

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

NAME = "ledger.parquet"
KEPT_FILE = "rendered"
"""Reason of a file that has pages in the corpus."""
ROWS_AT_ONCE = 65_536
"""In memory while the table is written."""
NO_PAGE = "no_usable_page"
"""Reason of a file whose pages were left out for several reasons, or that none is told of."""
_HOW = {"pdf": "text_layer", "ocr": "ocr", "none": "no_text"}


class LedgerRow(Record):
    """What became of one file (``page`` is None) or one page.

    Attributes
    ----------
    page : number from 1; None for the whole file
    status : ``kept`` exactly where pages of it are in the corpus
    reason : the rule, as ``duplicate_page``; of a kept page how it was read (``text_layer``, ``ocr``, ``no_text``), of
        a kept file ``rendered``
    detail : the reason in words; on a kept page those of its changes too
    changes : what else there is to know about what was kept, such as ``pixel_cap`` or ``blank_page``
    pages_seen, pages_kept : of a file
    words : on a kept page, as its text is split at spaces
    dpi, image_width, image_height : of a kept page
    licence : of a kept file, in one form, see :class:`~medvrag_core.corpus.licences.Licence`
    """

    file: str
    article_id: str
    page: int | None = None
    page_id: str = ""
    status: Literal["kept", "dropped", "quarantined"]
    reason: str
    detail: str = ""
    changes: tuple[str, ...] = ()
    pages_seen: int | None = None
    pages_kept: int | None = None
    words: int | None = None
    image_width: int | None = None
    image_height: int | None = None
    dpi: float | None = None
    licence: str = ""


class _Kept(NamedTuple):
    """What the table tells of a page in the corpus, without its text."""

    article_id: str
    source: TextSource
    words: int
    width: int
    height: int
    dpi: float

    @classmethod
    def of(cls, page: Page) -> _Kept:
        words = len(page.text.split())
        return cls(page.article_id, page.text_source, words, page.image_width, page.image_height, page.dpi)


def ledger_rows(articles: Sequence[Article], pages: Iterable[Page], entries: Iterable[LedgerEntry]) -> list[LedgerRow]:
    """The table of a corpus, sorted by file and page, whatever the order of the entries.

    Parameters
    ----------
    articles, pages : what is in the corpus
    entries : its ledger, dropped articles and pages included
    """
    return list(each_ledger_row(articles, pages, entries))


def each_ledger_row(
    articles: Sequence[Article], pages: Iterable[Page], entries: Iterable[LedgerEntry]
) -> Iterator[LedgerRow]:
    """The same, one file after another; memory holds what was told, and no rows."""
    kept = {page.page_id: _Kept.of(page) for page in pages}
    of_file = {article.article_id: article.file for article in articles}
    told: dict[str, dict[str, list[LedgerEntry]]] = {}
    for entry in entries:
        told.setdefault(entry.file, {}).setdefault(entry.page_id, []).append(entry)
    for page_id, page in kept.items():
        told.setdefault(of_file[page.article_id], {}).setdefault(page_id, [])
    of_article = {article.file: article for article in articles}
    for file, by_page in sorted(told.items()):
        own = by_page.pop("", [])
        inner = sorted((_page_row(file, i, kept.get(i), said, own) for i, said in by_page.items()), key=_number)
        yield _file_row(file, of_article.get(file), inner, own)
        yield from inner


def write_ledger_table(folder: Path, rows: Iterable[LedgerRow]) -> Path:
    """Publish ``folder/ledger.parquet``; the same rows give the same bytes with the same version of pyarrow."""
    import pyarrow as pa
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    path, left = folder / NAME, iter(rows)
    with (
        whole_file(path) as temporary,
        pq.ParquetWriter(temporary, _schema(), compression="zstd") as writer,
    ):
        while group := list(islice(left, ROWS_AT_ONCE)):
            columns = {name: [getattr(row, name) for row in group] for name in LedgerRow.model_fields}
            writer.write_table(pa.Table.from_pydict(columns, schema=_schema()))
    return path


def read_ledger_table(folder: Path) -> list[LedgerRow]:
    """The rows of ``folder/ledger.parquet``; raises InputError if it is missing or no such table."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / NAME
    try:
        found = pq.read_table(path, columns=list(LedgerRow.model_fields)).to_pylist()
    except (OSError, pa.ArrowException) as error:
        words = " ".join(str(error).split())[:200]
        raise InputError(f"{path}: no readable ledger ({words})", way_out="build the corpus again") from None
    return [LedgerRow.model_validate(row | {"changes": tuple(row["changes"])}) for row in found]


def _page_row(
    file: str, page_id: str, page: _Kept | None, said: Sequence[LedgerEntry], of_file: Sequence[LedgerEntry]
) -> LedgerRow:
    article_id, _, number = page_id.rpartition("#p")
    # The last word counts: a page is read first, and found to be a duplicate later.
    how = [e for e in said if e.state == "kept"]
    gone = [e for e in said if e.state in ("dropped", "quarantined")] or [e for e in of_file if e.state != "changed"]
    last = (how if page else gone)[-1:]
    reason = last[0].reason if last else _HOW[page.source] if page else "left_out"
    return LedgerRow(
        file=file,
        article_id=article_id,
        page=int(number),
        page_id=page_id,
        status="kept" if page else "quarantined" if last and last[0].state == "quarantined" else "dropped",
        reason=reason,
        detail="; ".join(entry.detail for entry in (*last, *(e for e in said if page and e.state == "changed"))),
        changes=_changes(said),
        words=page.words if page else None,
        image_width=page.width if page else None,
        image_height=page.height if page else None,
        dpi=page.dpi if page else None,
    )


def _file_row(file: str, article: Article | None, pages: Sequence[LedgerRow], said: Sequence[LedgerEntry]) -> LedgerRow:
    kept = sum(row.status == "kept" for row in pages)
    # That no page is left says nothing that the pages do not say better.
    gone = [e for e in said if e.state in ("dropped", "quarantined") and not (e.reason == NO_PAGE and pages)]
    changes = _changes(said)
    status: Literal["kept", "dropped", "quarantined"]
    if kept:
        # Such as: the rest of the file was given up after five of its pages failed.
        status, reason, detail = "kept", KEPT_FILE, "; ".join(entry.detail for entry in said if entry.detail)
        changes = tuple(sorted({*changes, *(entry.reason for entry in gone)}))
    elif gone:
        status = "quarantined" if any(entry.state == "quarantined" for entry in gone) else "dropped"
        of_status = [entry for entry in gone if entry.state == status]
        reason, detail = of_status[-1].reason, of_status[-1].detail
    else:
        reasons = sorted({row.reason for row in pages})
        status = "quarantined" if any(row.status == "quarantined" for row in pages) else "dropped"
        reason, detail = (reasons[0] if len(reasons) == 1 else NO_PAGE), ", ".join(reasons)
    return LedgerRow(
        file=file,
        article_id=article.article_id if article else pages[0].article_id if pages else _article_id(file),
        status=status,
        reason=reason,
        detail=detail,
        changes=changes,
        pages_seen=len(pages),
        pages_kept=kept,
        licence=parsed_licence(article.licence).label if article and kept else "",
    )


def _article_id(file: str) -> str:
    return article_id_of(Path(PurePosixPath(file).name))


def _changes(entries: Sequence[LedgerEntry]) -> tuple[str, ...]:
    return tuple(sorted({entry.reason for entry in entries if entry.state == "changed"}))


def _number(row: LedgerRow) -> int:
    return row.page or 0


def _schema() -> pa.Schema:
    import pyarrow as pa

    kinds: dict[str, pa.DataType] = {"changes": pa.list_(pa.string()), "dpi": pa.float64()}
    kinds |= dict.fromkeys(("page", "pages_seen", "pages_kept", "words", "image_width", "image_height"), pa.int32())
    return pa.schema([(name, kinds.get(name, pa.string())) for name in LedgerRow.model_fields])
