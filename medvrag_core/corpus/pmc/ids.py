"""PMCIDs, PMIDs and DOIs as people write them; a bare number is never guessed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import unquote

from medvrag_core.corpus.pmc.refusal import RefusedError
from medvrag_core.errors import InputError
from medvrag_core.records import LedgerEntry

IdKind = Literal["pmcid", "pmid", "doi"]

_LARGEST_FILE = 64 << 20
_FLAGS = re.IGNORECASE | re.ASCII
_PMCID = re.compile(r"(?:PMCID:\s*)?PMC0*(\d{1,9})(?:\.0*(\d{1,5}))?", _FLAGS)
_PMID = re.compile(r"PMID:\s*0*(\d{1,9})", _FLAGS)
_DOI = re.compile(r"(?:doi:\s*)?(10\.\d{4,9}(?:\.\d+)*/[\x21-\x7e]{1,500})", _FLAGS)
_DOI_ADDRESS = re.compile(r"https?://(?:dx\.)?doi\.org/(.+)", _FLAGS)
_PUBMED_ADDRESS = re.compile(r"https?://pubmed\.ncbi\.nlm\.nih\.gov/(\d+)/?", _FLAGS)
_PMC_ADDRESS = re.compile(
    r"https?://(?:pmc\.ncbi\.nlm\.nih\.gov|(?:www\.)?ncbi\.nlm\.nih\.gov/pmc)/articles/(PMC\d+(?:\.\d+)?)/?",
    _FLAGS,
)


@dataclass(frozen=True)
class ArticleId:
    """One id: ``value`` is ``PMC123``, the digits of a PMID, or a DOI in lower case.

    ``version`` is that of a PMCID with one (``PMC123.2``), else 0, which means the newest.
    """

    kind: IdKind
    value: str
    version: int = 0

    @property
    def number(self) -> int:
        """The number of a PMCID."""
        return int(self.value.removeprefix("PMC"))

    def __str__(self) -> str:
        if self.kind == "pmid":
            return f"PMID:{self.value}"
        return f"{self.value}.{self.version}" if self.version else self.value


def pmcid(number: int | str, version: int = 0) -> ArticleId:
    """The PMCID of a number."""
    return ArticleId("pmcid", f"PMC{int(number)}", version)


def parse_id(text: str) -> ArticleId:
    """Read one id, or the address of an article at PubMed Central, PubMed or doi.org.

    Raises
    ------
    RefusedError : ``looks_like_pmid`` for a bare number, ``not_an_id`` for anything else that is none

    >>> str(parse_id("pmc0005502154")), str(parse_id("PMID: 29000001")), str(parse_id("https://doi.org/10.1000/ABC%2F1"))
    ('PMC5502154', 'PMID:29000001', '10.1000/abc/1')
    """
    text = text.strip()
    if found := _PMC_ADDRESS.fullmatch(text):
        text = found.group(1)
    elif found := _PUBMED_ADDRESS.fullmatch(text):
        text = f"PMID:{found.group(1)}"
    elif found := _DOI_ADDRESS.fullmatch(text):
        text = unquote(found.group(1))
    if (found := _PMCID.fullmatch(text)) and int(found.group(1)) and (found.group(2) is None or int(found.group(2))):
        return pmcid(found.group(1), int(found.group(2) or 0))
    if (found := _PMID.fullmatch(text)) and int(found.group(1)):
        return ArticleId("pmid", str(int(found.group(1))))
    if found := _DOI.fullmatch(text):
        if "," in text:
            raise RefusedError("not_an_id", f"{text}: the id converter takes no DOI with a comma; give the PMCID")
        return ArticleId("doi", found.group(1).lower())
    if re.fullmatch(r"[0-9]{1,9}", text):
        raise RefusedError(
            "looks_like_pmid",
            f"{text} looks like a PMID, but may be a PMCID without its letters: write PMID:{text} or PMC{text}",
        )
    raise RefusedError("not_an_id", f"'{text[:80]}' is no PMCID (PMC123), no PMID (PMID:123) and no DOI (10.…/…)")


def parse_ids(lines: Sequence[str], source: str) -> tuple[tuple[ArticleId, ...], tuple[LedgerEntry, ...]]:
    """Ids in their order, each once, with an entry of the ledger for every line that is none or a repetition.

    Empty lines, and what follows a ``#`` that starts a line or stands behind white space, do not count.
    """
    first: dict[ArticleId, int] = {}
    entries: list[LedgerEntry] = []
    for number, line in enumerate(lines, 1):
        text = re.sub(r"(?:^|\s)#.*", "", line).strip()
        if not text:
            continue
        try:
            found = parse_id(text)
            if found in first:
                raise RefusedError("duplicate_id", f"the same as line {first[found]}")
        except RefusedError as refused:
            detail = f"{source} line {number}: {refused.detail}"
            entries.append(RefusedError(refused.reason, detail).entry(_shown(text)))
        else:
            first[found] = number
    return tuple(first), tuple(entries)


def read_ids(path: Path) -> tuple[tuple[ArticleId, ...], tuple[LedgerEntry, ...]]:
    """Ids of a file, one a line; see :func:`parse_ids`.

    Raises
    ------
    InputError : the file is missing, larger than 64 MiB, no UTF-8, or holds no line that is an id
    """
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise InputError(f"{path}: larger than {_LARGEST_FILE >> 20} MiB", way_out="split the list")
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})", way_out="name a file of ids") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: is no UTF-8 text", way_out="give one PMCID, PMID or DOI a line") from None
    ids, entries = parse_ids(text.splitlines(), path.name)
    if not ids:
        raise InputError(
            f"{path}: holds no usable id" + (f" ({entries[0].detail})" if entries else ""),
            way_out="give one PMCID (PMC123), PMID (PMID:123) or DOI a line",
        )
    return ids, entries


def _shown(text: str) -> str:
    return "".join(c if c.isprintable() else "_" for c in text)[:120]
