"""The seam between evidence and a reply."""

from __future__ import annotations

from abc import ABC, abstractmethod

from medvrag_core.models.outcomes import CallError
from medvrag_core.records import ReaderInput, ReaderReply


class Reader(ABC):
    """Reads the evidence of one round and replies in the format of ``prompts/reader_round.md``.

    The reply text holds either ``<answer>LABEL</answer>``, or ``<query_update>...</query_update>``
    with ``<notes>{"findings": [...], "note": "..."}</notes>``; nothing else about the reader is
    known to the loop, so embedded readers and vision-language models are interchangeable.
    A reader may be asked from several threads at a time.
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

    def decide(self, given: ReaderInput) -> ReaderReply:
        """An answer, or the wish for more, in the option-blind arm; the loop reads neither query nor notes in it."""
        return self.read(given)

    @abstractmethod
    def refine(self, given: ReaderInput) -> ReaderReply:
        """The next query with notes, from evidence and question alone; ``given.question.options`` is empty.

        Raises :class:`~medvrag_core.errors.ModelError` when no reply could be had.
        """

    def close(self) -> None:
        """Release servers and handles."""


def ended_by_model(error: CallError) -> ReaderReply:
    """What a call comes to that the model itself ended without a whole reply: truncated, refused or empty.

    Its text so far is kept for people and is never read as a reply; the tokens it took are charged. Any other error is
    raised again.
    """
    if not error.final:
        raise error
    return ReaderReply(
        text=error.text,
        finish_reason=error.kind,
        prompt_tokens=error.prompt_tokens,
        completion_tokens=error.completion_tokens,
        call=error.call,
        attempts=error.attempts,
    )
