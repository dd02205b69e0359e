"""Calls over real servers on loopback, one of which is lost."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from medvrag_core.models.base import ChatModel, ChatRequest, Message
from medvrag_core.models.limits import CallLimits
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
    made = SeveralServers(settings, CALLS, CallLimits(CALLS))
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
    made = SeveralServers(settings, CALLS, CallLimits(CALLS), clock=lambda: now)
    servers[0].control(faults=["503"])
    for n in range(4):
        made.complete(ask(n))
    assert [answered(server) for server in servers] == [0, 4], "it failed once, and rests"
    now += REST_S + 1
    for n in range(4, 8):
        made.complete(ask(n))
    assert answered(servers[0]) == 4, "as the first of two that are idle"
    made.close()


def several(servers: list[Any], calls: CallSettings = CALLS, timeout_s: float = 300.0, **more: Any) -> SeveralServers:
    first, *others = (server.url for server in servers)
    settings = ModelSettings(
        base_url=first, more_urls=tuple(others), model="m", tokenizer="estimate", timeout_s=timeout_s
    )
    return SeveralServers(settings, calls, CallLimits(calls), **more)


def test_a_server_that_hangs_holds_up_the_calls_it_has_and_no_others(servers: list[Any]) -> None:
    made = several(servers, timeout_s=1.0)
    servers[0].control(faults=["hang"] * 100)
    with ThreadPoolExecutor(4) as pool:
        replies = list(pool.map(lambda n: made.complete(ask(n)), range(12)))
    made.close()
    assert {reply.attempts for reply in replies} == {1, 2}
    assert answered(servers[1]) == 12
    assert sum(servers[0].log()["started"].values()) <= 2, "half of four calls at one time, then it rests"


def test_after_its_rest_a_server_is_tried_with_one_call(servers: list[Any]) -> None:
    now = 100.0
    made = several(servers, timeout_s=1.0, clock=lambda: now)
    servers[0].control(faults=["503"])
    made.complete(ask("first"))
    now += REST_S + 1
    servers[0].control(faults=["hang"] * 100)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: made.complete(ask(n)), range(12)))
    made.close()
    assert sum(servers[0].log()["started"].values()) == 2, "one before its rest, one after"
    assert answered(servers[1]) == 13


@pytest.mark.parametrize("fault", ["429", "503", "cut", "html", "abort", "close"])
def test_another_server_answers_at_once_where_one_has_no_time_or_no_sense(servers: list[Any], fault: str) -> None:
    pauses: list[float] = []
    made = several(servers, CALLS.model_copy(update={"attempts": 3, "pause_s": 9.0}), sleep=pauses.append)
    servers[0].control(faults=[fault])
    reply = made.complete(ask("x"))
    made.close()
    assert (reply.attempts, pauses) == (2, [])


def test_where_all_want_a_pause_the_shortest_is_made_and_all_are_asked_again(httpserver: Any) -> None:
    for place, seconds in (("a", "9"), ("b", "7")):
        httpserver.expect_ordered_request(f"/{place}/v1/chat/completions").respond_with_data(
            "busy", status=429, headers={"Retry-After": seconds}
        )
    httpserver.expect_ordered_request("/b/v1/chat/completions").respond_with_data("no", status=400)
    settings = ModelSettings(
        base_url=httpserver.url_for("/a/v1"), more_urls=(httpserver.url_for("/b/v1"),), model="m", tokenizer="estimate"
    )
    calls = CALLS.model_copy(update={"attempts": 3})
    now, pauses = [0.0], list[float]()

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        now[0] += seconds

    made = SeveralServers(settings, calls, CallLimits(calls), clock=lambda: now[0], sleep=sleep)
    with pytest.raises(CallError, match="status 400") as failed:
        made.complete(ask("x"))
    made.close()
    assert (pauses, failed.value.attempts) == ([7.0], 3)


def test_a_pause_that_is_longer_than_the_budget_of_the_call_is_not_made(httpserver: Any) -> None:
    for place in ("a", "b"):
        httpserver.expect_oneshot_request(f"/{place}/v1/chat/completions").respond_with_data(
            "busy", status=429, headers={"Retry-After": "86400"}
        )
    settings = ModelSettings(
        base_url=httpserver.url_for("/a/v1"),
        more_urls=(httpserver.url_for("/b/v1"),),
        model="m",
        tokenizer="estimate",
        wall_s=60.0,
    )
    calls, pauses = CALLS.model_copy(update={"attempts": 3}), list[float]()
    made = SeveralServers(settings, calls, CallLimits(calls), sleep=pauses.append)
    with pytest.raises(CallError, match="status 429"):
        made.complete(ask("x"))
    made.close()
    assert pauses == []


def test_a_call_that_failed_everywhere_is_tried_everywhere_again_and_counts_once(servers: list[Any]) -> None:
    calls = CALLS.model_copy(update={"attempts": 2, "give_up_after": 2})
    made = several(servers, calls)
    for server in servers:
        server.control(faults=["500", "500"])
    with pytest.raises(CallError) as failed:
        made.complete(ask("x"))
    assert failed.value.attempts == 4
    made.complete(ask("x"))
    made.close()


def test_a_server_of_another_model_stops_the_run_and_is_named(servers: list[Any]) -> None:
    made = several(servers)
    servers[0].control(faults=["503"])
    servers[1].control(faults=["wrong_model"])
    with pytest.raises(RunStopped, match=f"{servers[1].url}.*another-model"):
        made.complete(ask("x"))
    made.close()


def test_tokens_are_counted_by_whoever_is_there(servers: list[Any]) -> None:
    settings = ModelSettings(base_url=servers[0].url, more_urls=(servers[1].url,), model="m", tokenizer="server")
    made = SeveralServers(settings, CALLS, CallLimits(CALLS))
    assert made.count_tokens("two words") == 4
    servers[0].close()
    assert made.count_tokens("now three words") == 6
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
