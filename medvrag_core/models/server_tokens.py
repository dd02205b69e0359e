"""Token counts by the model's own tokenizer, asked from its server."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medvrag_core.models.outcomes import CallError
from medvrag_core.settings import ModelSettings

if TYPE_CHECKING:
    from medvrag_core.models.tokens import TokenCounter

log = logging.getLogger(__name__)

Post = Callable[[str, Mapping[str, Any]], Mapping[str, Any]]


class ServerTokens:
    """Counts over ``/tokenize``, which vLLM and llama.cpp both have, each with fields of its own.

    Parameters
    ----------
    settings : which server and model
    post : sends a JSON object to a path of the server and gives back a JSON object
    otherwise : counts once the server turned out to count nothing; without it that is an error
    """

    def __init__(self, settings: ModelSettings, post: Post, otherwise: TokenCounter | None = None) -> None:
        self.settings = settings
        self._post = post
        self._otherwise = otherwise
        self._counts = True
        self._known: dict[str, int] = {}
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """Whose tokens are counted."""
        if not self._counts and self._otherwise is not None:
            return self._otherwise.name
        return f"server:{self.settings.model}@{self.settings.revision}"

    def count(self, text: str) -> int:
        """Tokens of a text without begin and end marks.

        Raises CallError, with the setting to change, when the server does not count.
        """
        if (known := self._known.get(text)) is not None:
            return known
        if not self._counts and self._otherwise is not None:
            return self._otherwise.count(text)
        try:
            reply = self._post("/tokenize", self._body(text))
        except CallError as error:
            if error.kind == "rejected" and self._otherwise is not None:
                with self._lock:
                    first, self._counts = self._counts, False
                if first:
                    log.warning("%s counts no tokens; they are estimated, on the safe side", self.settings.base_url)
                return self._otherwise.count(text)
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
    """The counter that ``settings.tokenizer`` names: ``auto``, ``server``, ``estimate``, or a tokenizer.json."""
    from medvrag_core.models.tokens import EstimatedTokens, FileTokens

    if settings.tokenizer == "estimate" or (settings.server == "hosted" and settings.tokenizer in {"auto", "server"}):
        return EstimatedTokens()
    if settings.tokenizer in {"auto", "server"}:
        return ServerTokens(settings, post, EstimatedTokens() if settings.tokenizer == "auto" else None)
    return FileTokens(Path(settings.tokenizer))
