"""Chat over an OpenAI-compatible server: vLLM on a GPU node, llama.cpp on a laptop.

One retry layer (ours, by tenacity; the client's own is off), explicit timeouts, images sent inside the request,
and only a reply that the model finished by itself counts.
"""

from __future__ import annotations

import base64
import hashlib
import io
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_exponential, wait_random

from medvrag_core.errors import InputError, ModelError, SettingsError
from medvrag_core.models.base import ChatModel, Message
from medvrag_core.records import ReaderReply
from medvrag_core.settings import ModelSettings, fingerprint

if TYPE_CHECKING:
    import openai
    from openai.types.chat import ChatCompletion

log = logging.getLogger(__name__)

ATTEMPTS = 4
_RETRIED_STATUS = frozenset({408, 409, 429})
_CONNECT_SECONDS = 10.0
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class CallError(ModelError):
    """A call that gave no usable reply.

    ``kind`` is one of ``transport``, ``timeout``, ``http_<status>``, ``truncated``, ``refused``, ``empty``,
    ``unfinished`` and ``malformed``.
    """

    def __init__(self, kind: str, problem: str, *, way_out: str = "") -> None:
        super().__init__(f"{problem} [{kind}]", way_out=way_out)
        self.kind = kind


class OpenAIChat(ChatModel):
    """One model behind one server.

    Parameters
    ----------
    settings : address, model name and sampling; the key comes from the environment variable ``OPENAI_API_KEY``
        alone and defaults to ``EMPTY``, which local servers accept
    attempts : tries of one call; only transport faults, 408, 409, 429 and 5xx are tried again
    wait_s : first pause between tries, doubled each time with some jitter

    Raises
    ------
    SettingsError
        ``base_url`` or ``model`` is empty.
    """

    def __init__(self, settings: ModelSettings, *, attempts: int = ATTEMPTS, wait_s: float = 1.0) -> None:
        for field in ("base_url", "model"):
            if not getattr(settings, field):
                raise SettingsError(f"'{field}' of the model is empty", way_out="set it in the profile")
        self.settings = settings
        self.attempts = attempts
        self.wait_s = wait_s
        self._client = open_client(settings.base_url, settings.timeout_s)

    @property
    def fingerprint(self) -> str:
        """Digest of the model name and everything that shapes its replies; the address is not part of it."""
        return fingerprint(self.settings.model_copy(update={"base_url": "", "timeout_s": 0.0}))

    def complete(self, messages: tuple[Message, ...], *, max_tokens: int | None = None) -> ReaderReply:
        """One finished reply.

        Raises
        ------
        CallError
            The server could not be reached, refused the call, or gave a reply that is cut off, empty or filtered.
        InputError
            A page image cannot be read.
        """
        request: dict[str, Any] = {
            "model": self.settings.model,
            "messages": [_as_openai(message, self.settings.max_pixels) for message in messages],
            "max_tokens": max_tokens or self.settings.max_tokens,
            "temperature": self.settings.temperature,
            "top_p": self.settings.top_p,
            "seed": self.settings.seed,
            # vLLM and llama.cpp hand this to the chat template; templates without the switch ignore it.
            "extra_body": {"chat_template_kwargs": {"enable_thinking": self.settings.thinking}},
        }
        return read_completion(self._send(request), thinking=self.settings.thinking)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _send(self, request: dict[str, Any]) -> ChatCompletion:
        retrying = Retrying(
            retry=retry_if_exception(_worth_retrying),
            stop=stop_after_attempt(self.attempts),
            wait=wait_exponential(multiplier=self.wait_s, max=60.0) + wait_random(0.0, self.wait_s),
            before_sleep=lambda state: log.warning(
                "model call failed, try %d: %s", state.attempt_number, _cause(state)
            ),
            reraise=True,
        )
        with call_errors(self.settings.base_url):
            reply: ChatCompletion = retrying(self._client.chat.completions.create, **request)
            return reply


def open_client(base_url: str, timeout_s: float) -> openai.OpenAI:
    """A client that does not retry by itself; a server on this computer is never looked for through a proxy."""
    import openai

    host = urlsplit(base_url).hostname
    return openai.OpenAI(
        base_url=base_url,
        api_key=os.environ.get("OPENAI_API_KEY") or "EMPTY",
        max_retries=0,
        timeout=openai.Timeout(timeout_s, connect=min(_CONNECT_SECONDS, timeout_s)),
        http_client=openai.DefaultHttpxClient(trust_env=host not in _LOOPBACK),
    )


