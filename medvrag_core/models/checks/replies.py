"""Checks of short calls: a reply as a run asks for it, JSON under a schema, no thinking, log-likelihoods."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from medvrag_core.models.base import ChatRequest, Message
from medvrag_core.models.checks.base import Finding, Role, Said, past_a_closed_connection
from medvrag_core.models.local_server import OptionScorer
from medvrag_core.models.openai_client import server_root
from medvrag_core.models.outcomes import CallError
from medvrag_core.models.reply_text import neutral, without_reasoning

_SHORT = 16
_LONG = 256
_BLANKS = 64
"""So many blanks in a row are no layout but a run-on (case BC-18)."""

_CHOICES = 3
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "ranking": {
            "type": "array",
            "items": {"type": "integer", "minimum": 1, "maximum": _CHOICES},
            "minItems": 1,
            "maxItems": _CHOICES,
        }
    },
    "required": ["ranking"],
    "additionalProperties": False,
}
"""Of the form that the filter asks for; no reply to :data:`_PROSE` has it by chance."""

_EMPTY_THOUGHT = re.compile(r"(?:<think>|\A)\s*</think>", re.IGNORECASE)
_PROSE = "Write one short sentence about the sea. Do not write JSON."
_RIDDLE = "Tom has 3 apples and gives away one more than he keeps. How many does he keep? Reply with the number alone."


def check_reply(role: Role) -> Finding:
    """One call as a run makes it: finished, by the right model, with token counts."""
    request = ChatRequest(
        purpose="check",
        prompt_version="",
        messages=(Message(role="user", text="Reply with the word ready."),),
        max_tokens=_SHORT,
    )
    try:
        reply = past_a_closed_connection(lambda: role.chat.complete(request))
    except CallError as error:
        if error.kind != "truncated":
            return role.failed(error)
        written, cut = error.completion_tokens, ", cut at the limit as may be"
    else:
        written, cut = reply.completion_tokens, ""
    if written:
        return Finding("ok", f"a call ends properly, with {written} tokens written{cut}")
    if role.settings.usage:
        return Finding(
            "failed", "the reply came without token counts", f"set '{role.name}.usage: false' for a server without them"
        )
    return Finding("ok", f"a call ends properly{cut}; token counts are not asked for")


def check_schema(role: Role) -> Finding:
    """Whether a JSON schema holds a model that is asked for something else."""
    if not role.settings.json_schema:
        return Finding("skipped", f"'{role.name}.json_schema' is off")
    off = f"set '{role.name}.json_schema: false'"
    try:
        said = role.ask(_PROSE, max_tokens=_LONG, schema=SCHEMA)
    except CallError as error:
        return role.failed(error, off if error.kind == "rejected" else "")
    text = said.text if said.text.strip() else said.reasoning
    if runs_on_in_blanks(text):
        return Finding(
            "failed",
            "JSON under a schema runs on in blanks until the token limit",
            f"start vLLM with --structured-outputs-config '{{\"disable_any_whitespace\": true}}', or {off}",
        )
    if fits_schema(without_reasoning(text)):
        return Finding("ok", "a reply under a JSON schema keeps to it, though other text was asked for")
    cut = "was cut before it was whole" if said.finish == "length" else "is not what the schema allows"
    return Finding(
        "failed",
        f"a reply under a JSON schema {cut}: '{neutral(text, 80)}'",
        f"{off}, or let the server hold replies to schemas (vLLM: --structured-outputs-config)",
    )


def check_thinking(role: Role) -> Finding:
    """Whether a model that is not to think does not; a trace would cost more than a ranking."""
    if role.settings.thinking:
        return Finding("skipped", f"'{role.name}.thinking' is on")
    try:
        said = role.ask(_RIDDLE, max_tokens=_LONG)
    except CallError as error:
        return role.failed(error)
    if not thinks(said):
        return Finding("ok", "the model replies without thinking")
    if not said.text.strip() and said.finish == "stop":
        return Finding(
            "ok",
            "the reply stands in the reasoning field although thinking is off; it is read from there, and flagged"
            " 'reply_in_reasoning_field'",
            "start the server without a reasoning parser",
        )
    switch = "a hosted service is not sent the switch; " if role.settings.server == "hosted" else ""
    return Finding(
        "failed",
        f"the model thinks although '{role.name}.thinking' is off",
        f"{switch}serve a model whose chat template knows enable_thinking, with a fitting --reasoning-parser, or set"
        f" '{role.name}.thinking: true' and a larger '{role.name}.max_tokens'",
    )


def check_likelihood(role: Role) -> Finding:
    """Whether log-likelihoods of given texts can be had; llama.cpp gives them, vLLM knows no such grammar."""
    scorer = OptionScorer(server_root(role.settings.base_url), timeout_s=role.settings.timeout_s)
    change = f"let '{role.name}.base_url' be a llama.cpp server, or empty to start one"
    try:
        score = scorer.score("Water is", [" wet"]).values[0]
    except CallError as error:
        return Finding("failed", f"no log-likelihood of a given text: {error.problem}", change)
    finally:
        scorer.close()
    if not math.isfinite(score) or score > 0:
        return Finding("failed", f"the log-likelihood of a given text is {score:g}", change)
    return Finding("ok", "log-likelihoods of given texts are told")


def runs_on_in_blanks(text: str) -> bool:
    """Whether a reply went on in white space only.

    >>> runs_on_in_blanks('{"notes":' + 300 * chr(10)), runs_on_in_blanks('{"ranking": [1]}')
    (True, False)
    """
    return len(text) - len(text.rstrip()) >= _BLANKS


def fits_schema(text: str) -> bool:
    """Whether a text is one JSON value of the form of :data:`SCHEMA` and nothing else.

    >>> fits_schema('{"ranking": [2]}'), fits_schema('{"ranking": [4]}'), fits_schema("The sea is wide.")
    (True, False, False)
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    ranking = value.get("ranking") if isinstance(value, dict) and len(value) == 1 else None
    if not isinstance(ranking, list) or not 1 <= len(ranking) <= _CHOICES:
        return False
    return all(type(number) is int and 1 <= number <= _CHOICES for number in ranking)


def thinks(said: Said) -> bool:
    r"""Whether a completion holds reasoning; the empty block that some templates leave behind is none.

    >>> [thinks(Said(text, "", "stop", None)) for text in ("<think>hm</think>9", "<think>\n</think>9", "9")]
    [True, False, False]
    """
    text = _EMPTY_THOUGHT.sub("", said.text)
    return bool(said.reasoning.strip()) or without_reasoning(text) != text
