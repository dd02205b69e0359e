"""A crew without Ray, as unkind as one may be: what it is given is pickled, done twice and told of in reverse."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from medvrag_core.runs.crew import Crew, Work

T = TypeVar("T")
R = TypeVar("R")


_LENT: dict[int, object] = {}


@dataclass(frozen=True)
class Borrowed:
    """Something lent, which pickles as a number; what it is given and replies is pickled too."""

    number: int

    def __getattr__(self, name: str) -> Callable[..., object]:
        if name.startswith("_"):
            raise AttributeError(name)

        def call(*arguments: object) -> object:
            given = pickle.loads(pickle.dumps(arguments))
            return pickle.loads(pickle.dumps(getattr(_LENT[self.number], name)(*given)))

        return call


class UnkindCrew(Crew):
    """Counts what it was asked for in ``asked``."""

    def __init__(self) -> None:
        self.asked: list[tuple[Work, int]] = []

    def work(
        self, make: Callable[[], Callable[[T], R]], items: Sequence[T], *, kind: Work, most: int | None = None
    ) -> Iterator[R]:
        self.asked.append((kind, len(items)))
        first, second = pickle.loads(pickle.dumps(make))(), pickle.loads(pickle.dumps(make))()
        for item in reversed(items):
            sent = pickle.dumps(item)
            first(pickle.loads(sent))
            yield pickle.loads(pickle.dumps(second(pickle.loads(sent))))

    @contextmanager
    def lent(self, make: Callable[[], T]) -> Iterator[T]:
        number = len(_LENT)
        _LENT[number] = lent = pickle.loads(pickle.dumps(make))()
        yield Borrowed(number)  # type: ignore[misc]
        lent.close()

    def workers(self, kind: Work) -> int:
        return 2
