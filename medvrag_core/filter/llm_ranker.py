"""A language model ranks the summaries of one shard (paper section 3.3; the wording of the prompt is ours)."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from string import Template
from typing import Any

from medvrag_core.errors import ModelError
from medvrag_core.filter.base import Candidate, ShardRanker
from medvrag_core.models.base import ChatModel, Message
from medvrag_core.models.reply_text import first_json, neutral, without_reasoning

_TOKENS_PER_NUMBER = 6
_TOKENS_AROUND = 128


class LlmRanker(ShardRanker):
    """One call a shard; pages are shown by number, so a reply stays short and cannot invent an id.

    Parameters
    ----------
    model : the door to the model; run it without thinking, a trace would cost more than the ranking
    """

    def __init__(self, model: ChatModel) -> None:
        self.model = model

    def rank(self, query: str, shard: Sequence[Candidate], keep: int) -> list[str]:
        """Page ids as the model ranks them; raises ModelError when the reply holds no ranking.

        Numbers that the shard does not have are returned as they came, so that the caller can count them.
        """
        message = Message(role="user", text=ranking_prompt(query, shard, keep))
        reply = self.model.complete((message,), max_tokens=_TOKENS_AROUND + _TOKENS_PER_NUMBER * keep)
        ids = [c.page_id for c in shard]
        return [ids[n - 1] if 1 <= n <= len(ids) else f"no page {n}" for n in parse_ranking(reply.text)]


def ranking_prompt(query: str, shard: Sequence[Candidate], keep: int) -> str:
    """The prompt of one map or reduce call; summaries are made neutral so that none can close its section."""
    text = (resources.files("medvrag_core.filter") / "prompts" / "rank.md").read_text(encoding="utf-8")
    return Template(text).substitute(
        summaries="\n".join(f"{n}. {neutral(c.summary)}" for n, c in enumerate(shard, 1)),
        query=neutral(query),
        keep=min(keep, len(shard)),
    )


def parse_ranking(text: str) -> list[int]:
    """Numbers of a reply, in its order.

    >>> parse_ranking('<think>9 first?</think> {"ranking": [12, "4", 88]} done')
    [12, 4, 88]

    Raises
    ------
    ModelError
        There is no JSON object with a list ``ranking``, or the list holds no whole number.
    """
    value = first_json(without_reasoning(text))
    listed = value.get("ranking") if isinstance(value, dict) else value
    numbers = [n for n in map(_number, listed) if n is not None] if isinstance(listed, list) else []
    if not numbers:
        raise ModelError("the filter model's reply holds no ranking")
    return numbers


def _number(item: Any) -> int | None:
    if isinstance(item, bool):
        return None
    if isinstance(item, int):
        return item
    return int(item) if isinstance(item, str) and item.strip().isdecimal() and len(item) < 10 else None
