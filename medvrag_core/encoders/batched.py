"""Encoders that take pages in batches: threads make pages ready while the model runs, like sizes go together."""

from __future__ import annotations

import threading
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

from medvrag_core.encoders.base import PageEncoder, PageInput
from medvrag_core.encoders.faults import page_fault
from medvrag_core.records import PageVectors
from medvrag_core.settings import EncoderSettings

T = TypeVar("T")


@dataclass
class BatchTally:
    """What the batches of one call of :meth:`BatchedPageEncoder.encode_pages` have cost so far.

    Attributes
    ----------
    batches : number of batches encoded
    waiting_s : seconds in which the model had nothing to do, since no page was ready
    model_s : seconds in the model
    filled : summed sizes of the pages
    padded : summed sizes after padding each page to the largest of its batch
    """

    batches: int = 0
    waiting_s: float = 0.0
    model_s: float = 0.0
    filled: int = 0
    padded: int = 0

    @property
    def padding_share(self) -> float:
        """Part of the model's input that is padding, 0 to 1."""
        return 1.0 - self.filled / self.padded if self.padded else 0.0


class BatchedPageEncoder(PageEncoder, Generic[T]):
    """An encoder that says how one page is made ready and how a batch of ready pages is encoded.

    ``settings.loaders`` threads make pages ready, at most ``2 * settings.read_ahead`` batches of them before they are
    needed, so memory does not grow with the corpus. Within a window of ``settings.read_ahead`` batches the pages are
    batched by size, which keeps padding small; they come out in the order given.
    """

    def __init__(self, settings: EncoderSettings) -> None:
        self.settings = settings
        self.tally = BatchTally()

    @abstractmethod
    def load_page(self, page: PageInput) -> T:
        """Make a page ready for the model (decode, resize). Called in several threads at once; must not use the GPU."""

    @abstractmethod
    def page_size(self, ready: T) -> int:
        """Positions that a page takes in a batch before padding, at least 1."""

    @abstractmethod
    def encode_batch(self, ready: Sequence[T]) -> Sequence[PageVectors]:
        """Vectors of up to ``settings.batch_size`` pages, in their order, whatever else is in the batch."""

    def encode_pages(self, pages: Iterable[PageInput]) -> Iterator[PageVectors]:
        """See :class:`PageEncoder`.

        Raises
        ------
        MedvragError : a page cannot be made ready or encoded; names the page
        """
        self.tally = BatchTally()
        given = pages if isinstance(pages, Sequence) else list(pages)
        window = self.settings.batch_size * self.settings.read_ahead
        reading = threading.Lock()

        def load(place: int) -> tuple[str, T]:
            with reading:  # What is behind a sequence of inputs need not be safe for threads.
                page = given[place]
            try:
                return page.page.page_id, self.load_page(page)
            except Exception as error:
                raise page_fault([page.page.page_id], error, way_out=f"look at its image {page.image}") from error

        pool = ThreadPoolExecutor(max_workers=self.settings.loaders, thread_name_prefix="load-page")
        coming: deque[Future[tuple[str, T]]] = deque()
        asked = 0
        try:
            for start in range(0, len(given), window):
                while asked < min(start + 2 * window, len(given)):
                    coming.append(pool.submit(load, asked))
                    asked += 1
                ready = [self._waited(coming.popleft()) for _ in range(min(window, len(given) - start))]
                yield from self._encode_window(ready)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _waited(self, coming: Future[tuple[str, T]]) -> tuple[str, T]:
        clock = time.perf_counter()
        ready = coming.result()
        self.tally.waiting_s += time.perf_counter() - clock
        return ready

    def _encode_window(self, ready: Sequence[tuple[str, T]]) -> list[PageVectors]:
        sizes = [self.page_size(page) for _, page in ready]
        # The largest first: a batch that does not fit into memory fails in the first window.
        order = sorted(range(len(ready)), key=lambda place: -sizes[place])
        done: dict[int, PageVectors] = {}
        for first in range(0, len(order), self.settings.batch_size):
            places = order[first : first + self.settings.batch_size]
            clock = time.perf_counter()
            made = self._encode([ready[place] for place in places])
            self.tally.model_s += time.perf_counter() - clock
            self.tally.batches += 1
            self.tally.filled += sum(sizes[place] for place in places)
            self.tally.padded += len(places) * max(sizes[place] for place in places)
            done.update(zip(places, made, strict=True))
        return [done[place] for place in range(len(ready))]

    def _encode(self, batch: Sequence[tuple[str, T]]) -> Sequence[PageVectors]:
        try:
            return self.encode_batch([page for _, page in batch])
        except Exception as error:
            if len(batch) > 1:
                # Which page it was shows when each is alone.
                for page in batch:
                    self._encode([page])
            way_out = "set encoder.batch_size lower" if len(batch) > 1 else ""
            raise page_fault([page_id for page_id, _ in batch], error, way_out=way_out) from error
