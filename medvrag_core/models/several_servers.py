"""One model behind several servers: calls are spread over them, and one that is lost costs no call."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from tenacity import Retrying, retry_if_exception, stop_after_attempt, stop_before_delay

from medvrag_core.models.base import ChatModel, ChatRequest
from medvrag_core.models.limits import CallLimits
from medvrag_core.models.openai_client import OpenAIChat, pause_before
from medvrag_core.models.outcomes import PASSING, CallError
from medvrag_core.records import ReaderReply
from medvrag_core.settings import CallSettings, ModelSettings

REST_S = 30.0
"""Seconds in which a server whose call failed is asked only when all others failed too, unless it names a time."""


class SeveralServers(ChatModel):
    """Each call goes to the server with the fewest under way; one whose last call failed comes last for a while.

    A call that fails through a fault of its server goes to the next one at once. There is a pause, and another try at
    all of them, only when it failed everywhere, and only the last of those tries counts for the watch over failures.
    After its rest a server gets one call; more follow when that one succeeds.

    Parameters
    ----------
    settings : of the model; ``base_url`` and ``more_urls`` are its servers
    calls : tries, at each server, and pauses of one call
    limits : of the run; calls under way at all servers together count
    clock, sleep : seconds; tests put their own here
    """

    def __init__(
        self,
        settings: ModelSettings,
        calls: CallSettings,
        limits: CallLimits,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.settings, self._calls, self._limits = settings, calls, limits
        self._clock, self._sleep = clock, sleep
        once = calls.model_copy(update={"attempts": 1})
        self._models: Sequence[OpenAIChat] = [
            OpenAIChat(settings.model_copy(update={"base_url": url, "more_urls": ()}), once, _LimitsOfOne(limits))
            for url in (settings.base_url, *settings.more_urls)
        ]
        self._lock = threading.Lock()
        self._under_way = [0] * len(self._models)
        self._rests_until: list[float | None] = [None] * len(self._models)

    @property
    def fingerprint(self) -> str:
        """That of one of them; it does not depend on where a model runs."""
        return self._models[0].fingerprint

    def complete(self, request: ChatRequest) -> ReaderReply:
        """See :class:`ChatModel`."""
        tries = 0

        def everywhere() -> ReaderReply:
            nonlocal tries
            failed: dict[int, CallError] = {}
            while len(failed) < len(self._models):
                tries += 1
                place = self._take(failed)
                try:
                    return self._ask(place, request)
                except CallError as error:
                    if error.kind not in PASSING:
                        raise
                    failed[place] = error
            raise min(failed.values(), key=lambda error: error.retry_after_s)

        retrying = Retrying(
            retry=retry_if_exception(lambda error: isinstance(error, CallError) and error.kind in PASSING),
            stop=stop_after_attempt(self._calls.attempts) | stop_before_delay(self.settings.wall_s),
            wait=partial(pause_before, self._calls),
            sleep=self._sleep,
            reraise=True,
        )
        try:
            return retrying(everywhere).model_copy(update={"attempts": tries})
        except CallError as error:
            error.attempts = tries
            if error.kind in PASSING:
                self._limits.failed(error)
            raise

    def count_tokens(self, text: str) -> int:
        """As the first server counts that can."""
        for model in self._models[:-1]:
            try:
                return model.count_tokens(text)
            except CallError as error:
                if error.kind not in PASSING:
                    raise
        return self._models[-1].count_tokens(text)

    def close(self) -> None:
        """Close all connections."""
        for model in self._models:
            model.close()

    def _ask(self, place: int, request: ChatRequest) -> ReaderReply:
        """The reply of one server, which rests from now on if it failed; this thread has taken a place there."""
        try:
            reply = self._models[place].complete(request)
        except CallError as error:
            late = error.kind in PASSING
            self._rests_until[place] = self._clock() + (error.retry_after_s or REST_S) if late else None
            raise
        else:
            self._rests_until[place] = None
            return reply
        finally:
            with self._lock:
                self._under_way[place] -= 1

    def _take(self, failed: dict[int, CallError]) -> int:
        """A place at the best server at which this call did not fail yet."""
        with self._lock:
            left, now = [place for place in range(len(self._models)) if place not in failed], self._clock()

            def rank(place: int) -> tuple[bool, int]:
                until, under_way = self._rests_until[place], self._under_way[place]
                return until is not None and (now < until or under_way > 0), under_way

            place = min(left, key=rank)
            self._under_way[place] += 1
            return place


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
