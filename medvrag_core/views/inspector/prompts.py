"""What the models behind a trace were sent, out of the call store of its run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import chain

from medvrag_core.models.store import StoredCall
from medvrag_core.records import Trace
from medvrag_core.systems.resources import Resources
from medvrag_core.views.inspector.records import FilterExchanges, PromptMessage, StoredExchange, StoredPrompt


def stored_prompts(run: Resources, trace: Trace) -> tuple[StoredPrompt, ...]:
    """The prompts of readers and of further steps; none for those that ask no model, or whose store is gone.

    Raises
    ------
    InputError : the call store is damaged
    """
    keys = chain.from_iterable(
        (round_.reply.call, round_.refinement.call if round_.refinement else "", *(step.call for step in round_.steps))
        for round_ in trace.rounds
    )
    return tuple(map(_prompt, _calls(run, keys)))


def filter_exchanges(run: Resources, trace: Trace) -> FilterExchanges:
    """The calls of the filter in all rounds; errors as :func:`stored_prompts`."""
    keys = (call.call for round_ in trace.rounds for call in round_.filter.calls)
    return FilterExchanges(
        exchanges=tuple(
            StoredExchange(prompt=_prompt(call), outcome=call.outcome, reply=call.reply.text)
            for call in _calls(run, keys)
        )
    )


def has_filter_exchanges(run: Resources, trace: Trace) -> bool:
    """Whether the filter asked a model, and there is a store that may know what it was sent."""
    asked = any(call.call for round_ in trace.rounds for call in round_.filter.calls)
    return asked and run.workspace.calls.is_file()


def _calls(run: Resources, keys: Iterable[str]) -> Iterator[StoredCall]:
    wanted = dict.fromkeys(filter(None, keys))
    if wanted and run.workspace.calls.is_file():
        yield from filter(None, map(run.calls.get, wanted))


def _prompt(call: StoredCall) -> StoredPrompt:
    messages = tuple(
        PromptMessage(role=one["role"], text=one["text"], images=len(one["images"]))
        for one in json.loads(call.request)["messages"]
    )
    return StoredPrompt(call=call.key, model=call.model, messages=messages)
