"""What checks of a model server share: what they find, whom they examine, and how they ask it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any, Literal, TypeVar

from medvrag_core.models.faults import call_errors
from medvrag_core.models.limits import CallLimits
from medvrag_core.models.openai_client import OpenAIChat, open_client, server_root
from medvrag_core.models.outcomes import CallError
from medvrag_core.models.reply_text import neutral
from medvrag_core.settings import CallSettings, ModelSettings, Profile

State = Literal["ok", "failed", "unknown", "skipped"]
T = TypeVar("T")
RoleName = Literal[
    "filter_model", "reader_model", "helper_model", "generator_model", "judge_model", "serve.summary_model"
]  # fmt: skip

_LOOK_UP_SECONDS = 10.0
_FIELD = re.compile(r"'([a-z_]+)(?=['=:])")


@dataclass(frozen=True)
class Finding:
    """What a check found, in one sentence; ``change`` names the setting behind it, ``stops`` ends the role's checks."""

    state: State
    found: str
    change: str = ""
    stops: bool = False


@dataclass(frozen=True)
class Said:
    """One whole completion as the server sent it; counts are None where it sent none."""

    text: str
    reasoning: str
    finish: str
    prompt_tokens: int | None


class NoWatch(CallLimits):
    """Limits that never stop: one failed check must not end the others, as one wrong model name ends a run."""

    def failed(self, error: CallError) -> None:
        """Let it pass."""


