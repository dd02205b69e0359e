"""All pages of an index in memory as codes: what every mode scores with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from medvrag_core.encoders.shards import starts
from medvrag_core.index.kernels.code_scores import Kernels
from medvrag_core.index.kernels.codes import PlacedCodes, score_bounds
from medvrag_core.index.kernels.text import LANES
from medvrag_core.index.segments import Segment
from medvrag_core.settings import cores

Scores = NDArray[np.float32]
Places = NDArray[np.int64]
_PIECES = 4
"""Pieces of work a thread, so that one that is held up does not hold up all."""


@dataclass(frozen=True)
class CodedPages:
    """The pages of some segments, numbered through in the order of the vector store.

    All scores are those of coded vectors; they do not depend on segments or threads.

    Attributes
    ----------
    segments : at least one
    backward : weight of the second half of S
    threads : that score side by side; 0 is one for each core
    """

    segments: Sequence[Segment]
    backward: float = 1.0
    threads: int = 0
    kernels: Kernels = field(default_factory=Kernels)

    def __len__(self) -> int:
        return int(self._firsts[-1])

    def scores(self, query: NDArray[np.float32], places: Places) -> Scores:
        """S(q, p) of chosen pages, which come in ascending order."""
        coded = self.kernels.query(query)
        out = np.empty(len(places), dtype=np.float32)

        def score(_: int, first: int, end: int) -> None:
            self.kernels.pages(coded, self._placed, places[first:end], self.backward, out[first:end])

        self._side_by_side(score, [(0, 0, len(places))])
        return out

    def centroid_scores(self, query: NDArray[np.float32]) -> Scores:
        """The same for every page with centroids in place of vectors, each for as many as it stands for."""
        coded = self.kernels.query(query)
        out = np.empty(len(self), dtype=np.float32)

        def score(number: int, first: int, end: int) -> None:
            found = np.empty((end - first, LANES), dtype=np.float32)
            self.kernels.tiles(coded, self.segments[number].centroids, first, end, self.backward, found)
            start = int(self._firsts[number]) + first * LANES
            last = min(start + found.size, int(self._firsts[number + 1]))
            out[start:last] = found.ravel()[: last - start]

        tiles = [-(-len(segment) // LANES) for segment in self.segments]
        self._side_by_side(score, [(n, 0, count) for n, count in enumerate(tiles)])
        return out

    def bounds(self, query: NDArray[np.float32]) -> Scores:
        """How far each of :meth:`scores` may be off at most, shape (N,)."""
        return score_bounds(self.kernels.query(query), *self._errors_and_norms, self.backward)

    def _side_by_side(self, work: Callable[[int, int, int], None], parts: Sequence[tuple[int, int, int]]) -> None:
        """Do ``work(segment, first, end)`` for every part, spread evenly over the threads."""
        total = sum(end - first for _, first, end in parts)
        threads = self.threads or cores()
        if threads == 1 or total < _PIECES * threads:
            for part in parts:
                work(*part)
            return
        size = -(-total // (_PIECES * threads))
        loads: list[list[tuple[int, int, int]]] = [[]]
        room = size
        for number, first, end in parts:
            while first < end:
                if not room:
                    loads.append([])
                    room = size
                last = min(first + room, end)
                loads[-1].append((number, first, last))
                room -= last - first
                first = last

        left = iter(loads)

        def work_off() -> None:
            for load in left:  # Threads share the iterator: each load is given out once.
                for piece in load:
                    work(*piece)

        # This thread works too, so that none is waited for before the first page is scored.
        others = [self._pool.submit(work_off) for _ in range(threads - 1)]
        try:
            work_off()
        finally:
            for other in others:
                if not other.cancel():
                    other.result()

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor((self.threads or cores()) - 1, thread_name_prefix="stage1")

    @cached_property
    def _placed(self) -> PlacedCodes:
        return PlacedCodes.of([segment.codes for segment in self.segments])

    @cached_property
    def _errors_and_norms(self) -> tuple[Scores, Scores]:
        codes = [segment.codes for segment in self.segments]
        return np.concatenate([some.errors for some in codes]), np.concatenate([some.norms for some in codes])

    @cached_property
    def _firsts(self) -> Places:
        return starts(np.array([len(segment) for segment in self.segments]))
