from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from medvrag_core.corpus.pmc.client import FetchError, PmcClient
from medvrag_core.corpus.pmc.eutils import search, to_pmcids
from medvrag_core.corpus.pmc.ids import ArticleId, parse_id, pmcid
from medvrag_core.errors import InputError, SettingsError
from medvrag_core.models.event_loop import run_async
from medvrag_core.settings.pmc import PmcSettings

Make = Callable[..., PmcSettings]


def found(settings: PmcSettings, query: str = "gout", most: int = 100) -> tuple[list[ArticleId], int]:
    async def work() -> tuple[list[ArticleId], int]:
        async with PmcClient(settings) as client:
            return await search(client, query, most)

    return run_async(work())


def converted(settings: PmcSettings, *ids: str) -> tuple[dict[str, str], dict[str, str]]:
    async def work() -> Any:
        async with PmcClient(settings) as client:
            return await to_pmcids(client, [parse_id(text) for text in ids])

    known, entries = run_async(work())
    return {str(a): str(b) for a, b in known.items()}, {entry.file: entry.reason for entry in entries}


def test_a_search_comes_in_pages(pmc: Any, settings: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medvrag_core.corpus.pmc.eutils.SEARCH_PAGE", 3)
    pmc.found = [8, 7, 6, 5, 4, 3, 2]
    assert found(settings()) == ([pmcid(n) for n in pmc.found], 7)
    assert pmc.asked("esearch") == 3
    assert found(settings(), most=4) == ([pmcid(n) for n in (8, 7, 6, 5)], 7)


def test_an_article_that_moved_between_pages_counts_once(
    pmc: Any, settings: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("medvrag_core.corpus.pmc.eutils.SEARCH_PAGE", 2)
    pmc.found = [4, 3, 3, 2]
    assert found(settings())[0] == [pmcid(4), pmcid(3), pmcid(2)]


def test_a_list_that_is_shorter_than_told_ends(pmc: Any, settings: Make) -> None:
    pmc.found, pmc.search_says = [1, 2], {"count": "50000"}
    assert found(settings(), most=20_000) == ([pmcid(1), pmcid(2)], 50_000)


@pytest.mark.parametrize(
    ("says", "said"),
    [
        ({"ERROR": "Invalid syntax near AND"}, "Invalid syntax"),
        ({"errorlist": {"phrasesnotfound": ["xyzzy"], "fieldsnotfound": []}}, "not found: xyzzy"),
        ({"errorlist": {"phrasesnotfound": [], "fieldsnotfound": ["foo"]}}, "not found: foo"),
        ({"warninglist": {"quotedphrasesnotfound": ['"a b"']}}, "not found"),
        ({"idlist": [], "count": "0"}, "finds no open-access article"),
    ],
)
def test_a_query_that_is_not_understood_is_an_error_though_the_status_is_200(
    pmc: Any, settings: Make, says: dict[str, Any], said: str
) -> None:
    pmc.found, pmc.search_says = [1], says
    with pytest.raises(InputError, match=said):
        found(settings())


@pytest.mark.parametrize("body", ["<html>busy</html>", "[]", "{}", '{"esearchresult": {"count": "x", "idlist": [1]}}',
                                  '{"esearchresult": {"count": "2", "idlist": ["PMCx"]}}', "[" * 100_000])  # fmt: skip
def test_answers_that_are_no_search_are_told(pmc: Any, settings: Make, body: str) -> None:
    pmc.fail("esearch", f"body:{body}")
    with pytest.raises(FetchError):
        found(settings())


def test_ids_are_converted_by_kind_two_hundred_at_once(pmc: Any, settings: Make) -> None:
    pmc.converted = {str(n): f"PMC{n + 1}" for n in range(1, 451)} | {"10.1000/a": "PMC9"}
    known, refused = converted(settings(), *(f"PMID:{n}" for n in range(1, 451)), "10.1000/A", "PMC5.2", "PMID:999")
    assert refused == {"PMID:999": "not_in_pmc"}
    assert (known["PMID:450"], known["10.1000/a"], known["PMC5.2"]) == ("PMC451", "PMC9", "PMC5.2")
    asked = [path for path, _ in pmc.requests if "idconv" in path]
    assert [("idtype=pmid" in path, "idtype=doi" in path) for path in asked] == [(True, False)] * 3 + [(False, True)]
    assert all("email=someone@example.org" in path for path in asked)


def test_one_id_that_the_converter_dislikes_does_not_spoil_the_others(pmc: Any, settings: Make) -> None:
    pmc.converted = {str(n): f"PMC{n}" for n in range(1, 10)}
    pmc.fail("7", "status:400")
    known, refused = converted(settings(), *(f"PMID:{n}" for n in range(1, 10)))
    assert refused == {"PMID:7": "not_an_id"}
    assert len(known) == 8


@pytest.mark.parametrize("pmcid_told", [None, "", "19000001", "doi:10.1000/x", 5])
def test_a_converter_that_answers_nonsense_converts_nothing(pmc: Any, settings: Make, pmcid_told: Any) -> None:
    pmc.converted = {"1": pmcid_told}
    assert converted(settings(), "PMID:1") == ({}, {"PMID:1": "not_in_pmc"})


def test_no_message_holds_the_address_of_the_user(pmc: Any, settings: Make) -> None:
    for kind in ("status:500", "redirect:https://example.org/x?email=someone@example.org", "body:no"):
        pmc.faults.clear()
        pmc.fail("esearch", kind)
        with pytest.raises(FetchError) as error:
            found(settings(attempts=1))
        assert "someone" not in str(error.value)


def test_ncbi_is_not_asked_without_an_address_to_write_to() -> None:
    with pytest.raises(SettingsError, match="email is empty"):
        found(PmcSettings(query="gout"))
