"""Log-likelihoods of given texts as a kind of model call: asked once, kept in the call store, replayed."""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from medvrag_core.models.outcomes import CallError
from medvrag_core.models.store import CallStore, StoredCall, call_key
from medvrag_core.records import ReaderReply, Record
from medvrag_core.settings import CallSettings, ModelSettings

VERSION = "token-grammar-1"


class TextScores(Record):
    """Natural logarithm of P(text | prompt) for each text; ``call`` is the key in the call store."""

    values: tuple[float, ...]
    call: str = ""


class TextScorer(ABC):
    """Scores given texts after a prompt; safe to call from several threads."""

    @abstractmethod
    def score(self, prompt: str, texts: Sequence[str]) -> TextScores:
        """One number a text; raises :class:`~medvrag_core.models.outcomes.CallError` when the server fails."""

    def close(self) -> None:
        """Close connections and whatever was started."""


class StoredScorer(TextScorer):
    """A scorer behind the call store, with the same policies as for chat calls.

    Parameters
    ----------
    model : name and revision are part of a call's key, its address is not
    open_scorer : makes the scorer when the first call has to be paid for
    """

    def __init__(
        self, model: ModelSettings, store: CallStore, calls: CallSettings, open_scorer: Callable[[], TextScorer]
    ) -> None:
        self.model = model
        self.store = store
        self.calls = calls
        self._open_scorer = open_scorer
        self._scorer: TextScorer | None = None
        self._lock = threading.Lock()

    def score(self, prompt: str, texts: Sequence[str]) -> TextScores:
        """Stored scores, or ones that are computed now and stored first; one call at a time."""
        content = {"model": self.model.model, "revision": self.model.revision, "prompt": prompt, "texts": list(texts)}
        canonical = json.dumps({"purpose": "score", "version": VERSION} | content, sort_keys=True, ensure_ascii=False)
        key = call_key(canonical)
        with self._lock:
            stored = None if self.calls.policy == "always" else self.store.get(key)
            if stored is not None:
                return TextScores(values=tuple(json.loads(stored.reply.text)), call=key)
            if self.calls.policy == "only-cache":
                raise CallError(
                    "not_stored",
                    f"the store holds no call {key[:12]} (score)",
                    way_out="import the calls of the run, or allow calls with the policy 'only-missing'",
                )
            if self._scorer is None:
                self._scorer = self._open_scorer()
            values = self._scorer.score(prompt, texts).values
            self.store.put(
                StoredCall(
                    key=key,
                    purpose="score",
                    prompt_version=VERSION,
                    model=self.model.model,
                    revision=self.model.revision,
                    request=canonical,
                    outcome="complete",
                    reply=ReaderReply(text=json.dumps(values), model=self.model.model),
                )
            )
            return TextScores(values=values, call=key)

    def close(self) -> None:
        """Close the scorer; the store belongs to whoever opened it."""
        if self._scorer is not None:
            self._scorer.close()
