"""One article: fetched into its folder of the cache, or found there whole; and what is known of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from medvrag_core.corpus.licences import Licence, parsed_licence, stored_text
from medvrag_core.corpus.pmc.bucket import (
    ArticleMetadata,
    StoredFile,
    fetch_metadata,
    newest_version,
    parsed_metadata,
    require_usable,
    stored_file,
)
from medvrag_core.corpus.pmc.client import FetchError, PmcClient, md5_of
from medvrag_core.corpus.pmc.ids import ArticleId, pmcid
from medvrag_core.corpus.pmc.jats import LARGEST as LARGEST_JATS
from medvrag_core.corpus.pmc.jats import JatsHead, facts_of, printable_line, read_jats
from medvrag_core.corpus.pmc.licence import licence_of, require_allowed
from medvrag_core.corpus.pmc.refusal import RefusedError
from medvrag_core.corpus.source import SourceDocument, SourceFacts
from medvrag_core.records import LedgerEntry, Record
from medvrag_core.runs.publish import write_bytes, write_text

NETWORK_FAULTS = frozenset({"fetch_failed", "fetch_rejected"})
"""Reasons that say nothing about an article."""


class FetchedArticle(Record):
    """The side file of a fetched article (``PMC123.2.source.json``): what it is, whose, under which licence."""

    article_id: str
    file: str
    md5: str
    facts: SourceFacts


@dataclass(frozen=True)
class Fetched:
    """A usable article with what the ledger must tell about it."""

    document: SourceDocument
    entries: tuple[LedgerEntry, ...] = ()


async def fetch_article(client: PmcClient, asked: ArticleId, cache: Path) -> Fetched:
    """Fetch what is missing of one article, in the order of cost: metadata, JATS, PDF.

    A cache is a snapshot: what was the newest version stays it, and a corpus made from the cache again is the same.
    Files are checked by their digests each time. Delete the folder of an article to have it looked at anew.

    Raises
    ------
    RefusedError : the article is left out, see :func:`~medvrag_core.corpus.pmc.bucket.require_usable`
    FetchError : a file could not be had
    """
    home = cache / "articles" / asked.value
    version = asked if asked.version else await _newest(client, home, asked)
    metadata = await _metadata(client, home, version)
    require_usable(metadata, client.settings)
    head, entries = await _jats(client, home, version, metadata)
    if head.retracted:
        raise RefusedError("retracted", f"{version}: its JATS file names the notice of its retraction")
    licence = licence_of(metadata.license_code, head.licence_link, head.licence_sentence)
    require_allowed(licence, client.settings)
    file, target = stored_file(metadata.pdf_url, version, client.settings), home / f"{version}.pdf"
    if not _is_there(target, file):
        most = client.settings.max_file_mb << 20
        await client.download(file.address, target, md5=file.md5, most_bytes=most, pdf=True)
    facts = _facts(version, metadata, head, licence)
    side = FetchedArticle(article_id=version.value, file=target.name, md5=file.md5, facts=facts)
    path, text = home / f"{version}.source.json", side.model_dump_json(indent=1) + "\n"
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        write_text(path, text)
    return Fetched(SourceDocument(version.value, target, ledger_name(version), facts), entries)


def ledger_name(version: ArticleId) -> str:
    """What the PDF of an article is called in the ledger; the version stands with the article."""
    return f"{version.value}.pdf"


def article_address(version: ArticleId) -> str:
    """Where people read an article.

    >>> article_address(pmcid(123, 2))
    'https://pmc.ncbi.nlm.nih.gov/articles/PMC123.2/'
    """
    return f"https://pmc.ncbi.nlm.nih.gov/articles/{version}/"


async def _newest(client: PmcClient, home: Path, asked: ArticleId) -> ArticleId:
    """The version that was the newest when the cache was asked for it first; older ones may lie beside it."""
    path = home / "newest"
    known = re.fullmatch(r"([1-9][0-9]*)\n", path.read_text(encoding="utf-8")) if path.is_file() else None
    if known:
        return pmcid(asked.number, int(known.group(1)))
    version = await newest_version(client, asked)
    write_text(path, f"{version.version}\n")
    return version


async def _metadata(client: PmcClient, home: Path, version: ArticleId) -> ArticleMetadata:
    path = home / f"{version}.json"
    if path.is_file():
        return parsed_metadata(path.read_bytes(), version)
    data = await fetch_metadata(client, version)
    metadata = parsed_metadata(data, version)
    write_bytes(path, data)
    return metadata


async def _jats(
    client: PmcClient, home: Path, version: ArticleId, metadata: ArticleMetadata
) -> tuple[JatsHead, tuple[LedgerEntry, ...]]:
    """The head of the JATS file; without a usable one an empty head, and an entry that says so."""
    try:
        if not metadata.xml_url:
            raise RefusedError("no_jats", "PubMed Central offers none")
        file, target = stored_file(metadata.xml_url, version, client.settings), home / f"{version}.xml"
        if not _is_there(target, file):
            await client.download(file.address, target, md5=file.md5, most_bytes=LARGEST_JATS)
        head = read_jats(target.read_bytes())
        if head.pmcid not in ("", version.value):
            raise RefusedError("no_jats", f"the file speaks of {head.pmcid}")
    except FetchError as error:
        if error.reason in NETWORK_FAULTS:
            raise
        problem = error.problem
    except RefusedError as refused:
        problem = refused.detail
    else:
        return head, ()
    detail = f"no usable JATS file, so that no licence sentence is known: {problem}"
    return JatsHead(), (LedgerEntry(file=ledger_name(version), state="changed", reason="no_jats", detail=detail),)


def _is_there(path: Path, file: StoredFile) -> bool:
    return path.is_file() and md5_of(path) == file.md5


def _facts(version: ArticleId, metadata: ArticleMetadata, head: JatsHead, licence: Licence) -> SourceFacts:
    """From the JATS file; what it leaves open comes from the metadata."""
    address = article_address(version)
    if head == JatsHead():
        # No attribution: the corpus then holds the licence against what the first and last pages say.
        named = parsed_licence(metadata.license_code)
        told = SourceFacts(licence=stored_text(named), licence_url=named.link, source_url=address)
    else:
        told = facts_of(head, licence, address)
    return told.model_copy(
        update={
            "version": version.version,
            "title": told.title or printable_line(metadata.title, 400),
            "doi": told.doi or printable_line(metadata.doi, 200).lower(),
            "pmid": told.pmid or (metadata.pmid if metadata.pmid.isdecimal() else ""),
        }
    )
