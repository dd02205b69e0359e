"""Before anything is spent: which stored calls a changed prompt makes worthless."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from medvrag_core.errors import MismatchError
from medvrag_core.models.store import CallStore
from medvrag_core.records import Record, Trace


class ChangedPrompt(Record):
    """Calls of one purpose that were made with a prompt that is no longer there."""

    purpose: str
    stored_version: str
    current_version: str
    calls: int
    questions: tuple[str, ...] = ()


def changed_prompts(
    store: CallStore, current: Mapping[str, str], traces: Sequence[Trace] = ()
) -> tuple[ChangedPrompt, ...]:
    """Stored calls of purposes of which the current prompt has none.

    A purpose counts once it was never asked with its current prompt: after the first new call the change is known.

    Parameters
    ----------
    current : digest of the prompt in force, by purpose
    traces : stored answers, to name the questions behind the calls
    """
    groups = store.prompts()
    known = {(group.purpose, group.prompt_version) for group in groups}
    found = []
    for group in groups:
        version = current.get(group.purpose)
        if version is None or (group.purpose, version) in known:
            continue
        keys = store.keys_with_prompt(group.purpose, group.prompt_version)
        behind = tuple(sorted({trace.question.id for trace in traces if keys & calls_of(trace)}))
        found.append(
            ChangedPrompt(
                purpose=group.purpose,
                stored_version=group.prompt_version,
                current_version=version,
                calls=group.calls,
                questions=behind,
            )
        )
    return tuple(found)


PAY_AGAIN = "pay for them again (--set calls.accept_changed_prompts=true), or restore the prompt"


def refuse_changed_prompts(changed: Sequence[ChangedPrompt], *, way_out: str = PAY_AGAIN) -> None:
    """Raise MismatchError that names every changed prompt, its calls and questions; nothing was asked yet."""
    if not changed:
        return
    told = []
    for one in changed:
        text = f"prompt of '{one.purpose}' {one.stored_version} -> {one.current_version}: {one.calls} stored calls"
        if one.questions:
            more = f" and {len(one.questions) - 5} more" if len(one.questions) > 5 else ""
            text += f" behind questions {', '.join(one.questions[:5])}{more}"
        told.append(text)
    raise MismatchError(
        f"changed prompts make stored calls worthless ({'; '.join(told)})",
        way_out=way_out,
    )


def calls_of(trace: Trace) -> set[str]:
    """Keys of all calls behind a trace."""
    keys = {call.call for round_ in trace.rounds for call in round_.filter.calls}
    for round_ in trace.rounds:
        keys.add(round_.reply.call)
        keys.update(step.call for step in round_.steps)
        if round_.refinement is not None:
            keys.add(round_.refinement.call)
    return keys - {""}
