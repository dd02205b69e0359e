"""A vision-language model as the reader: page images, summaries and the memory bank in one prompt (section 3.4)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal

from medvrag_core.models.base import ChatModel, ChatRequest, Message
from medvrag_core.models.budget import FLOOR_PIXELS, Fit, Overflow, Room, fit_images, page_cost
from medvrag_core.models.images import sized
from medvrag_core.models.openai_client import digest
from medvrag_core.models.outcomes import CallError
from medvrag_core.reasoning.prompts import (
    ReaderPurpose,
    prompt_version,
    prompt_versions,
    refine_prompt,
    round_prompt,
    system_prompt,
)
from medvrag_core.reasoning.reader import Reader, ended_by_model
from medvrag_core.records import EvidenceItem, ReaderInput, ReaderReply, SeenPage

TEMPLATE_TOKENS = 32
"""For the role names and marks that a chat template puts around two turns."""


class VlmReader(Reader):
    """Asks a vision-language model once a round, and once more for a refined query in the option-blind arm.

    Parameters
    ----------
    model : the door to the model; its settings bound the prompt, and the number and pixels of images
    overflow : what gives way when not all pages fit, see :func:`medvrag_core.models.budget.fit_images`
    pages : ``images``, or ``text`` for a model without eyes: it gets the text of the same pages, whole or not at all
    """

    name = "vlm"

    def __init__(
        self,
        model: ChatModel,
        overflow: Overflow = "drop_pages",
        pages: Literal["images", "text"] = "images",
    ) -> None:
        self.model = model
        self.overflow = overflow
        self.pages = pages
        self.needs_images = pages == "images"

    @property
    def fingerprint(self) -> str:
        """Digest of the model with its sampling, of the prompt templates, and of how pages are made to fit."""
        return digest(
            self.name,
            self.model.fingerprint,
            self.overflow,
            self.pages,
            str(FLOOR_PIXELS),
            *sorted(prompt_versions().values()),
        )

    def read(self, given: ReaderInput) -> ReaderReply:
        """One reply of the model.

        Pages that were sent are listed in ``seen``; where some had to be left out or made smaller the reply is flagged
        ``pages_dropped`` or ``pages_scaled``. A reply that the model itself cut short, refused or left empty has
        no text and says so in ``finish_reason``.

        Raises
        ------
        ModelError
            There is no reply, or the text of the prompt does not fit the context; text is never cut.
        InputError
            A page image is missing or broken.
        """
        return self._ask("reader", given, round_prompt)

    def decide(self, given: ReaderInput) -> ReaderReply:
        """As :meth:`read`, but the model is not asked to write the next query."""
        return self._ask("reader", given, partial(round_prompt, option_blind=True))

    def refine(self, given: ReaderInput) -> ReaderReply:
        """The next query with notes, from a prompt that has no place for options; raises as :meth:`read` does."""
        return self._ask("refine", given, refine_prompt)

    def close(self) -> None:
        """Close the model."""
        self.model.close()

    def _ask(self, purpose: ReaderPurpose, given: ReaderInput, prompt: Callable[[ReaderInput], str]) -> ReaderReply:
        system = system_prompt(purpose)
        if self.pages == "text":
            return self._ask_about_text(purpose, given, prompt)
        # Counted with every page named: leaving some out can only make the text shorter.
        text_tokens = self.model.count_tokens(f"{system}\n{prompt(given)}") + TEMPLATE_TOKENS
        shown = tuple(item for item in given.evidence if item.image)
        fit = self._fitted(shown, text_tokens)
        sent = shown[: len(fit.images)]
        user = Message(role="user", text=prompt(_with_pages(given, sent)), images=fit.images)
        reply = self._complete(purpose, Message(role="system", text=system), user)
        seen = tuple(
            SeenPage(page_id=item.page_id, width=image.width, height=image.height, tokens=tokens)
            for item, image, tokens in zip(sent, fit.images, fit.tokens, strict=True)
        )
        flags = [*reply.flags]
        flags += ["pages_dropped"] if fit.dropped else []
        flags += ["pages_scaled"] if fit.factor < 1.0 else []
        return reply.model_copy(update={"seen": seen, "flags": tuple(flags)})

    def _ask_about_text(
        self, purpose: ReaderPurpose, given: ReaderInput, prompt: Callable[[ReaderInput], str]
    ) -> ReaderReply:
        """The same with pages as text; the lowest-ranked pages are left out until the prompt fits."""
        system = system_prompt(purpose)
        settings = self.model.settings
        room = settings.context_tokens - settings.max_tokens - TEMPLATE_TOKENS
        pages = tuple(item.model_copy(update={"image": ""}) for item in given.evidence)
        for count in range(len(pages), -1, -1):
            shown = given.model_copy(update={"evidence": pages[:count]})
            text = prompt(shown)
            if (needed := self.model.count_tokens(f"{system}\n{text}")) <= room:
                break
            if self.overflow == "refuse" or count == 0:
                raise CallError(
                    "rejected",
                    f"{count} pages as text do not fit: {needed} tokens for {max(room, 0)} (context "
                    f"{settings.context_tokens} - reply {settings.max_tokens} - template {TEMPLATE_TOKENS})",
                    way_out="raise 'reader_model.context_tokens', or lower 'loop.pages_shown', 'loop.summaries_shown' "
                    "or 'reader_model.max_tokens'; text is never cut",
                )
        reply = self._complete(purpose, Message(role="system", text=system), Message(role="user", text=text))
        seen = tuple(
            SeenPage(page_id=item.page_id, width=0, height=0, tokens=self.model.count_tokens(item.text))
            for item in shown.evidence
        )
        flags = (*reply.flags, *(("pages_dropped",) if count < len(pages) else ()))
        return reply.model_copy(update={"seen": seen, "flags": flags})

    def _complete(self, purpose: ReaderPurpose, *messages: Message) -> ReaderReply:
        request = ChatRequest(purpose=purpose, prompt_version=prompt_version(purpose), messages=messages)
        try:
            return self.model.complete(request)
        except CallError as error:
            return ended_by_model(error)

    def _fitted(self, shown: tuple[EvidenceItem, ...], text_tokens: int) -> Fit:
        settings = self.model.settings
        room = Room(
            context=settings.context_tokens, reserve=settings.max_tokens, text=text_tokens, images=settings.max_images
        )
        try:
            images = [sized(Path(item.image), settings.max_pixels, settings.min_pixels) for item in shown]
            return fit_images(images, room, page_cost(settings), self.overflow)
        except ValueError as error:
            raise CallError("rejected", f"pages {', '.join(i.page_id for i in shown)}: {error}") from None


def _with_pages(given: ReaderInput, sent: tuple[EvidenceItem, ...]) -> ReaderInput:
    """The round without the pages that are not sent; evidence in text stays."""
    kept = {item.evidence_id for item in sent}
    evidence = tuple(item for item in given.evidence if not item.image or item.evidence_id in kept)
    return given if evidence == given.evidence else given.model_copy(update={"evidence": evidence})
