"""One model behind several servers: calls are spread over them, and one that is lost costs no call."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from medvrag_core.models.base import ChatModel, ChatRequest
from medvrag_core.models.limits import CallLimits
from medvrag_core.models.outcomes import PASSING, CallError
from medvrag_core.records import ReaderReply
from medvrag_core.settings import ModelSettings

REST_S = 30.0
"""Seconds in which a server whose call failed is asked only when all others failed too; then it gets its turn again."""


class SeveralServers(ChatModel):
    """Each call goes to the server with the fewest under way; one whose last call failed comes last for a while.

    A call that fails through a fault of its server goes to the next one. Only when it failed at all of them does it
    count for the watch over failures.

    Parameters
    ----------
    settings : of the model; ``base_url`` and ``more_urls`` are its servers
    open_one : a model behind one server, given its settings and the limits that it is to keep
    limits : of the run; calls under way at all servers together count
    clock : seconds
    """

    def __init__(
        self,
        settings: ModelSettings,
        open_one: Callable[[ModelSettings, CallLimits], ChatModel],
        limits: CallLimits,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limits, self._clock = limits, clock
        self._models: Sequence[ChatModel] = [
            open_one(settings.model_copy(update={"base_url": url, "more_urls": ()}), _LimitsOfOne(limits))
            for url in (settings.base_url, *settings.more_urls)
        ]
        self._lock = threading.Lock()
        self._under_way = [0] * len(self._models)
        self._rests_until = [0.0] * len(self._models)

    @property
    def fingerprint(self) -> str:
        """That of one of them; it does not depend on where a model runs."""
        return self._models[0].fingerprint

    def complete(self, request: ChatRequest) -> ReaderReply:
        """See :class:`ChatModel`."""
        tried: set[int] = set()
        while True:
            place = self._take(tried)
            try:
                reply = self._models[place].complete(request)
            except CallError as error:
                tried.add(place)
                self._give_back(place, until=self._clock() + REST_S if error.kind in PASSING else 0.0)
                if error.kind not in PASSING:
                    raise
                if len(tried) == len(self._models):
                    self._limits.failed(error)
                    raise
            except BaseException:
                self._give_back(place, until=self._rests_until[place])
                raise
            else:
                self._give_back(place, until=0.0)
                return reply

    def count_tokens(self, text: str) -> int:
        """As the first server counts."""
        return self._models[0].count_tokens(text)

    def close(self) -> None:
        """Close all connections."""
        for model in self._models:
            model.close()

    def _take(self, tried: set[int]) -> int:
        with self._lock:
            left, now = [place for place in range(len(self._models)) if place not in tried], self._clock()
            place = min(left, key=lambda place: (self._rests_until[place] > now, self._under_way[place]))
            self._under_way[place] += 1
            return place

    def _give_back(self, place: int, *, until: float) -> None:
        with self._lock:
            self._under_way[place] -= 1
            self._rests_until[place] = until


class _LimitsOfOne(CallLimits):
    """The limits of the run, but a passing fault of one server is for the others to mend."""

    def __init__(self, shared: CallLimits) -> None:
        super().__init__(shared.settings)
        self._shared = shared

    @contextmanager
    def place(self, image_bytes: int = 0) -> Iterator[None]:
        with self._shared.place(image_bytes):
            yield

    def succeeded(self) -> None:
        self._shared.succeeded()

    def failed(self, error: CallError) -> None:
        if error.kind not in PASSING:
            self._shared.failed(error)
