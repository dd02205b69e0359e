"""Keys come from the environment and go nowhere else."""

from __future__ import annotations

import os

_HIDDEN = "[key removed]"
_NO_KEY = "EMPTY"


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
