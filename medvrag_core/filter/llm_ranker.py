"""A language model ranks the summaries of one shard (paper section 3.3; the wording of the prompt is ours)."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from functools import cache
from importlib import resources
from string import Template
from typing import Any

from medvrag_core.errors import ModelError, SettingsError
from medvrag_core.filter.base import Candidate, NoRankingError, Phase, Ranking, Shard, ShardRanker
from medvrag_core.filter.budget import SHORTEST, Budget, shards_in_budget
from medvrag_core.models.base import ChatModel, ChatRequest, Message
from medvrag_core.models.outcomes import CallError
from medvrag_core.models.reply_text import first_json, neutral, without_reasoning
from medvrag_core.runs.side_by_side import side_by_side

log = logging.getLogger(__name__)

_TOKENS_PER_NUMBER = 6
_TOKENS_AROUND = 128
_TOKENS_OF_THE_CHAT_TEMPLATE = 64
"""Role marks, and the system prompt that some templates add by themselves (about 20 tokens for Qwen2.5 and SmolLM2)."""


class LlmRanker(ShardRanker):
    """One call a shard; pages are shown by number, so a reply stays short and cannot invent an id.

    Parameters
    ----------
    model : the door to the model; run it without thinking, a trace would cost more than the ranking
    side_by_side : calls of one question at one time
    """

    def __init__(self, model: ChatModel, side_by_side: int = 1) -> None:
        self.model = model
        self.side_by_side = side_by_side
        self._line_tokens: dict[str, int] = {}

    def shards(self, query: str, ordered: Sequence[Candidate], size: int, keep: int) -> list[Shard]:
        """At most ``size`` summaries, and no more than prompt and reply have room for in the model's context.

        Raises
        ------
        SettingsError
            The context has no room for a single summary, or the server counts no tokens.
        CallError
            The context has no room beside this query (``rejected``), or counting failed for now.
        """
        width = len(str(min(size, len(ordered))))
        self._count_ahead([c.summary for c in ordered])

        def line(summary: str) -> int:
            return width + self._tokens_after_the_number(summary)

        def reply(summaries: int) -> int:
            return self.reply_tokens(min(keep, summaries))

        least = line(SHORTEST) + reply(1)
        room = self.model.settings.context_tokens - self._tokens_of_the_frame(query, keep)
        if room < least:
            if self.model.settings.context_tokens - self._tokens_of_the_frame("", keep) < least:
                raise SettingsError(
                    f"a context of {self.model.settings.context_tokens} tokens has no room for a summary in a filter"
                    " call",
                    way_out="raise 'filter_model.context_tokens'",
                )
            raise CallError("rejected", "the query leaves no room for a summary in the filter model's context")
        return shards_in_budget(ordered, size, Budget(room=room, line=line, reply=reply))

    def rank(self, query: str, shard: Sequence[Candidate], keep: int, phase: Phase = "map") -> Ranking:
        """Page ids as the model ranks them.

        Numbers that the shard does not have are returned as they came, so that the caller can count them. Raises
        CallError as the model does, and NoRankingError when the reply holds no ranking.
        """
        keep = min(keep, len(shard))
        reply = self.model.complete(
            ChatRequest(
                purpose="filter_map" if phase == "map" else "filter_reduce",
                prompt_version=prompt_version(),
                messages=(Message(role="user", text=ranking_prompt(query, shard, keep)),),
                max_tokens=self.reply_tokens(keep),
                reply_schema=ranking_schema(len(shard), keep) if self.model.settings.json_schema else None,
            )
        )
        made = Ranking(
            page_ids=(),
            call=reply.call,
            prompt_tokens=reply.prompt_tokens,
            completion_tokens=reply.completion_tokens,
            flags=reply.flags,
        )
        try:
            numbers = parse_ranking(reply.text)
        except ModelError as error:
            raise NoRankingError(error.problem, made) from None
        ids = [c.page_id for c in shard]
        named = tuple(ids[n - 1] if 1 <= n <= len(ids) else f"no page {n}" for n in numbers)
        return made.model_copy(update={"page_ids": named})

    def reply_tokens(self, keep: int) -> int:
        """Longest reply that is asked for; a JSON object with ``keep`` numbers, with room to spare."""
        return min(_TOKENS_AROUND + _TOKENS_PER_NUMBER * keep, self.model.settings.max_tokens)

    def _tokens_of_the_frame(self, query: str, keep: int) -> int:
        return _TOKENS_OF_THE_CHAT_TEMPLATE + self._count(_prompt("", query, keep))

    def _tokens_after_the_number(self, summary: str) -> int:
        # Lines are counted one by one, with the end of the line. Tokenizers split before a number that begins a
        # line, so the sum bounds the tokens of all lines together; a number has no more tokens than digits.
        known = self._line_tokens.get(summary)
        if known is None:
            known = self._line_tokens[summary] = self._count(f". {neutral(summary)}\n")
        return known

    def _count_ahead(self, summaries: Sequence[str]) -> None:
        """Count what is not known yet side by side; the first question of a run counts thousands over the server."""
        unknown = [summary for summary in dict.fromkeys(summaries) if summary not in self._line_tokens]
        if self.side_by_side > 1:
            for _ in side_by_side(self._tokens_after_the_number, unknown, at_once=self.side_by_side):
                pass

    def _count(self, text: str) -> int:
        try:
            return self.model.count_tokens(text)
        except CallError as error:
            if error.kind == "rejected":  # Every question would fall back: no fault of a call, but of the settings.
                raise SettingsError(error.problem, way_out=error.way_out) from None
            raise


def ranking_prompt(query: str, shard: Sequence[Candidate], keep: int) -> str:
    """The prompt of one map or reduce call; summaries are made neutral so that none can close its section."""
    lines = "\n".join(f"{n}. {neutral(c.summary)}" for n, c in enumerate(shard, 1))
    return _prompt(lines, query, min(keep, len(shard)))


def ranking_schema(shown: int, keep: int) -> dict[str, Any]:
    """JSON schema of a reply: at most ``keep`` numbers from 1 to ``shown``."""
    number = {"type": "integer", "minimum": 1, "maximum": shown}
    return {
        "type": "object",
        "properties": {"ranking": {"type": "array", "items": number, "minItems": 1, "maxItems": keep}},
        "required": ["ranking"],
        "additionalProperties": False,
    }


def prompt_version() -> str:
    """Digest of the template, twelve hex digits."""
    return hashlib.sha256(_template().encode()).hexdigest()[:12]


def parse_ranking(text: str) -> list[int]:
    """Numbers of a reply, in its order.

    An object with ``ranking`` is looked for first, then a bare list, so that a mark like ``[1]`` before the object is
    not taken for the ranking.

    >>> parse_ranking('<think>9 first?</think> As in [1]: {"ranking": [12, "4", 88]} done')
    [12, 4, 88]

    Raises
    ------
    ModelError
        There is no JSON object with ``ranking``, or the list holds no whole number.
    """
    spoken = without_reasoning(text)
    value = first_json(spoken[max(0, spoken.find("{")) :])
    if not (isinstance(value, dict) and "ranking" in value):
        value = first_json(spoken)
    listed = value.get("ranking") if isinstance(value, dict) else value
    if _number(listed) is not None:
        log.info("a filter model's ranking was a single number in place of a list")
        listed = [listed]
    numbers = [n for n in map(_number, listed) if n is not None] if isinstance(listed, list) else []
    if not numbers:
        raise ModelError("the filter model's reply holds no ranking")
    return numbers


def _prompt(lines: str, query: str, keep: int) -> str:
    return Template(_template()).substitute(summaries=lines, query=neutral(query), keep=keep)


@cache
def _template() -> str:
    return (resources.files("medvrag_core.filter") / "prompts" / "rank.md").read_text(encoding="utf-8")


def _number(item: Any) -> int | None:
    if isinstance(item, bool):
        return None
    if isinstance(item, int):
        return item
    return int(item) if isinstance(item, str) and item.strip().isdecimal() and len(item) < 10 else None
