"""A crew without Ray, as unkind as one may be: what it is given is pickled, done twice and told of in reverse."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from medvrag_core.runs.crew import Crew, Work

T = TypeVar("T")
R = TypeVar("R")


class UnkindCrew(Crew):
    """Counts what it was asked for in ``asked``."""

    def __init__(self) -> None:
        self.asked: list[tuple[Work, int]] = []

    def work(self, make: Callable[[], Callable[[T], R]], items: Sequence[T], *, kind: Work) -> Iterator[R]:
        self.asked.append((kind, len(items)))
        first, second = pickle.loads(pickle.dumps(make))(), pickle.loads(pickle.dumps(make))()
        for item in reversed(items):
            sent = pickle.dumps(item)
            first(pickle.loads(sent))
            yield pickle.loads(pickle.dumps(second(pickle.loads(sent))))

    def workers(self, kind: Work) -> int:
        return 2
