"""The one door to language and vision-language models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

from medvrag_core.records import ReaderReply, Record


class Message(Record):
    """One turn; ``images`` are paths of page images shown after the text."""

    role: str
    text: str
    images: tuple[Path, ...] = ()


class ChatModel(ABC):
    """A model that answers a list of messages."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Model id, revision and sampling settings in one digest."""

    @abstractmethod
    def complete(self, messages: tuple[Message, ...], *, max_tokens: int | None = None) -> ReaderReply:
        """One complete reply; raises :class:`~medvrag_core.errors.ModelError` on anything less."""

    def close(self) -> None:
        """Stop a server that this model started."""
