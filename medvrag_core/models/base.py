"""The one door to language and vision-language models: what is asked, and who answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Literal

from medvrag_core.records import ReaderReply, Record, StepKind
from medvrag_core.settings import ModelSettings

Purpose = Literal["filter_map", "filter_reduce", "reader", "refine", "summary", "caption", "check", "judge"] | StepKind


class PageImage(Record):
    """A page image with the size in pixels at which it is sent; see :func:`medvrag_core.models.images.sized`."""

    path: Path
    width: int
    height: int


class Message(Record):
    """One turn; ``images`` are shown after the text."""

    role: Literal["system", "user", "assistant"]
    text: str
    images: tuple[PageImage, ...] = ()


class ChatRequest(Record):
    """One call: all that shapes its reply beside the model itself.

    ``prompt_version`` is the digest of the templates behind the messages; ``reply_schema`` is a JSON schema that the
    reply is held to by the server. Without ``max_tokens`` the model's own limit holds. With ``logprobs`` the reply
    tells its ``mean_logprob``, and a server that cannot tell it fails the call.
    """

    purpose: Purpose
    prompt_version: str
    messages: tuple[Message, ...]
    max_tokens: int | None = None
    reply_schema: dict[str, Any] | None = None
    logprobs: bool = False


class ChatModel(ABC):
    """A model that answers requests; safe to call from several threads."""

    settings: ModelSettings

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Model id, revision and sampling settings in one digest; the address is no part of it."""

    @abstractmethod
    def complete(self, request: ChatRequest) -> ReaderReply:
        """One complete reply; raises :class:`~medvrag_core.models.outcomes.CallError` on anything less."""

    @abstractmethod
    def count_tokens(self, text: str) -> int:
        """Tokens of a text as this model counts them; an upper estimate where its tokenizer is not at hand."""

    def close(self) -> None:
        """Close connections and whatever was started."""