class Role:
    """One model of a profile and a server behind it.

    Parameters
    ----------
    name : field of the profile, with dots
    profile : says what the run will want of the model
    server : 0 is that of ``base_url``, the others are those of ``more_urls``
    """

    def __init__(self, name: RoleName, profile: Profile, server: int = 0) -> None:
        self.name = name
        self.profile = profile
        self.server = server
        told: ModelSettings = attrgetter(name)(profile)
        self.servers = 1 + len(told.more_urls)
        address = (told.base_url, *told.more_urls)[server]
        self.settings = told.model_copy(update={"base_url": address, "more_urls": ()})

    @property
    def label(self) -> str:
        """Its name, and which server is meant where there are several."""
        return self.name if self.servers == 1 else f"{self.name}, server {self.server + 1} of {self.servers}"

    @property
    def scores_only(self) -> bool:
        """Whether the model only scores the texts of options, and is never asked to write."""
        return self.name == "reader_model" and self.profile.reader.name == "likelihood"

    @property
    def pages_wanted(self) -> int:
        """Page images that the profile wants in one prompt; a summary is of one page."""
        return 1 if self.name == "serve.summary_model" else self.profile.loop.pages_shown

    @property
    def pages_sent(self) -> int:
        """Most page images in one prompt."""
        return min(self.pages_wanted, self.settings.max_images)

    @cached_property
    def chat(self) -> OpenAIChat:
        """The door that a run uses; each call is tried once, so that a fault shows."""
        calls = CallSettings(attempts=1)
        # Another check looks at the tokenizer; a missing file must not hide all others.
        return OpenAIChat(self.settings.model_copy(update={"tokenizer": "server"}), calls, NoWatch(calls))

    @cached_property
    def models(self) -> list[Mapping[str, Any]]:
        """What the server says of the models that it serves; raises CallError as :meth:`get` does."""
        listed = self.get(self.settings.base_url.rstrip("/") + "/models").get("data")
        entries = [entry for entry in listed if isinstance(entry, Mapping)] if isinstance(listed, list) else []
        if not entries:
            raise CallError("malformed", f"{self.settings.base_url}: /models lists no model")
        return entries

    @property
    def entry(self) -> Mapping[str, Any]:
        """What the server says of this model; empty when it does not serve it under this name, or cannot be asked."""
        try:
            return next((e for e in self.models if self.settings.model in names(e)), {})
        except CallError:
            return {}

    def get(self, address: str) -> Mapping[str, Any]:
        """A JSON object from the server; raises CallError when it gives none."""
        timeout = min(self.settings.timeout_s, _LOOK_UP_SECONDS)
        where, key_env = self.settings.base_url, self.settings.key_env
        with open_client(where, timeout, key_env) as client, call_errors(where, key_env):
            value = client.get(address, cast_to=object)
        if not isinstance(value, Mapping):
            raise CallError("malformed", f"{address}: no JSON object", way_out="correct 'base_url' (it ends in /v1)")
        return value

    def look(self, path: str) -> Mapping[str, Any]:
        """What stands at a path from the server's root that not every server has; empty when it has not."""
        try:
            return self.get(server_root(self.settings.base_url) + path)
        except CallError:
            return {}

    def ask(
        self,
        text: str,
        *,
        pictures: tuple[str, ...] = (),
        max_tokens: int = 64,
        schema: dict[str, Any] | None = None,
    ) -> Said:
        """One completion, not streamed and not judged, so that a check sees what the door would refuse.

        Parameters
        ----------
        pictures : ``data:`` URLs

        Raises
        ------
        CallError
            There is no completion.
        """
        body: dict[str, Any] = {
            "model": self.settings.model,
            "messages": [{"role": "user", "content": _content(text, pictures)}],
            "max_tokens": min(max_tokens, self.settings.max_tokens),
            "temperature": self.settings.temperature,
            "top_p": self.settings.top_p,
            "seed": self.settings.seed,
            "stream": False,
        }
        if schema is not None:
            body["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "check", "schema": schema, "strict": True},
            }
        if self.settings.server != "hosted":
            body["chat_template_kwargs"] = {"enable_thinking": self.settings.thinking}
        base = self.settings.base_url.rstrip("/")
        return _said(self.post(f"{base.removeprefix(server_root(base))}/chat/completions", body))

    def post(self, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """As :meth:`OpenAIChat.post`."""
        return past_a_closed_connection(lambda: self.chat.post(path, body))

    def failed(self, error: CallError, change: str = "") -> Finding:
        """A finding for a call that gave nothing; a server that is silent or shuts the door is not asked further."""
        return Finding("failed", error.problem, change or error.way_out, stops=error.kind in {"timeout", "denied"})

    def qualified(self, change: str) -> str:
        """Settings named in full.

        >>> Role("filter_model", Profile(name="p")).qualified("set 'json_schema: false'")
        "set 'filter_model.json_schema: false'"
        """

        def whole(found: re.Match[str]) -> str:
            field = "more_urls" if found[1] == "base_url" and self.server else found[1]
            return f"'{self.name}.{field}" if field in ModelSettings.model_fields else found[0]

        return _FIELD.sub(whole, change)

    def close(self) -> None:
        """Close the connections, if there were any."""
        if "chat" in self.__dict__:
            self.chat.close()


def past_a_closed_connection(call: Callable[[], T]) -> T:
    """Make a call, and once more if its connection broke.

    A server may close a connection in the moment in which the client uses it again; llama.cpp does so after a streamed
    reply (seen in 2 of 55 calls).
    """
    try:
        return call()
    except CallError as error:
        if error.kind != "transport":
            raise
    return call()


def names(entry: Mapping[str, Any]) -> list[str]:
    """Names under which a served model can be asked for; llama.cpp lists more than one."""
    aliases = entry.get("aliases")
    return [str(name) for name in (entry.get("id"), *(aliases if isinstance(aliases, list) else ())) if name]


def _content(text: str, pictures: tuple[str, ...]) -> Any:
    if not pictures:
        return text
    return [{"type": "text", "text": text}, *({"type": "image_url", "image_url": {"url": url}} for url in pictures)]


def _said(value: Mapping[str, Any]) -> Said:
    if value.get("error"):
        raise CallError("malformed", f"the server sent an error with status 200: {neutral(str(value['error']), 300)}")
    choices = value.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, Mapping) else None
    if not isinstance(choice, Mapping) or not isinstance(message, Mapping):
        raise CallError("malformed", "the server's reply holds no message")
    usage = value.get("usage")
    count = usage.get("prompt_tokens") if isinstance(usage, Mapping) else None
    return Said(
        text=str(message.get("content") or ""),
        reasoning=str(message.get("reasoning_content") or message.get("reasoning") or ""),
        finish=str(choice.get("finish_reason") or ""),
        prompt_tokens=count if isinstance(count, int) and not isinstance(count, bool) else None,
    )
