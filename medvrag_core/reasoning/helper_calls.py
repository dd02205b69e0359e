"""Calls for tasks beside the reader's: one template, one call, one :class:`Step` that tells what came of it."""

from __future__ import annotations

from string import Template
from typing import Any

from medvrag_core.models.base import ChatModel, ChatRequest, Message
from medvrag_core.models.outcomes import CallError
from medvrag_core.models.reply_text import neutral, without_reasoning
from medvrag_core.reasoning.prompts import template, version_of
from medvrag_core.reasoning.reader import ended_by_model
from medvrag_core.records import Step, StepKind


def ask_helper(
    model: ChatModel,
    kind: StepKind,
    *,
    about: str = "",
    max_tokens: int | None = None,
    reply_schema: dict[str, Any] | None = None,
    **filled: str,
) -> Step:
    """One call with the template ``prompts/helper_<kind>.md``.

    Parameters
    ----------
    about : what the step is about
    reply_schema : JSON schema that the server holds the reply to, where the model's settings allow it
    filled : what stands in the places of the template; lines are kept, and each is made neutral, so that nothing that
        comes from a page, a question or a model can close a section of the prompt

    Returns
    -------
    The reply without its reasoning as ``text``. Where the model itself ended the call (truncated, refused, empty)
    ``reason`` says so, and ``text`` is empty.

    Raises
    ------
    CallError : the call failed otherwise
    """
    name = f"helper_{kind}"
    places = {key: "\n".join(neutral(line) for line in value.splitlines()) for key, value in filled.items()}
    request = ChatRequest(
        purpose=kind,
        prompt_version=version_of(name),
        messages=(Message(role="user", text=Template(template(name)).substitute(places).strip()),),
        max_tokens=max_tokens,
        reply_schema=reply_schema if model.settings.json_schema else None,
    )
    try:
        reply = model.complete(request)
    except CallError as error:
        reply = ended_by_model(error)
    whole = reply.finish_reason == "stop"
    return Step(
        kind=kind,
        about=about,
        text=without_reasoning(reply.text).strip() if whole else "",
        made_by=model.settings.model,
        reason="" if whole else reply.finish_reason,
        call=reply.call,
        prompt_tokens=reply.prompt_tokens,
        completion_tokens=reply.completion_tokens,
        attempts=reply.attempts,
        flags=reply.flags,
    )


def helper_versions(*kinds: StepKind) -> dict[str, str]:
    """Digest of the template of each kind, by purpose."""
    return {kind: version_of(f"helper_{kind}") for kind in kinds}
