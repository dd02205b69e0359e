"""Chat over an OpenAI-compatible server: vLLM on a GPU node, llama.cpp on a laptop, or a hosted service.

One retry layer (ours, by tenacity; the client's own is off), a time budget for each call, images sent inside the
request, and only a reply that the model finished by itself counts (:mod:`medvrag_core.models.completion`).
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt

from medvrag_core.errors import SettingsError
from medvrag_core.models.base import ChatModel, ChatRequest, Message
from medvrag_core.models.completion import Assembly
from medvrag_core.models.event_loop import run_async
from medvrag_core.models.faults import call_errors
from medvrag_core.models.image_tokens import image_tokens
from medvrag_core.models.images import decoded_bytes, image_url
from medvrag_core.models.limits import CallLimits
from medvrag_core.models.outcomes import PASSING, CallError
from medvrag_core.models.secrets import api_key, without_keys
from medvrag_core.models.server_tokens import make_counter
from medvrag_core.records import ReaderReply
from medvrag_core.settings import WHERE_FIELDS, CallSettings, ModelSettings, fingerprint

if TYPE_CHECKING:
    import openai

log = logging.getLogger(__name__)

_CONNECT_SECONDS = 10.0
_LONGEST_PAUSE_SECONDS = 60.0
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})

Sleep = Callable[[float], Awaitable[None]]
T = TypeVar("T")


class OpenAIChat(ChatModel):
    """One model behind one server.

    Parameters
    ----------
    settings : address, model name and sampling; the key comes from the environment variable ``settings.key_env``
        alone and defaults to ``EMPTY``, which local servers accept
    calls : tries and pauses of one call
    limits : bounds shared with the other models of the run; own ones if not given
    sleep : waits between tries; tests put a clock of their own here

    Raises
    ------
    SettingsError
        ``base_url`` or ``model`` is empty.
    """

    def __init__(
        self,
        settings: ModelSettings,
        calls: CallSettings | None = None,
        limits: CallLimits | None = None,
        *,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        for field in ("base_url", "model"):
            if not getattr(settings, field):
                raise SettingsError(f"'{field}' of the model is empty", way_out="set it in the profile")
        self.settings = settings
        self.calls = calls or CallSettings()
        self.limits = limits or CallLimits(self.calls)
        self._sleep = sleep
        self._client = open_async_client(settings)
        self._counter = make_counter(settings, self.post)

    @property
    def fingerprint(self) -> str:
        """Digest of the model name and everything that shapes its replies; see :data:`WHERE_FIELDS`."""
        return model_fingerprint(self.settings)

    def complete(self, request: ChatRequest) -> ReaderReply:
        """One finished reply.

        Raises
        ------
        CallError
            The call ended in another way than ``complete``; see :mod:`medvrag_core.models.outcomes`.
        RunStopped
            The server no longer works, or the run is to stop.
        InputError
            A page image cannot be read.
        """
        images = [image for message in request.messages for image in message.images]
        with self.limits.place(sum(map(decoded_bytes, images))):
            return self._watched(self._chat(request))

    def count_tokens(self, text: str) -> int:
        """Tokens of a text; asks the server unless the settings name another counter."""
        return self._counter.count(text)

    def post(self, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """JSON from another endpoint of the same server; ``path`` starts at its root, as in ``/tokenize``.

        Raises CallError; an endpoint that is not there is ``rejected``, since the server itself may be well.
        """
        address = server_root(self.settings.base_url) + path

        async def send(_: int) -> Mapping[str, Any]:
            try:
                with call_errors(self.settings.base_url, self.settings.key_env):
                    value = await self._client.post(address, body=body, cast_to=object)
            except CallError as error:
                if error.kind == "denied":
                    raise CallError("rejected", error.problem, way_out=error.way_out) from None
                raise
            if not isinstance(value, Mapping):
                raise CallError("malformed", f"{self.settings.base_url}: {path} gave no JSON object")
            return value

        return self._watched(send)

    def close(self) -> None:
        """Close the connections."""
        run_async(self._client.close())

    # --- one call ---------------------------------------------------------------------------

    def _watched(self, attempt: Callable[[int], Awaitable[T]]) -> T:
        """Run one call to its end and tell the watch over failures how it went."""
        try:
            result = run_async(self._within_budget(attempt))
        except CallError as error:
            if error.final:
                self.limits.succeeded()
            else:
                self.limits.failed(error)
            raise
        self.limits.succeeded()
        return result

    async def _within_budget(self, attempt: Callable[[int], Awaitable[T]]) -> T:
        """Tries within ``wall_s``; the error of the last try tells more than the fact that time is up."""
        last: CallError | None = None
        tried = 0

        async def once() -> T:
            nonlocal last, tried
            tried += 1
            try:
                return await attempt(tried)
            except CallError as error:
                last = error
                error.attempts = tried
                raise

        retrying = AsyncRetrying(
            retry=retry_if_exception(lambda error: isinstance(error, CallError) and error.kind in PASSING),
            stop=stop_after_attempt(self.calls.attempts),
            wait=partial(pause_before, self.calls),
            sleep=self._sleep,
            before_sleep=self._tell,
            reraise=True,
        )
        try:
            async with asyncio.timeout(self.settings.wall_s):
                return await retrying(once)
        except TimeoutError:
            said = f"; the last try: {last.problem}" if last else ""
            late = CallError(
                "timeout",
                f"{self.settings.base_url}: no reply within {self.settings.wall_s:g} s{said}",
                way_out="raise 'wall_s', or look at the server",
            )
            late.attempts = tried
            raise late from None

    def _tell(self, state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        log.warning("model call failed, try %d: %s", state.attempt_number, without_keys(str(error)))

    def _chat(self, request: ChatRequest) -> Callable[[int], Awaitable[ReaderReply]]:
        body = self._body(request)
        images = [image for message in request.messages for image in message.images]
        pixels = {"max_pixels": self.settings.max_pixels, "min_pixels": self.settings.min_pixels}
        # Other models count images in other ways; the sum is a bound for the family that the paper uses.
        qwen = "qwen2" in self.settings.model.casefold() and "vl" in self.settings.model.casefold()
        least = sum(image_tokens(i.width, i.height, **pixels) for i in images) if qwen else 0

        async def attempt(number: int) -> ReaderReply:
            assembly = Assembly()
            with call_errors(self.settings.base_url, self.settings.key_env):
                async with self._client.chat.completions.with_streaming_response.create(**body) as response:
                    if "event-stream" in response.headers.get("content-type", ""):
                        async with contextlib.aclosing(aiter(await response.parse())) as chunks:
                            async for chunk in chunks:
                                assembly.add(chunk.to_dict())
                    else:
                        # Some servers ignore the wish for a stream and send the completion whole.
                        whole = await response.json()
                        if not isinstance(whole, dict):
                            raise CallError("malformed", f"{self.settings.base_url}: the reply is no JSON object")
                        assembly.add(whole)
            reply = assembly.finished(
                self.settings, max_tokens=body["max_tokens"], least_prompt=least, logprobs=request.logprobs
            )
            return reply.model_copy(update={"attempts": number})

        return attempt

    def _body(self, request: ChatRequest) -> dict[str, Any]:
        settings = self.settings
        body: dict[str, Any] = {
            "model": settings.model,
            "messages": [_as_openai(message) for message in request.messages],
            "max_tokens": min(request.max_tokens or settings.max_tokens, settings.max_tokens),
            "temperature": settings.temperature,
            "top_p": settings.top_p,
            "seed": settings.seed,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if request.logprobs:
            body["logprobs"] = True
        if request.reply_schema is not None:
            held = {"name": request.purpose, "schema": request.reply_schema, "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": held}
        if settings.server != "hosted":
            # Both hand this to the chat template; templates without the switch ignore it.
            extra: dict[str, Any] = {"chat_template_kwargs": {"enable_thinking": settings.thinking}}
            if settings.repetition_penalty != 1.0:
                name = "repetition_penalty" if settings.server == "vllm" else "repeat_penalty"
                extra[name] = settings.repetition_penalty
            body["extra_body"] = extra
        return body


def pause_before(calls: CallSettings, state: RetryCallState) -> float:
    """Seconds before the next try: doubled each time with jitter, and never shorter than the server asks for."""
    error = state.outcome.exception() if state.outcome else None
    asked = error.retry_after_s if isinstance(error, CallError) else 0.0
    pause = calls.pause_s * 2.0 ** (state.attempt_number - 1)
    return max(asked, min(pause, _LONGEST_PAUSE_SECONDS) * random.uniform(0.75, 1.25))


def model_fingerprint(settings: ModelSettings) -> str:
    """Sixteen hex digits over all settings that can change a reply."""
    return fingerprint(settings.with_defaults(WHERE_FIELDS))


def server_root(base_url: str) -> str:
    """The address of a server without the version path.

    >>> server_root("http://127.0.0.1:8000/v1/")
    'http://127.0.0.1:8000'
    """
    return base_url.rstrip("/").removesuffix("/v1")


def open_client(base_url: str, timeout_s: float, key_env: str = "OPENAI_API_KEY") -> openai.OpenAI:
    """A plain client that does not retry by itself; a server on this computer is never looked for through a proxy."""
    import openai

    return openai.OpenAI(
        base_url=base_url,
        api_key=api_key(key_env),
        max_retries=0,
        timeout=openai.Timeout(timeout_s, connect=min(_CONNECT_SECONDS, timeout_s)),
        http_client=openai.DefaultHttpxClient(trust_env=_trusts_proxies(base_url), follow_redirects=False),
    )


def open_async_client(settings: ModelSettings) -> openai.AsyncOpenAI:
    """The same for the event loop; redirects are not followed, since they would carry pages to another host.

    Each call has a connection of its own: servers close idle ones at will, and a call that meets one just closed
    would look like a fault of the server.
    """
    import httpx2
    import openai

    return openai.AsyncOpenAI(
        base_url=settings.base_url,
        api_key=api_key(settings.key_env),
        max_retries=0,
        timeout=openai.Timeout(settings.timeout_s, connect=min(_CONNECT_SECONDS, settings.timeout_s)),
        http_client=openai.DefaultAsyncHttpxClient(
            trust_env=_trusts_proxies(settings.base_url),
            follow_redirects=False,
            limits=httpx2.Limits(max_keepalive_connections=0),
        ),
    )


def digest(*parts: str) -> str:
    """Sixteen hex digits over texts; for fingerprints of readers and rankers."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _trusts_proxies(base_url: str) -> bool:
    return urlsplit(base_url).hostname not in _LOOPBACK


def _as_openai(message: Message) -> dict[str, Any]:
    if not message.images:
        return {"role": message.role, "content": message.text}
    pictures = [{"type": "image_url", "image_url": {"url": image_url(image)}} for image in message.images]
    return {"role": message.role, "content": [{"type": "text", "text": message.text}, *pictures]}
