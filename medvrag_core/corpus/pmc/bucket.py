"""The bucket of the PMC Article Datasets: versions of an article, metadata of the newest, and what is required of it.

One prefix an article version (``PMC123.2/``) holds JSON, JATS, text and, where the licence allows, the PDF. The bucket
mixes open-access articles with author manuscripts and historical scans, so that being there proves nothing.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit
from xml.etree.ElementTree import Element, ParseError

from pydantic import ConfigDict, field_validator

from medvrag_core.corpus.licences import parsed_licence
from medvrag_core.corpus.pmc.client import FetchError, PmcClient
from medvrag_core.corpus.pmc.ids import ArticleId, pmcid
from medvrag_core.corpus.pmc.licence import require_allowed
from medvrag_core.corpus.pmc.refusal import RefusedError
from medvrag_core.errors import InputError
from medvrag_core.records import Record
from medvrag_core.settings.pmc import PmcSettings

BUCKET = "pmc-oa-opendata"
_LISTING_BYTES = 8 << 20
_METADATA_BYTES = 4 << 20
_MOST_PAGES = 100


class ArticleMetadata(Record):
    """The JSON of one article version, as far as it is used; fields that NCBI adds are no fault."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    pmcid: str
    version: int
    pmid: str = ""
    doi: str = ""
    title: str = ""
    citation: str = ""
    is_pmc_openaccess: bool
    is_retracted: bool
    is_manuscript: bool = False
    license_code: str = ""
    pdf_url: str = ""
    xml_url: str = ""

    @field_validator("pmid", "doi", "title", "citation", "license_code", "pdf_url", "xml_url", mode="before")
    @classmethod
    def _text(cls, value: Any) -> Any:
        """Unknown is null there, and a PMID is a number."""
        return "" if value is None else str(value) if isinstance(value, int) else value


class StoredFile(Record):
    """A file of the bucket: its address and the digest that its metadata promises."""

    address: str
    md5: str


async def newest_version(client: PmcClient, article: ArticleId) -> ArticleId:
    """The newest version of an article: the highest number, so 10 comes after 9.

    Raises
    ------
    RefusedError : ``not_in_pmc``: the bucket holds no version of it
    FetchError : no usable answer
    """
    found = [version async for version in _versions(client, article)]
    if not found:
        raise RefusedError(
            "not_in_pmc",
            f"{article}: not among the PMC article datasets; if it is a PMID, write PMID:{article.number}",
        )
    return pmcid(article.number, max(found))


async def _versions(client: PmcClient, article: ArticleId) -> Any:
    # The dot ends the number: without it PMC12 would be among the versions of PMC1.
    prefix = f"{article.value}."
    asked = {"list-type": "2", "delimiter": "/", "prefix": prefix}
    for _ in range(_MOST_PAGES):
        root = parsed_xml(await client.get(client.settings.bucket + "/", asked, most_bytes=_LISTING_BYTES))
        for element in root.iterfind("{*}CommonPrefixes/{*}Prefix"):
            if found := re.fullmatch(re.escape(prefix) + r"([1-9]\d{0,5})/", (element.text or "").strip()):
                yield int(found.group(1))
        token = root.findtext("{*}NextContinuationToken")
        if root.findtext("{*}IsTruncated", "").strip() != "true" or not token:
            return
        asked["continuation-token"] = token
    raise FetchError("fetch_rejected", f"{client.settings.bucket}: the list of versions of {article.value} has no end")


async def fetch_metadata(client: PmcClient, version: ArticleId) -> bytes:
    """The JSON of one version.

    Raises
    ------
    RefusedError : ``not_in_pmc``: there is no such version
    FetchError : no usable answer
    """
    try:
        data = await client.get(f"{client.settings.bucket}/metadata/{version}.json", most_bytes=_METADATA_BYTES)
    except FetchError as error:
        if error.reason == "missing_file":
            raise RefusedError("not_in_pmc", f"{version}: no such version among the PMC article datasets") from None
        raise
    if not data.lstrip().startswith(b"{"):
        # As from a gate in between that wants a login; the article is not to blame.
        raise FetchError("fetch_rejected", f"metadata of {version}: the answer is no JSON object")
    return data


def parsed_metadata(data: bytes, version: ArticleId) -> ArticleMetadata:
    """The metadata of a version; raises RefusedError ``bad_metadata`` where it is damaged or speaks of another one."""
    try:
        found = ArticleMetadata.from_json(data, source=f"metadata of {version}")
    except InputError as error:
        raise RefusedError("bad_metadata", str(error)) from None
    if f"{found.pmcid}.{found.version}" != str(version):
        raise RefusedError("bad_metadata", f"metadata of {version} speaks of {found.pmcid[:20]}.{found.version}")
    return found


def require_usable(metadata: ArticleMetadata, settings: PmcSettings) -> None:
    """What can be said before anything else is fetched: open access, not retracted, a PDF, a licence that may do.

    Raises
    ------
    RefusedError : ``not_open_access``, ``retracted``, ``no_pdf`` or ``licence_not_allowed``
    """
    if not metadata.is_pmc_openaccess:
        what = "an author manuscript" if metadata.is_manuscript else "not in the open access subset"
        raise RefusedError("not_open_access", f"{metadata.pmcid}: {what}")
    if metadata.is_retracted:
        raise RefusedError("retracted", f"{metadata.pmcid}: the article was retracted")
    if not metadata.pdf_url:
        raise RefusedError("no_pdf", f"{metadata.pmcid}: PubMed Central offers no PDF of it")
    if metadata.license_code:
        require_allowed(parsed_licence(metadata.license_code), settings, metadata.license_code)


def stored_file(url: str, version: ArticleId, settings: PmcSettings) -> StoredFile:
    """Where a file named in the metadata (``s3://…?md5=…``) is had by HTTPS; it must lie under its own version.

    Raises
    ------
    RefusedError : ``bad_metadata`` for any other place, ``no_checksum`` where nothing would prove the file whole
    """
    try:
        parts = urlsplit(url)
        key, md5 = parts.path.lstrip("/"), parse_qs(parts.query).get("md5", [""])[0]
    except ValueError:
        raise RefusedError("bad_metadata", f"{version}: an address that cannot be read") from None
    inside = key.startswith(f"{version}/") and not {"", ".", ".."} & set(key.split("/"))
    if parts.scheme != "s3" or parts.netloc != BUCKET or not inside or not key.isprintable():
        raise RefusedError("bad_metadata", f"{version}: names a file elsewhere ({url[:100]!r})")
    if not re.fullmatch(r"[0-9a-fA-F]{32}", md5):
        raise RefusedError("no_checksum", f"{version}: the metadata promises no md5 of {key}")
    return StoredFile(address=f"{settings.bucket}/{quote(key, safe='/')}", md5=md5.lower())


def parsed_xml(data: bytes) -> Element:
    """An XML answer without entities of its own; raises FetchError for anything else."""
    from defusedxml.common import DefusedXmlException
    from defusedxml.ElementTree import fromstring

    try:
        root: Element = fromstring(data, forbid_dtd=True)
    except (ParseError, DefusedXmlException, ValueError, LookupError) as error:
        raise FetchError("fetch_rejected", f"the bucket's answer is no XML list ({type(error).__name__})") from None
    return root
