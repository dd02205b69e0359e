"""What a call store holds, counted."""

from __future__ import annotations

from medvrag_core.models.store import CallStore, PromptGroup
from medvrag_core.records import Record


class CallsStatus(Record):
    """Numbers of a call store; ``outcomes`` add up to ``calls``."""

    calls: int
    outcomes: dict[str, int]
    prompts: tuple[PromptGroup, ...]
    prompt_tokens: int
    completion_tokens: int


def calls_status(store: CallStore) -> CallsStatus:
    """Count a store."""
    read = written = 0
    for call in store.calls():
        read += call.reply.prompt_tokens
        written += call.reply.completion_tokens
    return CallsStatus(
        calls=len(store),
        outcomes=store.outcomes(),
        prompts=tuple(store.prompts()),
        prompt_tokens=read,
        completion_tokens=written,
    )
