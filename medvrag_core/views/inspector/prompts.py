"""What the models behind a trace were sent, out of the call store of its run."""

from __future__ import annotations

import json
from itertools import chain

from medvrag_core.records import Trace
from medvrag_core.systems.resources import Resources
from medvrag_core.views.inspector.records import PromptMessage, StoredPrompt


def stored_prompts(run: Resources, trace: Trace) -> tuple[StoredPrompt, ...]:
    """The prompts of readers and of further steps; none for those that ask no model, or whose store is gone.

    Those of the filter are left out: they hold the summaries of all candidates.

    Raises
    ------
    InputError : the call store is damaged
    """
    keys = chain.from_iterable(
        (round_.reply.call, round_.refinement.call if round_.refinement else "", *(step.call for step in round_.steps))
        for round_ in trace.rounds
    )
    wanted = list(dict.fromkeys(filter(None, keys)))
    if not wanted or not run.workspace.calls.is_file():
        return ()
    found = []
    for key in wanted:
        call = run.calls.get(key)
        if call is not None:
            messages = tuple(
                PromptMessage(role=one["role"], text=one["text"], images=len(one["images"]))
                for one in json.loads(call.request)["messages"]
            )
            found.append(StoredPrompt(call=key, model=call.model, messages=messages))
    return tuple(found)
