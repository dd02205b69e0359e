"""A vision-language model as the reader: page images, summaries and the memory bank in one prompt (section 3.4)."""

from __future__ import annotations

from pathlib import Path

from medvrag_core.models.base import ChatModel, Message
from medvrag_core.models.openai_client import digest
from medvrag_core.reasoning.prompts import prompt_version, round_prompt, system_prompt
from medvrag_core.reasoning.reader import Reader
from medvrag_core.records import ReaderInput, ReaderReply


class VlmReader(Reader):
    """Asks a vision-language model once a round.

    Parameters
    ----------
    model : the door to the model; its settings cap the pixels of one image
    """

    name = "vlm"
    needs_images = True

    def __init__(self, model: ChatModel) -> None:
        self.model = model

    @property
    def fingerprint(self) -> str:
        """Digest of the model with its sampling and of the prompt templates."""
        return digest(self.name, self.model.fingerprint, prompt_version())

    def read(self, given: ReaderInput) -> ReaderReply:
        """One reply of the model; raises :class:`~medvrag_core.errors.ModelError` when there is none."""
        return self.model.complete(reader_messages(given))

    def close(self) -> None:
        """Close the model."""
        self.model.close()


def reader_messages(given: ReaderInput) -> tuple[Message, ...]:
    """System and user turn; images stand in the order of the evidence, which the prompt lists by page id."""
    images = tuple(Path(item.image) for item in given.evidence if item.image)
    return (
        Message(role="system", text=system_prompt()),
        Message(role="user", text=round_prompt(given), images=images),
    )
