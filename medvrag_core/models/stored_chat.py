"""A model behind the call store: asks only what the policy allows, keeps every reply before it is used."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager

from medvrag_core.models.base import ChatModel, ChatRequest
from medvrag_core.models.outcomes import FINAL, CallError
from medvrag_core.models.secrets import without_keys
from medvrag_core.models.store import CallStore, StoredCall, call_key, canonical_request
from medvrag_core.records import CallOutcome, ReaderReply
from medvrag_core.settings import CallSettings, ModelSettings


class StoredChat(ChatModel):
    """A :class:`ChatModel` whose calls are kept and answered from the store.

    Parameters
    ----------
    settings : of the model; with the policy ``only-cache`` its server need not exist
    store : where calls are kept
    calls : the policy
    open_model : makes the model when the first call has to be paid for
    """

    def __init__(
        self,
        settings: ModelSettings,
        store: CallStore,
        calls: CallSettings,
        open_model: Callable[[], ChatModel],
    ) -> None:
        self.settings = settings
        self.store = store
        self.calls = calls
        self.tally: Counter[str] = Counter()
        self._open_model = open_model
        self._model: ChatModel | None = None
        self._lock = threading.Lock()
        self._under_way: dict[str, tuple[threading.Lock, int]] = {}

    @property
    def fingerprint(self) -> str:
        """Of the model."""
        from medvrag_core.models.openai_client import model_fingerprint

        return model_fingerprint(self.settings)

    def complete(self, request: ChatRequest) -> ReaderReply:
        """The stored reply, or one that is asked for now and stored first.

        Raises
        ------
        CallError
            As the model does; a stored failure is raised again without a call. ``not_stored`` under the policy
            ``only-cache`` when the store lacks the call.
        RunStopped
            The server no longer works, or the run is to stop.
        """
        canonical = canonical_request(self.settings, request)
        key = call_key(canonical)
        with self._one_at_a_time(key):
            stored = None if self.calls.policy == "always" else self.store.get(key)
            if stored is not None and self._stands(stored):
                self.tally["stored"] += 1
                return _told(stored)
            if self.calls.policy == "only-cache":
                error = CallError(
                    "not_stored",
                    f"the store holds no call {key[:12]} ({request.purpose})",
                    way_out="import the calls of the run, or allow calls with the policy 'only-missing'",
                )
                error.call = key
                raise error
            return _told(self._ask(key, canonical, request))

    def count_tokens(self, text: str) -> int:
        """A token count, kept so that a replay needs no tokenizer."""
        name = f"{self.settings.tokenizer}:{self.settings.model}@{self.settings.revision}"
        known = self.store.token_count(name, text)
        if known is None:
            if self.calls.policy == "only-cache" and self.settings.tokenizer in {"auto", "server"}:
                raise CallError(
                    "not_stored", "the store lacks a token count", way_out="import the calls of the run first"
                )
            known = self._opened().count_tokens(text)
            if self.calls.policy != "only-cache":
                self.store.put_token_count(name, text, known)
        return known

    def close(self) -> None:
        """Close the model; the store belongs to whoever opened it."""
        if self._model is not None:
            self._model.close()

    def _stands(self, stored: StoredCall) -> bool:
        return stored.outcome in FINAL or self.calls.policy in {"never", "only-cache"}

    def _ask(self, key: str, canonical: str, request: ChatRequest) -> StoredCall:
        clock = time.perf_counter()
        problem = ""
        outcome: CallOutcome = "complete"
        failure: CallError | None = None
        try:
            reply = self._opened().complete(request)
        except CallError as error:
            failure, problem, outcome = error, str(error), error.kind
            reply = ReaderReply(
                text=error.text,
                finish_reason=error.kind,
                model=self.settings.model,
                prompt_tokens=error.prompt_tokens,
                completion_tokens=error.completion_tokens,
                attempts=error.attempts,
            )
        # A server may repeat the key of its caller; what is stored here may be published.
        reply = reply.model_copy(update={"text": without_keys(reply.text, self.settings.key_env)})
        self.tally["asked"] += 1
        call = StoredCall(
            key=key,
            purpose=request.purpose,
            prompt_version=request.prompt_version,
            model=self.settings.model,
            revision=self.settings.revision,
            request=canonical,
            outcome=outcome,
            problem=problem,
            reply=reply,
            seconds=time.perf_counter() - clock,
        )
        self.store.put(call)
        if failure is not None:
            failure.call, failure.text = key, reply.text
            raise failure
        return call

    def _opened(self) -> ChatModel:
        with self._lock:
            if self._model is None:
                self._model = self._open_model()
            return self._model

    def _one_at_a_time(self, key: str) -> AbstractContextManager[object]:
        """Two threads that ask the same thing pay once: the second one finds the first one's reply."""
        return _Turn(self._lock, self._under_way, key)


class _Turn:
    """Holds the turn of one key; locks of keys that nobody waits for are dropped."""

    def __init__(self, guard: threading.Lock, turns: dict[str, tuple[threading.Lock, int]], key: str) -> None:
        self._guard, self._turns, self._key = guard, turns, key

    def __enter__(self) -> None:
        with self._guard:
            lock, waiting = self._turns.get(self._key, (threading.Lock(), 0))
            self._turns[self._key] = (lock, waiting + 1)
        lock.acquire()

    def __exit__(self, *_: object) -> None:
        with self._guard:
            lock, waiting = self._turns[self._key]
            if waiting == 1:
                del self._turns[self._key]
            else:
                self._turns[self._key] = (lock, waiting - 1)
        lock.release()


def _told(stored: StoredCall) -> ReaderReply:
    """The reply of a stored call; a stored failure is raised as it was."""
    if stored.outcome == "complete":
        return stored.reply.model_copy(update={"call": stored.key})
    spent = (stored.reply.prompt_tokens, stored.reply.completion_tokens)
    # Problem and way out, as `str` of the error put them together: a replay says what the run said.
    problem, _, way_out = stored.problem.partition(f" [{stored.outcome}]")
    error = CallError(stored.outcome, problem, way_out=way_out.removeprefix("; "), tokens=spent)
    error.attempts, error.call, error.text = stored.reply.attempts, stored.key, stored.reply.text
    raise error
