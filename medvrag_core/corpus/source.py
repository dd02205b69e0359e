"""Where articles come from; a source names files and never opens them."""

from __future__ import annotations

import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from medvrag_core.corpus.licences import parsed_licence
from medvrag_core.errors import InputError
from medvrag_core.records import Article, LedgerEntry, Record, describe_validation_error
from medvrag_core.runs.publish import sha256_of
from medvrag_core.strict_yaml import strict_yaml


class SourceFacts(Record):
    """What a source knows of an article beside its file; an empty field leaves what the file itself says.

    The fields are those of :class:`~medvrag_core.records.Article`.
    """

    title: str = ""
    doi: str = ""
    pmid: str = ""
    licence: str = ""
    version: int = 0
    journal: str = ""
    published: str = ""
    article_type: str = ""
    licence_url: str = ""
    attribution: str = ""
    source_url: str = ""


NOTHING_KNOWN = SourceFacts()
LICENCE_FILE = "licence.yaml"


@dataclass(frozen=True)
class SourceDocument:
    """One file to take pages from; ``file`` is its name in the ledger, ``facts`` what its source knows of it."""

    article_id: str
    path: Path
    file: str = ""
    facts: SourceFacts = NOTHING_KNOWN

    @property
    def label(self) -> str:
        """``file``, or the plain file name where the source gave none."""
        return self.file or printable(self.path.name)

    def described(self, article: Article) -> Article:
        """The article with what its source knows of it, which counts more than what was read from the first page."""
        return article.model_copy(update=self.facts.model_dump(exclude_defaults=True))


class PageSource(ABC):
    """Delivers the documents of a corpus (paper section 3.1)."""

    @abstractmethod
    def documents(self) -> Iterator[SourceDocument]:
        """Yield documents sorted by article id, each id once; raise :class:`InputError` if there is none."""

    def ledger(self) -> tuple[LedgerEntry, ...]:
        """Files that the source itself left out, known after :meth:`documents` was read to its end."""
        return ()


class FolderLicence(Record):
    """What ``licence.yaml`` in a folder says of all articles in it: their licence, and who published them."""

    licence: str
    journal: str = ""


class FolderSource(PageSource):
    """All PDF files below a folder.

    A file ``licence.yaml`` in it may state the licence of all of them; an article whose own pages say otherwise has a
    licence that contradicts itself, see :mod:`~medvrag_core.corpus.licences`.

    The article id is the file stem. White space, control characters and ``#`` become ``_``, since
    ids are columns of TREC run files and ``#`` separates the page number.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ledger: list[LedgerEntry] = []

    def documents(self) -> Iterator[SourceDocument]:
        """Yield the files sorted by article id; of two with one id only the first by path is kept."""
        if not self.folder.is_dir():
            raise InputError(f"{self.folder}: no such folder", way_out="give a folder that holds PDF files")
        files = sorted(p for p in self.folder.rglob("*") if p.suffix.lower() == ".pdf" and p.is_file())
        if not files:
            raise InputError(f"{self.folder}: holds no PDF file", way_out="give a folder that holds PDF files")
        self._ledger = []
        facts = self._facts()
        kept: dict[str, SourceDocument] = {}
        for path in files:
            label = printable(path.relative_to(self.folder).as_posix())
            document = SourceDocument(article_id_of(path), path, label, facts)
            first = kept.setdefault(document.article_id, document)
            if first is not document:
                self._ledger.append(_duplicate(first, document))
        yield from (kept[article_id] for article_id in sorted(kept))

    def _facts(self) -> SourceFacts:
        path = self.folder / LICENCE_FILE
        if not path.is_file():
            return NOTHING_KNOWN
        way_out = "write for example `licence: CC BY 4.0`"
        told = strict_yaml(path.read_bytes(), str(path), way_out=way_out)
        try:
            stated = FolderLicence.model_validate(told)
        except ValidationError as error:
            raise InputError(f"{path}: {describe_validation_error(error)}", way_out=way_out) from None
        if not parsed_licence(stated.licence).code:
            raise InputError(f"{path}: '{stated.licence}' is no licence that is known here", way_out=way_out)
        return SourceFacts(**stated.model_dump())

    def ledger(self) -> tuple[LedgerEntry, ...]:
        """Files dropped because another file has the same article id."""
        return tuple(self._ledger)


def article_id_of(path: Path) -> str:
    """Article id of a file.

    >>> article_id_of(Path("reviews/PMC5502154.pdf")), article_id_of(Path("my review #2.PDF"))
    ('PMC5502154', 'my_review_2')
    """
    return re.sub(r"[\s#\x00-\x1f\x7f]+", "_", printable(unicodedata.normalize("NFC", path.stem))).strip("_") or "_"


def printable(name: str) -> str:
    """A file name as text that can be stored; bytes that are no UTF-8 become ``_``."""
    return re.sub(r"[\ud800-\udfff]", "_", name)


def _duplicate(first: SourceDocument, second: SourceDocument) -> LedgerEntry:
    try:
        same = first.path.stat().st_size == second.path.stat().st_size and sha256_of(first.path) == sha256_of(
            second.path
        )
    except OSError:
        same = False
    reason, words = (
        ("duplicate_file", "same content as") if same else ("duplicate_name", "same name but other content than")
    )
    return LedgerEntry(file=second.label, state="dropped", reason=reason, detail=f"{words} {first.label}")
