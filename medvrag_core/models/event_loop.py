"""One event loop in a thread of its own, so that plain threads can make calls that are cancelled for sure.

A read timeout watches silence only; a server that drips bytes outlives it. On an event loop a call is cancelled at its
deadline, or by Ctrl-C, wherever it stands.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end from any thread; an interrupt of the waiting thread cancels it."""
    future = asyncio.run_coroutine_threadsafe(work, _running_loop())
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def _running_loop() -> asyncio.AbstractEventLoop:
    global _loop
    with _lock:
        if _loop is None or _loop.is_closed():
            _loop = asyncio.new_event_loop()
            threading.Thread(target=_loop.run_forever, name="model-calls", daemon=True).start()
        return _loop
