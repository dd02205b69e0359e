"""Work on several items at one time in threads, stop when told, and lose nothing that is finished."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def side_by_side(
    work: Callable[[T], R],
    items: Sequence[T],
    *,
    at_once: int,
    stop: Callable[[], None] = lambda: None,
    drain_s: float = 30.0,
) -> Iterator[tuple[int, R]]:
    """Yield ``(place, result)`` as items get done, in whatever order that is.

    After Ctrl-C (or an error in one item) no further item begins, ``stop`` is called, items under way get ``drain_s``
    seconds to end and are still yielded, then the interrupt or error goes on. A second Ctrl-C does not wait.

    Parameters
    ----------
    work : called in a thread for each item
    at_once : threads
    stop : tells the work to come to an end, for example by refusing further model calls
    """
    todo: queue.SimpleQueue[int] = queue.SimpleQueue()
    for place in range(len(items)):
        todo.put(place)
    done: queue.SimpleQueue[tuple[int, R | None, BaseException | None]] = queue.SimpleQueue()
    halt = threading.Event()

    def worker() -> None:
        while not halt.is_set():
            try:
                place = todo.get_nowait()
            except queue.Empty:
                return
            try:
                done.put((place, work(items[place]), None))
            except BaseException as error:
                halt.set()
                done.put((place, None, error))

    # Daemons: a thread that is stuck in native code must not keep a stopped process alive.
    threads = [threading.Thread(target=worker, name=f"work-{n}", daemon=True) for n in range(min(at_once, len(items)))]
    try:
        for thread in threads:
            thread.start()
        for _ in range(len(items)):
            place, result, error = done.get()
            if error is not None:
                raise error
            yield place, result  # type: ignore[misc]
    except BaseException as cause:
        halt.set()
        stop()
        if not isinstance(cause, GeneratorExit):
            end = time.monotonic() + drain_s
            for thread in filter(threading.Thread.is_alive, threads):
                thread.join(max(0.0, end - time.monotonic()))
            while not done.empty():
                place, result, error = done.get()
                if error is None:
                    yield place, result  # type: ignore[misc]
        raise
