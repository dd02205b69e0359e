"""Keys come from the environment and go nowhere else."""

from __future__ import annotations

import os
import re

from medvrag_core.errors import InputError
from medvrag_core.settings import looks_like_a_key

_HIDDEN = "[key removed]"
_NO_KEY = "EMPTY"
_PASSWORD_IN_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s@]*@", re.IGNORECASE)


def api_key(variable: str) -> str:
    """The key in an environment variable; ``EMPTY``, which local servers accept, where it is not set."""
    return os.environ.get(variable) or _NO_KEY


def without_keys(text: str, *variables: str) -> str:
    """A text in which no key stands any more; servers like to repeat the key that they refuse.

    Every environment variable whose name ends in ``KEY``, ``TOKEN`` or ``SECRET`` counts, and those named. Values
    shorter than eight characters are no keys, removing them would only garble the text.
    """
    for name, value in os.environ.items():
        named = name in variables or name.upper().endswith(("KEY", "TOKEN", "SECRET"))
        if named and len(value) >= 8:
            text = text.replace(value, _HIDDEN)
    return text


def refuse_keys(where: str, text: str) -> None:
    """Raise InputError for a value that would carry a key or password into a run; the value itself is not repeated.

    >>> refuse_keys("-p x", "data/questions.jsonl")
    """
    if looks_like_a_key(text) or without_keys(text) != text or _PASSWORD_IN_ADDRESS.search(text):
        raise InputError(
            f"{where}: holds what looks like a key or a password",
            way_out="keys come from the environment alone, name the variable in 'key_env'",
        )
