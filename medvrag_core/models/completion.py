"""Which replies count: assembles a streamed reply and lets through only what a model finished by itself.

A stream that breaks off ends the official client's iterator without an error, engines report aborted requests with
status 200, and a token limit looks like an answer. So each reply must show its finish reason, the end of its stream,
the expected model and believable token counts; anything else is a :class:`CallError` of a named kind.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import Any

from medvrag_core.models.outcomes import CallError
from medvrag_core.records import ReaderReply
from medvrag_core.settings import ModelSettings

log = logging.getLogger(__name__)

MAX_CHARACTERS = 2_000_000
_LEAST_LOGPROB = -1e6  # far below what any engine gives a token that it chose; no engine means minus infinity
_ROUNDING = 1e-4  # a certain token may come out a little above 0 in single precision


class Assembly:
    """One reply in the making; feed it chunks, or one whole completion, as plain JSON objects.

    Only the fields that decide are read, since servers differ in all others.
    """

    def __init__(self) -> None:
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._characters = 0
        self._refused = False
        self._finish: str | None = None
        self._models: set[str] = set()
        self._tokens: tuple[int, int] | None = None
        self._logprobs: list[Any] = []
        self._choice_seen = False

    def add(self, chunk: Mapping[str, Any]) -> None:
        """Take in one chunk (``delta``) or a whole completion (``message``).

        Raises CallError ``malformed`` for what is no completion, for an error object, and for a reply without end.
        """
        if chunk.get("error"):
            raise CallError("malformed", f"the server sent an error with status 200: {_message(chunk['error'])}")
        choices = chunk.get("choices")
        if not isinstance(choices, list):
            raise CallError("malformed", "the server's reply holds no choices")
        if isinstance(model := chunk.get("model"), str) and model:
            self._models.add(model)
        usage = chunk.get("usage")
        if isinstance(usage, Mapping):
            self._tokens = (_whole(usage.get("prompt_tokens")), _whole(usage.get("completion_tokens")))
        for choice in choices[:1]:
            self._add_choice(choice if isinstance(choice, Mapping) else {})

    def _add_choice(self, choice: Mapping[str, Any]) -> None:
        self._choice_seen = True
        part = choice.get("delta") or choice.get("message") or {}
        if not isinstance(part, Mapping):
            raise CallError("malformed", "the server's reply holds a choice that is no message")
        for field, into in (("content", self._text), ("reasoning_content", self._reasoning)):
            self._take(part.get(field), into)
        if "reasoning_content" not in part:
            self._take(part.get("reasoning"), self._reasoning)
        self._refused = self._refused or bool(part.get("refusal"))
        listed = choice.get("logprobs")
        if isinstance(listed, Mapping) and isinstance(steps := listed.get("content"), list):
            self._logprobs += [step.get("logprob") if isinstance(step, Mapping) else None for step in steps]
        if choice.get("finish_reason"):
            self._finish = str(choice["finish_reason"])

    def _take(self, text: Any, into: list[str]) -> None:
        if isinstance(text, str) and text:
            into.append(text)
            self._characters += len(text)
            if self._characters > MAX_CHARACTERS:
                raise CallError("malformed", f"the reply has more than {MAX_CHARACTERS:,} characters")

    def finished(
        self, settings: ModelSettings, *, max_tokens: int, least_prompt: int = 0, logprobs: bool = False
    ) -> ReaderReply:
        """The reply, once the stream has ended.

        Parameters
        ----------
        settings : which model is expected, whether token counts are demanded, whether it may think
        max_tokens : limit that was asked for
        least_prompt : tokens that the images of the prompt have; fewer in all mean that the server dropped some
        logprobs : whether log-probabilities were asked for; the reply then tells their mean, over all tokens that the
            server lists, with reasoning and the mark of the end where it lists those. vLLM and llama.cpp list what the
            model gave a token before temperature and penalties. The flag ``logprobs_partial`` says that more than one
            token is not listed (in a stream, llama.cpp leaves out those that it does not send as text of their own)

        Raises
        ------
        CallError
            ``malformed`` (no choice, no finish reason, no believable counts, no usable log-probabilities),
            ``aborted``, ``truncated``, ``refused``, ``empty`` or ``wrong_model``.
        """
        spent = self._tokens or (0, 0)
        if not self._choice_seen:
            raise CallError("malformed", "the server's reply holds no choice", tokens=spent)
        if self._finish is None:
            raise CallError("malformed", "the stream ended before the reply was finished", tokens=spent)
        self._check_model(settings)
        said = "".join(self._text)
        if self._finish == "length":
            # A server with a full context cuts a reply short of the limit that was asked for, and says so no other way.
            full = 0 < spent[1] < max_tokens
            what, way_out = (
                ("when the context was full", "raise 'context_tokens' and the server's context, or show less")
                if full
                else ("at the token limit", "raise 'max_tokens'")
            )
            raise CallError("truncated", f"the reply was cut {what}", way_out=way_out, tokens=spent, text=said)
        if self._finish == "content_filter" or self._refused:
            raise CallError("refused", "the model refused to reply", tokens=spent, text=said)
        if self._finish != "stop":
            raise CallError("aborted", f"the reply ended with '{self._finish[:40]}'", tokens=spent)
        text, flags = self._spoken(settings)
        if not text.strip():
            raise CallError("empty", "the reply is empty", tokens=spent)
        self._check_usage(settings, text, max_tokens, least_prompt)
        mean_logprob = self._mean_logprob(spent) if logprobs else None
        if logprobs and len(self._logprobs) < spent[1] - 1:
            flags = (*flags, "logprobs_partial")
        return ReaderReply(
            text=text,
            finish_reason="stop",
            model=settings.model,
            prompt_tokens=spent[0],
            completion_tokens=spent[1],
            flags=flags,
            mean_logprob=mean_logprob,
        )

    def _mean_logprob(self, spent: tuple[int, int]) -> float:
        if not self._logprobs:
            raise CallError(
                "malformed",
                "the reply came without log-probabilities, which were asked for",
                way_out="ask a server that tells them (vLLM and llama.cpp do), or choose a system that needs none",
                tokens=spent,
            )
        values = [_logprob(value) for value in self._logprobs]
        if None in values:
            raise CallError(
                "malformed",
                f"the reply holds the log-probability {str(self._logprobs[values.index(None)])[:40]}",
                way_out="look at the server; log-probabilities are numbers, 0 at most",
                tokens=spent,
            )
        return math.fsum(value for value in values if value is not None) / len(values)

    def _spoken(self, settings: ModelSettings) -> tuple[str, tuple[str, ...]]:
        """Text of the reply; with thinking off some servers put all of it into the reasoning field."""
        text, reasoning = "".join(self._text), "".join(self._reasoning)
        if text.strip() or settings.thinking or not reasoning.strip():
            return text, ()
        log.warning("the reply stood in the reasoning field although thinking is off")
        return reasoning, ("reply_in_reasoning_field",)

    def _check_model(self, settings: ModelSettings) -> None:
        expected = settings.reported_as or settings.model
        strangers = sorted(self._models - {expected})
        if strangers:
            raise CallError(
                "wrong_model",
                f"{settings.base_url}: '{strangers[0][:120]}' replied where '{expected}' was asked",
                way_out="correct 'model', or put the name that the server reports into 'reported_as'",
            )

    def _check_usage(self, settings: ModelSettings, text: str, max_tokens: int, least_prompt: int) -> None:
        if self._tokens is None:
            if settings.usage:
                raise CallError(
                    "malformed",
                    "the reply came without token counts, so nothing shows that it is whole",
                    way_out="set 'usage: false' for a server that sends none",
                )
            return
        prompt, written = self._tokens
        if prompt <= max(0, least_prompt - 1) or written <= 0 or written > max_tokens:
            raise CallError(
                "malformed",
                f"the token counts of the reply cannot be right: {prompt} in the prompt (at least {least_prompt}), "
                f"{written} written (at most {max_tokens}), {len(text)} characters",
                tokens=self._tokens,
            )


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _logprob(value: Any) -> float | None:
    """A log-probability as a number; None for what is none."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return min(float(value), 0.0) if number and _LEAST_LOGPROB <= value <= _ROUNDING else None


def _message(error: Any) -> str:
    text = error.get("message") if isinstance(error, Mapping) else error
    return " ".join(str(text).split())[:300]
