"""Two services of NCBI: the search of PubMed Central, and the converter from PMIDs and DOIs to PMCIDs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from medvrag_core.corpus.pmc.client import FetchError, PmcClient
from medvrag_core.corpus.pmc.ids import ArticleId, IdKind, parse_id, pmcid
from medvrag_core.corpus.pmc.refusal import RefusedError
from medvrag_core.errors import InputError, SettingsError
from medvrag_core.records import LedgerEntry
from medvrag_core.settings.pmc import PmcSettings, is_loopback

SEARCH_PAGE = 10_000
"""Most ids that E-utilities give at once."""
CONVERTED_AT_ONCE = 200
_MOST_BYTES = 16 << 20


async def search(client: PmcClient, query: str, most: int) -> tuple[list[ArticleId], int]:
    """The first ``most`` open-access articles that a query finds, in the order of the search, and how many it found.

    The list comes in pages; an article that moved to another page meanwhile counts once.

    Raises
    ------
    InputError : the search does not understand the query, or finds nothing
    FetchError : no usable answer
    """
    term = f"({query}) AND open_access[filter]"
    parameters = {"db": "pmc", "term": term, "retmode": "json"} | named(client.settings)
    address = client.settings.eutils.rstrip("/") + "/esearch.fcgi"
    found: dict[ArticleId, None] = {}
    total, start = 1, 0
    while start < total and len(found) < most:
        page = min(SEARCH_PAGE, most)
        asked = parameters | {"retstart": str(start), "retmax": str(page)}
        result = _json(await client.get(address, asked, most_bytes=_MOST_BYTES), address).get("esearchresult")
        if not isinstance(result, dict):
            raise FetchError("fetch_rejected", f"{address}: the answer holds no search result")
        _require_understood(result, query)
        try:
            total, ids = int(result["count"]), [pmcid(str(number)) for number in result["idlist"]]
        except (KeyError, TypeError, ValueError):
            raise FetchError("fetch_rejected", f"{address}: the answer holds no list of ids") from None
        if not ids:
            break
        found |= dict.fromkeys(ids)
        start += page
    if not found:
        raise InputError(
            f"pmc:{query}: finds no open-access article in PubMed Central", way_out="try the query on its web page"
        )
    return list(found)[:most], total


async def to_pmcids(
    client: PmcClient, ids: Sequence[ArticleId]
) -> tuple[dict[ArticleId, ArticleId], list[LedgerEntry]]:
    """PMCIDs of PMIDs and DOIs, and an entry of the ledger for each that has none; PMCIDs stay as they are.

    One request holds up to 200 ids of one kind. The converter knows only articles in PubMed Central.

    Raises
    ------
    FetchError : no usable answer
    """
    converted = {identifier: identifier for identifier in ids if identifier.kind == "pmcid"}
    entries: list[LedgerEntry] = []
    kinds: tuple[IdKind, ...] = ("pmid", "doi")
    for kind in kinds:
        asked = [identifier for identifier in ids if identifier.kind == kind]
        for start in range(0, len(asked), CONVERTED_AT_ONCE):
            for identifier, answer in (await _convert(client, asked[start : start + CONVERTED_AT_ONCE])).items():
                if isinstance(answer, RefusedError):
                    entries.append(answer.entry(str(identifier)))
                else:
                    converted[identifier] = answer
    return converted, entries


async def _convert(client: PmcClient, ids: Sequence[ArticleId]) -> dict[ArticleId, ArticleId | RefusedError]:
    asked = {"ids": ",".join(x.value for x in ids), "idtype": ids[0].kind, "format": "json", "versions": "no"}
    address = client.settings.converter
    try:
        answer = _json(await client.get(address, asked | named(client.settings), most_bytes=_MOST_BYTES), address)
    except FetchError as error:
        if error.reason != "fetch_rejected" or "status 400" not in error.problem:
            raise
        # One id that the converter dislikes spoils the whole request; halves find it.
        if len(ids) == 1:
            return {ids[0]: RefusedError("not_an_id", f"{ids[0]}: the id converter does not take it")}
        middle = len(ids) // 2
        return await _convert(client, ids[:middle]) | await _convert(client, ids[middle:])
    records = answer.get("records")
    told = {
        str(record.get("requested-id", "")).lower(): record
        for record in (records if isinstance(records, list) else [])
        if isinstance(record, dict)
    }
    return {identifier: _answered(identifier, told.get(identifier.value.lower())) for identifier in ids}


def _answered(identifier: ArticleId, record: Mapping[str, Any] | None) -> ArticleId | RefusedError:
    try:
        found = parse_id(str((record or {}).get("pmcid") or ""))
    except RefusedError:
        found = None
    if found is None or found.kind != "pmcid":
        return RefusedError("not_in_pmc", f"{identifier}: no article of PubMed Central has this id")
    return pmcid(found.number)


def named(settings: PmcSettings) -> dict[str, str]:
    """Who asks: NCBI wants the name of the tool and an address of its user with every request.

    Raises
    ------
    SettingsError : ``email`` is empty, and the services are not on this machine
    """
    if not settings.email and not (is_loopback(settings.eutils) and is_loopback(settings.converter)):
        raise SettingsError(
            "corpus.pmc.email is empty, and NCBI asks for an address that it can write to before it blocks a program",
            way_out="--set corpus.pmc.email=you@example.org",
        )
    return {"tool": settings.tool} | ({"email": settings.email} if settings.email else {})


def _require_understood(result: Mapping[str, Any], query: str) -> None:
    """A query that is not understood comes back with status 200, and may come back with other results than meant."""
    error = result.get("ERROR")
    errors, warnings = result.get("errorlist"), result.get("warninglist")
    missed = [
        *_list(errors, "phrasesnotfound"),
        *_list(errors, "fieldsnotfound"),
        *_list(warnings, "quotedphrasesnotfound"),
    ]
    if error or missed:
        said = str(error)[:200] if error else "not found: " + ", ".join(str(x)[:80] for x in missed[:5])
        raise InputError(f"pmc:{query}: the search of PubMed Central says: {said}", way_out="correct the query")


def _list(told: Any, name: str) -> list[Any]:
    found = told.get(name) if isinstance(told, dict) else None
    return found if isinstance(found, list) else []


def _json(body: bytes, address: str) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise FetchError("fetch_rejected", f"{address}: the answer is no JSON object")
    return value
