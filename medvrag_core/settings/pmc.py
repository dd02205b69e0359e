"""Which articles of PubMed Central become a corpus, and how they are fetched."""

from __future__ import annotations

from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from medvrag_core.settings.base import StageSettings

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
"""Hosts that may be spoken to without encryption, since nothing leaves the machine."""


class PmcSettings(StageSettings):
    """Articles of the PMC Article Datasets: at most one of ``query``, ``ids_file`` and ``inventory`` selects them."""

    query: str = Field("", description="in the language of PubMed Central's search; open access is asked for anyway")
    ids_file: str = Field("", description="a PMCID, PMID or DOI a line; `PMC123.2` asks for exactly that version")
    inventory: str = Field(
        "", description="`latest` or a date folder of the bucket, or a manifest.json or shard (.csv.gz) on this machine"
    )
    licences: Literal["commercial", "non-commercial"] | tuple[str, ...] = Field(
        "non-commercial",
        description="non-commercial: any Creative Commons licence; commercial: those without NC; or a list of licences",
    )
    most_articles: int = Field(1_000, ge=1, description="of a query or an inventory; an ids file is taken whole")
    email: str = Field(
        "",
        pattern=r"^([^@\s]+@[^@\s]+)?$",
        description="sent to E-utilities and the id converter, as NCBI asks; saved with the run",
    )
    tool: str = Field("medvrag", pattern=r"^[\w.-]{1,40}$", description="name of this program for the same")
    requests_per_second: float = Field(3.0, gt=0, description="to E-utilities and the id converter (NCBI's limit: 3)")
    bucket_requests_per_second: float = Field(20.0, gt=0)
    parallel: int = Field(4, ge=1, le=32, description="articles fetched side by side")
    attempts: int = Field(5, ge=1, description="for each file, with pauses that grow")
    seconds_per_file: float = Field(300.0, gt=0, description="wall-clock limit for one try")
    max_file_mb: int = Field(256, ge=1, description="largest PDF that is fetched")
    cache: str = Field("", description="folder of fetched files; empty: `pmc` in MEDVRAG_CACHE (~/.cache/medvrag)")
    bucket: str = "https://pmc-oa-opendata.s3.amazonaws.com"
    eutils: str = "https://eutils.ncbi.nlm.nih.gov/entrez/eutils"
    converter: str = "https://pmc.ncbi.nlm.nih.gov/tools/idconv/api/v1/articles/"

    @field_validator("bucket", "eutils", "converter")
    @classmethod
    def _safe_address(cls, value: str) -> str:
        parts = urlsplit(value)
        if parts.username or parts.password or parts.query:
            raise ValueError("an address must not hold a user, a password or a query")
        if not parts.hostname or (parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(value))):
            raise ValueError("an address starts with https://, or with http:// on this machine")
        return value


def is_loopback(address: str) -> bool:
    """Whether an address names this machine.

    >>> is_loopback("http://127.0.0.1:8000/x"), is_loopback("https://localhost.example.org")
    (True, False)
    """
    return urlsplit(address).hostname in LOOPBACK
