"""What the settings of every stage have in common."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Self

from pydantic import BaseModel, ConfigDict, model_validator

_KEY = re.compile(r"(?<![A-Za-z0-9])(?:sk|pk|rk|hf|gsk|xai|key|ghp|AIza)[-_A-Za-z0-9]{20,}")


def looks_like_a_key(text: str) -> bool:
    """Whether a text holds what looks like an API key; such a text must never enter a file of a run.

    >>> looks_like_a_key("sk-proj-0123456789abcdefghij"), looks_like_a_key("Qwen/Qwen2.5-VL-32B-Instruct")
    (True, False)
    >>> looks_like_a_key("data/task-2026-with-a-long-name.jsonl")
    False
    """
    return any(any(c.isdigit() for c in found.group()) for found in _KEY.finditer(text))


def cores() -> int:
    """Cores that this process may use; a scheduler may give it fewer than there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class StageSettings(BaseModel):
    """Base of the settings of one stage."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="after")
    def _no_key_in_a_text(self) -> Self:
        """Settings are saved in every run and shown in the book."""
        for name in type(self).model_fields:
            if isinstance(value := getattr(self, name), str) and looks_like_a_key(value):
                raise ValueError(f"{name} looks like a key; keys come from the environment alone")
        return self

    def with_defaults(self, names: Iterable[str]) -> Self:
        """The same, with the default in each field named."""
        fields = type(self).model_fields
        return self.model_copy(update={name: fields[name].get_default() for name in names})
