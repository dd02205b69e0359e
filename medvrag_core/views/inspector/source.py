"""The seam of the inspector: where cases come from, and the addresses by which the browser asks for them."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable

from medvrag_core.errors import InputError
from medvrag_core.records import Record
from medvrag_core.views.inspector.records import ArmRows, Case, Catalog, FilterExchanges, PageSheet, QueryMaps

CATALOG = "catalog"
_CASE = re.compile(r"(cases|filters)/(\d{1,6})-(\d{1,9})")
_NUMBERED = re.compile(r"(arms|sheets|thumbs|images)/(\d{1,9})(?:\.[a-z]{3,4})?")
_MAPS = re.compile(r"maps/([0-9a-f]{16})")


class CaseSource(ABC):
    """Stored cases as the browser asks for them; arms, cases and pages go by number, from 0.

    Every method raises InputError for a number or key that there is not.
    """

    @abstractmethod
    def catalog(self) -> Catalog:
        """All arms of all runs."""

    @abstractmethod
    def rows(self, arm: int) -> ArmRows:
        """The cases of one arm."""

    @abstractmethod
    def case(self, arm: int, number: int) -> Case:
        """One case in full."""

    @abstractmethod
    def filters(self, arm: int, number: int) -> FilterExchanges:
        """What the filter asked a model in a case, and what came back."""

    @abstractmethod
    def maps(self, key: str) -> QueryMaps:
        """Shadings of the pages of one round; the key stands in a case that was asked for before."""

    @abstractmethod
    def sheet(self, page: int) -> PageSheet:
        """Words and patches of a page."""

    @abstractmethod
    def thumbnail(self, page: int) -> bytes:
        """A small picture of a page."""

    @abstractmethod
    def image(self, page: int) -> bytes:
        """The picture of a page to look at closely."""


def rows_address(arm: int) -> str:
    """Where the list of an arm is found."""
    return f"arms/{arm}"


def case_address(arm: int, number: int) -> str:
    """Where a case is found."""
    return f"cases/{arm}-{number}"


def filters_address(arm: int, number: int) -> str:
    """Where the calls of the filter in a case are found."""
    return f"filters/{arm}-{number}"


def fetch(source: CaseSource, address: str) -> Record | bytes:
    """What lies at an address: a record, or the bytes of an image.

    Raises
    ------
    InputError : nothing does
    """
    if address == CATALOG:
        return source.catalog()
    if found := _CASE.fullmatch(address):
        way = source.case if found[1] == "cases" else source.filters
        return way(int(found[2]), int(found[3]))
    if found := _MAPS.fullmatch(address):
        return source.maps(found[1])
    if found := _NUMBERED.fullmatch(address):
        ways: dict[str, Callable[[int], Record | bytes]] = {
            "arms": source.rows,
            "sheets": source.sheet,
            "thumbs": source.thumbnail,
            "images": source.image,
        }
        return ways[found[1]](int(found[2]))
    raise InputError(f"the inspector knows no address '{address[:80]}'", way_out="make the cases anew")
