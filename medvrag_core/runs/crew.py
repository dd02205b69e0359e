"""The seam for work in other processes, here or on other machines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal, TypeVar

T = TypeVar("T")
R = TypeVar("R")
Work = Literal["render", "summarize", "encode", "index"]
"""What workers do; it decides how many there are, and what each needs of a machine."""


class Crew(ABC):
    """Workers that see the same folders under the same paths as whoever calls them.

    An item may be worked on more than once, when the worker or the machine that had it is lost. So work means to
    publish whole files from what lies on the disk, and what is told of it depends on the item alone.
    """

    @abstractmethod
    def work(
        self, make: Callable[[], Callable[[T], R]], items: Sequence[T], *, kind: Work, most: int | None = None
    ) -> Iterator[R]:
        """What workers make of ``items``, as they get done, in whatever order that is.

        Parameters
        ----------
        make : gives one worker in the process where it is to run; can be pickled, as items and results can
        most : workers at most, where something else than the machines bounds them

        Raises
        ------
        MedvragError : that of the first item that failed, or an item cost worker after worker; what is done stays
        """

    @abstractmethod
    @contextmanager
    def lent(self, make: Callable[[], T]) -> Iterator[T]:
        """What ``make`` gives, in one process on this machine, for workers to call; can be pickled, as its replies can.

        It serves one call at a time, and has only methods. Errors of ours that it raises are raised where it is called.
        """

    @abstractmethod
    def workers(self, kind: Work) -> int:
        """How many work side by side at most."""
