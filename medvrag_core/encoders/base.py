"""The seam between pages and vectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

import numpy as np
from numpy.typing import NDArray

from medvrag_core.encoders.identity import EncoderIdentity
from medvrag_core.records import Page, PageLayout, PageVectors


@dataclass(frozen=True)
class PageInput:
    """What an encoder may look at: the page record, its words and regions, its image file."""

    page: Page
    layout: PageLayout
    image: Path


class PageInputs(Sequence[PageInput]):
    """A sequence that makes each input when it is asked for, since the words of a whole corpus are many records.

    Parameters
    ----------
    count : length
    make : from a place to its input
    """

    def __init__(self, count: int, make: Callable[[int], PageInput]) -> None:
        self._places = range(count)
        self._make = make

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, which: int) -> PageInput: ...

    @overload
    def __getitem__(self, which: slice) -> Sequence[PageInput]: ...

    def __getitem__(self, which: int | slice) -> PageInput | Sequence[PageInput]:
        """One input, or a sequence of the same kind for a slice."""
        if isinstance(which, slice):
            part = self._places[which]
            return PageInputs(len(part), lambda place: self._make(part[place]))
        return self._make(self._places[which])


def at_places(pages: Sequence[PageInput], places: Sequence[int]) -> PageInputs:
    """Some of the pages, in the order of ``places``."""
    return PageInputs(len(places), lambda number: pages[places[number]])


class PageEncoder(ABC):
    """Turns pages and queries into sets of unit vectors of one width.

    A vector set is scored against another by late interaction (``index.maxsim``); the rows of
    one page are told apart by the boxes they stand for.
    """

    dim: int

    @property
    @abstractmethod
    def identity(self) -> EncoderIdentity:
        """What decides the vectors of a page or a query; the same before and after :meth:`fit` and :meth:`load`."""

    @property
    def fingerprint(self) -> str:
        """Changes whenever the same page or query would get other vectors."""
        return self.identity.fingerprint

    def fit(self, pages: Sequence[PageInput]) -> None:
        """Learn corpus statistics (mean, projection, document frequencies); nothing by default.

        ``pages`` are made one by one when they are asked for; whoever keeps them all fills the memory.
        """

    def save(self, folder: Path) -> None:
        """Store what :meth:`fit` learned, without pickling; nothing by default."""

    def load(self, folder: Path) -> None:
        """Read what :meth:`save` wrote."""

    @abstractmethod
    def encode_pages(self, pages: Iterable[PageInput]) -> Iterator[PageVectors]:
        """Yield one :class:`PageVectors` a page, in the order given; each has at least one row."""

    @abstractmethod
    def encode_query(self, text: str) -> NDArray[np.float32]:
        """Token vectors of a query, float32, shape (m, dim), m >= 1, rows of unit length."""

    def query_words(self, text: str) -> tuple[str, ...]:
        """What each row of :meth:`encode_query` stands for, to be read by people; numbers from 1 by default."""
        return tuple(str(row) for row in range(1, len(self.encode_query(text)) + 1))
