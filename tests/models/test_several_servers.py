"""Calls over real servers on loopback, one of which is lost."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from medvrag_core.models.base import ChatModel, ChatRequest, Message
from medvrag_core.models.limits import CallLimits
from medvrag_core.models.openai_client import OpenAIChat
from medvrag_core.models.outcomes import CallError, RunStopped
from medvrag_core.models.several_servers import REST_S, SeveralServers
from medvrag_core.settings import CallSettings, ModelSettings, fingerprint

CALLS = CallSettings(in_flight=4, attempts=1, pause_s=0.0, give_up_after=3)


def ask(text: object) -> ChatRequest:
    return ChatRequest(purpose="reader", prompt_version="v1", messages=(Message(role="user", text=str(text)),))


@pytest.fixture
def servers(chaos_server: Any) -> Iterator[list[Any]]:
    made = [chaos_server() for _ in range(2)]
    yield made
    for server in made:
        server.close()


@pytest.fixture
def model(servers: list[Any]) -> Iterator[ChatModel]:
    settings = ModelSettings(base_url=servers[0].url, more_urls=(servers[1].url,), model="m", tokenizer="estimate")
    made = SeveralServers(settings, lambda one, limits: OpenAIChat(one, CALLS, limits), CallLimits(CALLS))
    yield made
    made.close()


def answered(server: Any) -> int:
    return sum(server.log()["finished"].values())


def test_calls_at_one_time_go_to_both_and_each_to_one(model: ChatModel, servers: list[Any]) -> None:
    for server in servers:
        server.control(delay=0.1)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: model.complete(ask(n)), range(12)))
    counts = [answered(server) for server in servers]
    assert sum(counts) == 12
    assert min(counts) >= 3


def test_a_lost_server_costs_no_call(model: ChatModel, servers: list[Any]) -> None:
    expected = [model.complete(ask(n)).text for n in range(4)]
    servers[0].close()
    assert [model.complete(ask(n)).text for n in range(4)] == expected
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: model.complete(ask(n)), range(4, 16)))
    assert answered(servers[1]) == 16


def test_a_server_that_comes_back_gets_calls_again(servers: list[Any]) -> None:
    now = 100.0
    settings = ModelSettings(base_url=servers[0].url, more_urls=(servers[1].url,), model="m", tokenizer="estimate")
    made = SeveralServers(
        settings, lambda one, limits: OpenAIChat(one, CALLS, limits), CallLimits(CALLS), clock=lambda: now
    )
    servers[0].control(faults=["503"])
    for n in range(4):
        made.complete(ask(n))
    assert [answered(server) for server in servers] == [0, 4], "it failed once, and rests"
    now += REST_S + 1
    for n in range(4, 8):
        made.complete(ask(n))
    assert answered(servers[0]) == 4, "as the first of two that are idle"
    made.close()


def test_with_all_servers_lost_the_run_stops(model: ChatModel, servers: list[Any]) -> None:
    for server in servers:
        server.close()
    for _ in range(2):
        with pytest.raises(CallError):
            model.complete(ask("x"))
    with pytest.raises(RunStopped, match="3 model calls failed"):
        model.complete(ask("x"))


def test_where_a_model_runs_is_no_part_of_it() -> None:
    one = ModelSettings(base_url="http://a/v1", model="m")
    two = one.model_copy(update={"more_urls": ("http://b/v1",)})
    assert fingerprint(one) != fingerprint(two)
    assert "more_urls" not in one.model_dump()
    with pytest.raises(ValueError, match="must not hold"):
        ModelSettings(more_urls=("http://user:secret@b/v1",))
