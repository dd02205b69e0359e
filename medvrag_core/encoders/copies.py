"""All cores for an encoder that works on the CPU: copies of it in several processes, pages in order."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from medvrag_core.encoders.base import PageEncoder, PageInput
from medvrag_core.encoders.faults import naming_pages
from medvrag_core.errors import MedvragError
from medvrag_core.records import PageVectors

PAGES_AT_ONCE = 4


@dataclass(frozen=True)
class Copies:
    """How to make an encoder anew in another process.

    Attributes
    ----------
    make : gives an encoder that is not fitted; can be pickled
    processes : at most so many
    """

    make: Callable[[], PageEncoder]
    processes: int


def encode_in_copies(
    copies: Copies, processes: int, state: Path, pages: Sequence[PageInput]
) -> Generator[PageVectors, None, None]:
    """What one encoder in the state saved in ``state`` would yield for ``pages``, computed in ``processes`` processes.

    Each process has one thread for its matrices, so sums may differ from those of one process in their last bit; they
    do not depend on the number of processes. Pages are handed out a few at a time and not far ahead of what has
    been yielded, so memory does not grow with the corpus.

    Raises
    ------
    MedvragError : an encoder failed on a page, which is named, or a process came to an end
    """
    starts = deque(range(0, len(pages), PAGES_AT_ONCE))
    coming: deque[Future[list[PageVectors]]] = deque()
    # Spawned, since a fork of a process with threads may hang.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, mp_context=context, initializer=_begin, initargs=(copies.make, state))

    def hand_out() -> None:
        while starts and len(coming) < 2 * processes:
            start = starts.popleft()
            coming.append(pool.submit(_encode, list(pages[start : start + PAGES_AT_ONCE])))

    try:
        with _one_thread_each():
            hand_out()
        while coming:
            yield from coming.popleft().result()
            hand_out()
    except BrokenProcessPool:
        raise MedvragError(
            "a process that encodes pages came to an end", way_out="set workers to 1, which also takes less memory"
        ) from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Environment of processes that start meanwhile; libraries read it when they are imported."""
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = before


_copy: PageEncoder | None = None


def _begin(make: Callable[[], PageEncoder], state: Path) -> None:
    global _copy
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the whole group; the parent ends its processes.
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _copy = make()
    _copy.load(state)


def _end_with_parent() -> None:
    """A parent that was killed tells nobody; its processes would wait for pages forever."""
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
        os._exit(1)


def _encode(pages: list[PageInput]) -> list[PageVectors]:
    assert _copy is not None
    return list(naming_pages(iter(_copy.encode_pages(pages)), pages))
