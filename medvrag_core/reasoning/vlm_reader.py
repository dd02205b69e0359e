"""A vision-language model as the reader: page images, summaries and the memory bank in one prompt (section 3.4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from medvrag_core.models.base import ChatModel, ChatRequest, Message, Purpose
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


@dataclass(frozen=True)
class ReaderCall:
    """One kind of call about the evidence of a round.

    Attributes
    ----------
    purpose : under which the call is stored
    version : digest of the templates behind ``system`` and ``prompt``
    system : standing instructions; empty for none
    prompt : the user turn; page images follow it
    logprobs : whether the reply must tell its ``mean_logprob``
    """

    purpose: Purpose
    version: str
    system: str
    prompt: Callable[[ReaderInput], str]
    logprobs: bool = False


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
        return self.ask(_call("reader", round_prompt), given)

    def decide(self, given: ReaderInput) -> ReaderReply:
        """As :meth:`read`, but the model is not asked to write the next query."""
        return self.ask(_call("reader", partial(round_prompt, option_blind=True)), given)

    def refine(self, given: ReaderInput) -> ReaderReply:
        """The next query with notes, from a prompt that has no place for options; raises as :meth:`read` does."""
        return self.ask(_call("refine", refine_prompt), given)

    def close(self) -> None:
        """Close the model."""
        self.model.close()

    def ask(self, call: ReaderCall, given: ReaderInput) -> ReaderReply:
        """A reply to another kind of call about the pages of a round; what is sent, told and raised is as in read."""
        if self.pages == "text":
            return self._ask_about_text(call, given)
        # Counted with every page named: leaving some out can only make the text shorter.
        text_tokens = self.model.count_tokens(f"{call.system}\n{call.prompt(given)}") + TEMPLATE_TOKENS
        shown = tuple(item for item in given.evidence if item.image)
        fit = self._fitted(shown, text_tokens)
        sent = shown[: len(fit.images)]
        user = Message(role="user", text=call.prompt(_with_pages(given, sent)), images=fit.images)
        reply = self._complete(call, user)
        seen = tuple(
            SeenPage(page_id=item.page_id, width=image.width, height=image.height, tokens=tokens)
            for item, image, tokens in zip(sent, fit.images, fit.tokens, strict=True)
        )
        flags = [*reply.flags]
        flags += ["pages_dropped"] if fit.dropped else []
        flags += ["pages_scaled"] if fit.factor < 1.0 else []
        return reply.model_copy(update={"seen": seen, "flags": tuple(flags)})

    def _ask_about_text(self, call: ReaderCall, given: ReaderInput) -> ReaderReply:
        """The same with pages as text; the lowest-ranked pages are left out until the prompt fits."""
        settings = self.model.settings
        room = settings.context_tokens - settings.max_tokens - TEMPLATE_TOKENS
        pages = tuple(item.model_copy(update={"image": ""}) for item in given.evidence)
        for count in range(len(pages), -1, -1):
            shown = given.model_copy(update={"evidence": pages[:count]})
            text = call.prompt(shown)
            if (needed := self.model.count_tokens(f"{call.system}\n{text}")) <= room:
                break
            if self.overflow == "refuse" or count == 0:
                raise CallError(
                    "rejected",
                    f"{count} pages as text do not fit: {needed} tokens for {max(room, 0)} (context "
                    f"{settings.context_tokens} - reply {settings.max_tokens} - template {TEMPLATE_TOKENS})",
                    way_out="raise 'reader_model.context_tokens', or lower 'loop.pages_shown', 'loop.summaries_shown' "
                    "or 'reader_model.max_tokens'; text is never cut",
                )
        reply = self._complete(call, Message(role="user", text=text))
        seen = tuple(
            SeenPage(page_id=item.page_id, width=0, height=0, tokens=self.model.count_tokens(item.text))
            for item in shown.evidence
        )
        flags = (*reply.flags, *(("pages_dropped",) if count < len(pages) else ()))
        return reply.model_copy(update={"seen": seen, "flags": flags})

    def _complete(self, call: ReaderCall, user: Message) -> ReaderReply:
        standing = [Message(role="system", text=call.system)] if call.system else []
        request = ChatRequest(
            purpose=call.purpose,
            prompt_version=call.version,
            messages=(*standing, user),
            logprobs=call.logprobs,
        )
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


def _call(purpose: ReaderPurpose, prompt: Callable[[ReaderInput], str]) -> ReaderCall:
    return ReaderCall(purpose, prompt_version(purpose), system_prompt(purpose), prompt)


def _with_pages(given: ReaderInput, sent: tuple[EvidenceItem, ...]) -> ReaderInput:
    """The round without the pages that are not sent; evidence in text stays."""
    kept = {item.evidence_id for item in sent}
    evidence = tuple(item for item in given.evidence if not item.image or item.evidence_id in kept)
    return given if evidence == given.evidence else given.model_copy(update={"evidence": evidence})