@contextmanager
def call_errors(where: str) -> Iterator[None]:
    """Turn every error of the client into a :class:`CallError` that names the server."""
    import openai

    try:
        yield
    except openai.APITimeoutError:
        raise CallError("timeout", f"{where}: no reply in time", way_out="raise 'timeout_s'") from None
    except openai.APIStatusError as error:
        raise CallError(f"http_{error.status_code}", f"{where}: {_short(error.message)}") from error
    except openai.APIConnectionError as error:
        raise CallError(
            "transport", f"{where}: cannot be reached", way_out="start the server or correct 'base_url'"
        ) from error
    except (openai.OpenAIError, ValueError) as error:
        raise CallError("malformed", f"{where}: {_short(str(error))}") from error


def read_completion(completion: ChatCompletion, *, thinking: bool) -> ReaderReply:
    """The reply of a completion; anything but a finished text raises :class:`CallError`.

    With thinking switched off some servers put the whole reply into the reasoning field; it is taken from
    there and flagged ``reply_in_reasoning_field``.
    """
    if not getattr(completion, "choices", None):
        raise CallError("malformed", "the server's reply holds no choice")
    choice = completion.choices[0]
    text = choice.message.content or ""
    flags: tuple[str, ...] = ()
    if choice.finish_reason == "length":
        raise CallError("truncated", "the reply was cut at the token limit", way_out="raise 'max_tokens'")
    if choice.finish_reason == "content_filter" or getattr(choice.message, "refusal", None):
        raise CallError("refused", "the model refused to reply")
    if choice.finish_reason != "stop":
        raise CallError("unfinished", f"the reply ended with '{choice.finish_reason}'")
    if not text.strip() and not thinking:
        reasoning = getattr(choice.message, "reasoning_content", None) or getattr(choice.message, "reasoning", None)
        if isinstance(reasoning, str) and reasoning.strip():
            text, flags = reasoning, ("reply_in_reasoning_field",)
            log.warning("the reply stood in the reasoning field although thinking is off")
    if not text.strip():
        raise CallError("empty", "the reply is empty")
    usage = completion.usage
    return ReaderReply(
        text=text,
        finish_reason="stop",
        model=completion.model or "",
        prompt_tokens=usage.prompt_tokens if usage else 0,
        completion_tokens=usage.completion_tokens if usage else 0,
        flags=flags,
    )


def image_url(path: Path, max_pixels: int) -> str:
    """A page image as a ``data:`` URL, made smaller where it has more than ``max_pixels``, shape kept.

    Raises InputError naming the file if it is missing or no image.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as image:
            scale = min(1.0, (max_pixels / (image.width * image.height)) ** 0.5)
            small = image.convert("RGB")
            if scale < 1.0:
                size = (max(1, int(image.width * scale)), max(1, int(image.height * scale)))
                small = small.resize(size, Image.Resampling.LANCZOS)
            buffer = io.BytesIO()
            small.save(buffer, "JPEG", quality=90)
    except FileNotFoundError:
        raise InputError(f"{path}: page image not found", way_out="build the corpus of this run again") from None
    except (UnidentifiedImageError, OSError, Image.DecompressionBombError) as error:
        raise InputError(f"{path}: not a readable image ({_short(str(error))})") from None
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()


def _as_openai(message: Message, max_pixels: int) -> dict[str, Any]:
    if not message.images:
        return {"role": message.role, "content": message.text}
    pictures = [{"type": "image_url", "image_url": {"url": image_url(path, max_pixels)}} for path in message.images]
    return {"role": message.role, "content": [{"type": "text", "text": message.text}, *pictures]}


def _worth_retrying(error: BaseException) -> bool:
    import openai

    if isinstance(error, openai.APIStatusError):
        return error.status_code in _RETRIED_STATUS or error.status_code >= 500
    return isinstance(error, openai.APIConnectionError)


def _cause(state: Any) -> str:
    return _short(str(state.outcome.exception()))


def _short(text: str) -> str:
    return " ".join(text.split())[:300]


def digest(*parts: str) -> str:
    """Sixteen hex digits over texts; for fingerprints of readers and rankers."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
