"""Faults that users met in other projects (cases BC-13 to BC-22 of the case list), each through the whole filter."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from medvrag_core.filter.base import Candidate
from medvrag_core.filter.llm_ranker import LlmRanker
from medvrag_core.filter.mapreduce import MapReduceFilter
from medvrag_core.models.openai_client import OpenAIChat
from medvrag_core.records import FilterDecision
from medvrag_core.settings import CallSettings, FilterSettings, ModelSettings

Pool = Callable[..., list[Candidate]]
Said = dict[str, Any]
Filter = Callable[..., FilterDecision]


def said(text: str | None, finish: str = "stop", tokens: int = 20, **message: str) -> Said:
    """A whole completion as a server sends it."""
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text} | message}],
        "usage": {"prompt_tokens": 700, "completion_tokens": tokens, "total_tokens": 700 + tokens},
    }


def candidates(first: int, count: int) -> list[Candidate]:
    return [Candidate(str(first + i), f"about {first + i}", rank=i + 1, score=1.0 / (i + 1)) for i in range(count)]


@pytest.fixture
def ask(httpserver: HTTPServer) -> Filter:
    """Runs the filter against a server on loopback that gives these replies, one a request; None closes late."""

    def run(found: list[Candidate], *replies: Said | int, settings: FilterSettings | None = None) -> FilterDecision:
        left = list(replies)

        def handle(request: Request) -> Response:
            reply = left.pop(0)
            if isinstance(reply, int):
                return Response("busy", status=reply)
            return Response(json.dumps(reply), content_type="application/json")

        httpserver.expect_request("/v1/chat/completions").respond_with_handler(handle)
        httpserver.expect_request("/tokenize").respond_with_handler(
            lambda request: Response(
                json.dumps({"count": len(str(request.get_json()["prompt"]).split())}), content_type="application/json"
            )
        )
        model = OpenAIChat(
            ModelSettings(base_url=httpserver.url_for("/v1"), model="m", timeout_s=5, wall_s=20),
            CallSettings(attempts=2, pause_s=0.0),
        )
        try:
            return MapReduceFilter(LlmRanker(model), settings or FilterSettings()).select("toxicity", found)
        finally:
            model.close()
            httpserver.check_assertions()

    return run


def chats(httpserver: HTTPServer) -> list[Any]:
    return [request.get_json() for request, _ in httpserver.log if request.path == "/v1/chat/completions"]


def test_bc13_a_closing_think_tag_that_the_template_opened(ask: Filter) -> None:
    reply = said('the user wants toxicity pages\n</think>\n{"ranking":[12,4,88]}')
    decision = ask(candidates(1, 100), reply, settings=FilterSettings(keep=3))
    assert decision.kept == ("12", "4", "88") and not decision.calls[0].fallback


@pytest.mark.parametrize(
    "text", ['<think>\n\n</think>\n{"ranking":[2,5]}', '<think>{"ranking":[9]}</think>{"ranking":[2,5]}']
)
def test_bc14_reasoning_before_the_ranking(ask: Filter, text: str) -> None:
    decision = ask(candidates(1, 9), said(text), settings=FilterSettings(keep=2))
    assert decision.kept == ("2", "5")


def test_bc15_the_ranking_stands_in_the_reasoning_field(ask: Filter, httpserver: HTTPServer) -> None:
    decision = ask(candidates(1, 9), said(None, reasoning_content='{"ranking":[3,1]}'), settings=FilterSettings(keep=2))
    assert decision.kept == ("3", "1") and decision.calls[0].flags == ("reply_in_reasoning_field",)
    assert chats(httpserver)[0]["chat_template_kwargs"] == {"enable_thinking": False}


def test_bc16_text_after_the_object(ask: Filter, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        decision = ask(
            candidates(1, 9), said('{"ranking":[3,1]} Note: see {Table 2}.'), settings=FilterSettings(keep=2)
        )
    assert decision.kept == ("3", "1") and decision.calls[0].strangers == 0
    assert "ignored text around the JSON" in caplog.text


def test_bc17_fenced_json_with_one_value_in_place_of_a_list(ask: Filter, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        decision = ask(candidates(1, 9), said('```json\n{"ranking":"7"}\n```'), settings=FilterSettings(keep=2))
    assert decision.kept == ("7", "1") and (decision.calls[0].filled, decision.calls[0].fallback) == (1, False)
    assert "single number in place of a list" in caplog.text


def test_bc18_runaway_blanks_end_as_truncated_without_a_second_try(ask: Filter, httpserver: HTTPServer) -> None:
    decision = ask(candidates(1, 9), said('{"notes":' + "\n" * 3_000, finish="length", tokens=3_000))
    (call,) = decision.calls
    assert (call.fallback, call.reason) == (True, "truncated")
    assert (call.prompt_tokens, call.completion_tokens) == (700, 3_000), "what the call cost is charged"
    assert decision.kept == tuple(str(i) for i in range(1, 10))
    assert len(chats(httpserver)) == 1


def test_bc19_a_reply_that_is_code_is_refused_and_not_run(ask: Filter) -> None:
    decision = ask(candidates(1, 9), said('[__import__("os").getcwd()]'))
    assert (decision.calls[0].fallback, decision.calls[0].reason) == (True, "unreadable")
    assert decision.calls[0].prompt_tokens == 700


def test_bc20_repeated_missing_and_strange_ids(ask: Filter) -> None:
    decision = ask(candidates(101, 4), said('{"ranking": [4, 4, 999, 1]}'), settings=FilterSettings(keep=4))
    assert decision.kept == ("104", "101", "102", "103")
    (call,) = decision.calls
    assert (call.repeated, call.strangers, call.dropped_ids, call.filled) == (1, 1, 2, 2)


def test_bc21_a_map_call_that_fails_twice_leaves_stage1_order_and_a_flag(ask: Filter, httpserver: HTTPServer) -> None:
    decision = ask(
        candidates(1, 10),
        said('{"ranking": [5, 4]}'),
        503,
        503,
        said('{"ranking": [4, 3, 2, 1]}'),
        settings=FilterSettings(shard_size=5, map_keep=2, keep=4),
    )
    first, second, reduced = decision.calls
    assert (first.kept, first.fallback) == (("5", "4"), False)
    assert (second.kept, second.fallback, second.reason) == (("6", "7"), True, "unavailable")
    assert reduced.shown == ("4", "5", "6", "7") and decision.kept == ("7", "6", "5", "4")
    assert len(chats(httpserver)) == 4, "two tries of the client, none by the filter"


def test_bc22_a_pool_smaller_than_a_shard_needs_one_call(ask: Filter, httpserver: HTTPServer) -> None:
    decision = ask(candidates(1, 7), said('{"ranking": [7, 6, 5, 4, 3, 2, 1]}'))
    assert [call.phase for call in decision.calls] == ["map"]
    assert decision.kept == ("7", "6", "5", "4", "3", "2", "1")
    assert len(chats(httpserver)) == 1
