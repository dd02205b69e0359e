"""Token counts by the model's own tokenizer, asked from its server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medvrag_core.models.outcomes import CallError
from medvrag_core.settings import ModelSettings

if TYPE_CHECKING:
    from medvrag_core.models.tokens import TokenCounter

Post = Callable[[str, Mapping[str, Any]], Mapping[str, Any]]


class ServerTokens:
    """Counts over ``/tokenize``, which vLLM and llama.cpp both have, each with fields of its own.

    Parameters
    ----------
    settings : which server and model
    post : sends a JSON object to a path of the server and gives back a JSON object
    """

    def __init__(self, settings: ModelSettings, post: Post) -> None:
        self.settings = settings
        self._post = post
        self._known: dict[str, int] = {}
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """Whose tokens are counted."""
        return f"server:{self.settings.model}@{self.settings.revision}"

    def count(self, text: str) -> int:
        """Tokens of a text without begin and end marks.

        Raises CallError, with the setting to change, when the server does not count.
        """
        if (known := self._known.get(text)) is not None:
            return known
        try:
            reply = self._post("/tokenize", self._body(text))
        except CallError as error:
            if error.kind == "rejected":
                raise CallError(
                    "rejected",
                    f"{self.settings.base_url}: the server counts no tokens ({error.problem})",
                    way_out="set 'tokenizer: estimate', or to the path of the model's tokenizer.json",
                ) from None
            raise
        tokens, count = reply.get("tokens"), reply.get("count")
        found = count if isinstance(count, int) else len(tokens) if isinstance(tokens, list) else None
        if found is None or found < 0:
            raise CallError("malformed", f"{self.settings.base_url}: /tokenize gave no count")
        with self._lock:
            self._known[text] = found
        return found

    def _body(self, text: str) -> dict[str, Any]:
        if self.settings.server == "llama.cpp":
            return {"content": text, "add_special": False}
        return {"model": self.settings.model, "prompt": text, "add_special_tokens": False}


def make_counter(settings: ModelSettings, post: Post) -> TokenCounter | ServerTokens:
    """The counter that ``settings.tokenizer`` names: ``server``, ``estimate``, or the path of a tokenizer.json."""
    if settings.tokenizer == "server" and settings.server != "hosted":
        return ServerTokens(settings, post)
    from medvrag_core.models.tokens import EstimatedTokens, FileTokens

    if settings.tokenizer in {"server", "estimate"}:
        return EstimatedTokens()
    return FileTokens(Path(settings.tokenizer))
