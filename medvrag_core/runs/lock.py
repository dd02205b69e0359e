"""One writer a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from medvrag_core.errors import InputError


@contextmanager
def only_writer(run: Path) -> Iterator[None]:
    """Hold the run's lock; the operating system frees it when the holder dies, even by ``kill -9``.

    Raises InputError at once when another process writes to the run.
    """
    run.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(run / ".lock", timeout=0):
            yield
    except Timeout:
        raise InputError(
            f"{run}: another process is writing to this run", way_out="wait for it, or choose another run"
        ) from None
