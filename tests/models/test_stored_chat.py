"""Policies of the call store: what is asked, what is replayed, what stands (promise P2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from medvrag_core.models.base import ChatModel, ChatRequest, Message
from medvrag_core.models.openai_client import OpenAIChat
from medvrag_core.models.outcomes import CallError
from medvrag_core.models.store import CallStore
from medvrag_core.models.stored_chat import StoredChat
from medvrag_core.settings import CallSettings, ModelSettings

Make = Callable[..., StoredChat]


def ask(text: str = "hello") -> ChatRequest:
    return ChatRequest(purpose="reader", prompt_version="v1", messages=(Message(role="user", text=text),))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[CallStore]:
    with CallStore(tmp_path / "calls.sqlite") as opened:
        yield opened


@pytest.fixture
def chat(chaos: Any, store: CallStore) -> Make:
    def make(policy: str = "only-missing", **values: Any) -> StoredChat:
        settings = ModelSettings(base_url=chaos.url, model="m", timeout_s=5.0)
        calls = CallSettings(policy=policy, attempts=1, pause_s=0.0, **values)  # type: ignore[arg-type]

        def open_model() -> ChatModel:
            assert policy != "only-cache", "a replay opens no model"
            return OpenAIChat(settings, calls)

        return StoredChat(settings, store, calls, open_model)

    return make


def asked(chaos: Any) -> int:
    return sum(chaos.log()["started"].values())


@pytest.mark.parametrize(("policy", "calls"), [("only-missing", 1), ("never", 1), ("only-cache", 1), ("always", 2)])
def test_a_stored_reply_is_not_paid_for_again_unless_always(
    chaos: Any, chat: Make, store: CallStore, policy: str, calls: int
) -> None:
    first = chat().complete(ask())
    model = chat(policy)
    assert model.complete(ask()) == first and first.call
    assert asked(chaos) == calls and len(store) == 1
    assert model.tally == ({"asked": 1} if calls == 2 else {"stored": 1})


def test_always_replaces_what_was_stored(chaos: Any, chat: Make, store: CallStore) -> None:
    chaos.control(faults=["length"])
    with pytest.raises(CallError):
        chat().complete(ask())
    assert store.outcomes() == {"truncated": 1}
    chat("always").complete(ask())
    assert store.outcomes() == {"complete": 1}


@pytest.mark.parametrize("fault", ["length", "content_filter", "null"])
def test_what_a_model_did_stands(chaos: Any, chat: Make, fault: str) -> None:
    chaos.control(faults=[fault])
    with pytest.raises(CallError) as first:
        chat().complete(ask())
    for policy in ("only-missing", "never", "only-cache"):
        with pytest.raises(CallError) as again:
            chat(policy).complete(ask())
        assert (again.value.kind, str(again.value)) == (first.value.kind, str(first.value))
        assert (again.value.prompt_tokens, again.value.call) == (5_000, first.value.call)
    assert asked(chaos) == 1


def test_a_fault_of_the_server_is_asked_again_but_not_under_never(chaos: Any, chat: Make, store: CallStore) -> None:
    chaos.control(faults=["503", "cut"])
    for kind in ("unavailable", "malformed"):
        with pytest.raises(CallError) as caught:
            chat().complete(ask())
        assert caught.value.kind == kind
    with pytest.raises(CallError):
        chat("never").complete(ask())
    assert asked(chaos) == 2
    assert chat().complete(ask()).text
    assert store.outcomes() == {"complete": 1} and asked(chaos) == 3


def test_a_replay_names_the_call_that_is_missing(chaos: Any, chat: Make) -> None:
    with pytest.raises(CallError, match=r"holds no call [0-9a-f]{12} \(reader\)") as caught:
        chat("only-cache").complete(ask())
    assert caught.value.kind == "not_stored" and asked(chaos) == 0


def test_threads_that_ask_the_same_thing_pay_once(chaos: Any, chat: Make) -> None:
    chaos.control(delay=0.1)
    model = chat()
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda n: model.complete(ask(str(n % 2))), range(16)))
    assert asked(chaos) == 2 and len({reply.call for reply in replies}) == 2
    assert model.tally == {"asked": 2, "stored": 14}
    assert model._under_way == {}


def test_token_counts_are_replayed_without_a_server(chaos: Any, chat: Make) -> None:
    assert chat().count_tokens("one two") == 4
    chaos.close()
    assert chat().count_tokens("one two") == 4
    assert chat("only-cache").count_tokens("one two") == 4
    with pytest.raises(CallError, match="token count"):
        chat("only-cache").count_tokens("another text")
