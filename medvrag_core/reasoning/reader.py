"""The seam between evidence and a reply."""

from __future__ import annotations

from abc import ABC, abstractmethod

from medvrag_core.records import ReaderInput, ReaderReply


class Reader(ABC):
    """Reads the evidence of one round and replies in the format of ``prompts/reader.md``.

    The reply text holds either ``<answer>LABEL</answer>``, or ``<query_update>...</query_update>``
    with ``<notes>{"findings": [...], "note": "..."}</notes>``; nothing else about the reader is
    known to the loop, so embedded readers and vision-language models are interchangeable.
    """

    name: str
    needs_images: bool = False

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Changes whenever the same input could get another reply by design."""

    @abstractmethod
    def read(self, given: ReaderInput) -> ReaderReply:
        """Reply to one round; raises :class:`~medvrag_core.errors.ModelError` when no reply could be had."""

    def close(self) -> None:
        """Release servers and handles."""
