"""What all models of a process share: calls and image bytes in flight, the watch over failures, the stop signal."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from medvrag_core.models.outcomes import STOPPING, CallError, RunStopped
from medvrag_core.settings import CallSettings


class CallLimits:
    """Bounds calls in flight, and ends a run whose server no longer works.

    Parameters
    ----------
    settings : ``in_flight`` calls and ``image_mb`` of decoded images at one time; ``give_up_after`` failed calls
        in a row stop the run
    """

    def __init__(self, settings: CallSettings) -> None:
        self.settings = settings
        self._change = threading.Condition()
        self._calls = 0
        self._bytes = 0
        self._failures = 0
        self._stopped: str = ""

    @contextmanager
    def place(self, image_bytes: int = 0) -> Iterator[None]:
        """Hold a place for one call; waits while the bounds are reached.

        A call with more image bytes than the bound goes alone. Raises RunStopped once the run is to stop.
        """
        with self._change:
            while not self._stopped and not self._fits(image_bytes):
                self._change.wait()
            self._raise_if_stopped()
            self._calls += 1
            self._bytes += image_bytes
        try:
            yield
        finally:
            with self._change:
                self._calls -= 1
                self._bytes -= image_bytes
                self._change.notify_all()

    def _fits(self, image_bytes: int) -> bool:
        room = self._bytes + image_bytes <= self.settings.image_mb * 1_000_000
        return self._calls < self.settings.in_flight and (room or self._bytes == 0)

    def succeeded(self) -> None:
        """A call ended as the model wanted it; the watch starts anew."""
        with self._change:
            self._failures = 0

    def failed(self, error: CallError) -> None:
        """A call failed for good.

        Raises
        ------
        RunStopped
            Too many calls failed one after another, or every other call would fail the same way.
        """
        with self._change:
            self._failures += 1
            if error.kind in STOPPING:
                self._stopped = error.problem
            elif self._failures >= self.settings.give_up_after:
                self._stopped = f"{self._failures} model calls failed one after another, the last one: {error.problem}"
            self._change.notify_all()
            if self._stopped:
                raise RunStopped(self._stopped, way_out=error.way_out or "look at the model server, then run again")

    def stop(self, reason: str) -> None:
        """Let no further call begin; calls in flight go on."""
        with self._change:
            self._stopped = self._stopped or reason
            self._change.notify_all()

    def idle(self, seconds: float) -> bool:
        """Wait until no call is in flight, ``seconds`` at most; whether that was reached."""
        end = time.monotonic() + seconds
        with self._change:
            while self._calls and (left := end - time.monotonic()) > 0:
                self._change.wait(left)
            return self._calls == 0

    @property
    def in_flight(self) -> tuple[int, int]:
        """Calls and image bytes in flight now."""
        with self._change:
            return self._calls, self._bytes

    def _raise_if_stopped(self) -> None:
        if self._stopped:
            raise RunStopped(self._stopped, way_out="run again, it goes on from here")
