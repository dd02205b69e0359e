"""How fast pages are encoded, and what the model waits for."""

from __future__ import annotations

import time

from medvrag_core.encoders.base import PageEncoder
from medvrag_core.encoders.batched import BatchedPageEncoder
from medvrag_core.records import PageVectors, Record


class Throughput(Record):
    """What one call of :func:`~.encode.encode_corpus` encoded, and how fast.

    Attributes
    ----------
    pages, vectors, patches : how many were encoded; those of an earlier, stopped call do not count
    seconds : from the first page to the last shard on disk, without fitting
    processes : that encoded side by side
    waiting_s, model_s, padding_share : as in :class:`~.batched.BatchTally`; None for encoders that take no batches
    """

    pages: int
    vectors: int
    patches: int
    seconds: float
    processes: int
    waiting_s: float | None = None
    model_s: float | None = None
    padding_share: float | None = None


class Meter:
    """Counts pages as they come.

    Parameters
    ----------
    encoder : that yields them; None where others do, whose batches are not told
    processes : that encode side by side
    """

    def __init__(self, encoder: PageEncoder | None, processes: int) -> None:
        self._encoder, self._processes = encoder, processes
        self._pages = self._vectors = self._patches = 0
        self._start = time.perf_counter()

    def count(self, page: PageVectors) -> None:
        """One more page is encoded."""
        self.add(pages=1, vectors=len(page.vectors), patches=len(page.boxes))

    def add(self, *, pages: int, vectors: int, patches: int) -> None:
        """So many more are."""
        self._pages += pages
        self._vectors += vectors
        self._patches += patches

    @property
    def so_far(self) -> Throughput:
        """All counts up to now."""
        tally = self._encoder.tally if isinstance(self._encoder, BatchedPageEncoder) else None
        return Throughput(
            pages=self._pages,
            vectors=self._vectors,
            patches=self._patches,
            seconds=time.perf_counter() - self._start,
            processes=self._processes,
            waiting_s=tally.waiting_s if tally else None,
            model_s=tally.model_s if tally else None,
            padding_share=tally.padding_share if tally else None,
        )


def told(throughput: Throughput) -> dict[str, str]:
    """What a progress bar shows beside pages a second.

    >>> told(Throughput(pages=2, vectors=4, patches=10, seconds=2.0, processes=1, waiting_s=0.5, padding_share=0.1))
    {'patches/s': '5', 'waiting': '25%', 'padding': '10%'}
    """
    shown = {"patches/s": f"{throughput.patches / throughput.seconds:.0f}"}
    if throughput.waiting_s is not None:
        shown["waiting"] = f"{throughput.waiting_s / throughput.seconds:.0%}"
    if throughput.padding_share is not None:
        shown["padding"] = f"{throughput.padding_share:.0%}"
    return shown
