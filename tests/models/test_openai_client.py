"""The door to models, against a real HTTP server on loopback (cases BC-15, BC-18)."""

from __future__ import annotations

import base64
import io
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from medvrag_core.errors import InputError, ModelError, SettingsError
from medvrag_core.models.base import Message
from medvrag_core.models.openai_client import CallError, OpenAIChat, image_url
from medvrag_core.settings import ModelSettings

ASK = (Message(role="user", text="hello"),)
PATH = "/v1/chat/completions"
Make = Callable[..., OpenAIChat]


def completion(text: str | None, finish: str = "stop", **message: Any) -> dict[str, Any]:
    """A chat completion as servers send it."""
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "served",
        "choices": [
            {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text} | message},
        ],
        "usage": {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9},
    }


@pytest.fixture
def chat(httpserver: HTTPServer) -> Make:
    """Makes clients of the loopback server that do not wait between tries."""

    def make(attempts: int = 3, **settings: Any) -> OpenAIChat:
        values = {"base_url": httpserver.url_for("/v1"), "model": "m", "timeout_s": 5.0} | settings
        return OpenAIChat(ModelSettings(**values), attempts=attempts, wait_s=0.0)

    return make


def test_a_finished_reply_comes_back_with_its_counts(httpserver: HTTPServer, chat: Make) -> None:
    httpserver.expect_request(PATH, method="POST").respond_with_json(completion("<answer>A</answer>"))
    reply = chat(temperature=0.2, thinking=False).complete(ASK, max_tokens=9)
    assert (reply.text, reply.prompt_tokens, reply.completion_tokens) == ("<answer>A</answer>", 7, 2)
    sent = httpserver.log[0][0].get_json()
    assert (sent["temperature"], sent["max_tokens"], sent["seed"]) == (0.2, 9, 42)
    assert sent["chat_template_kwargs"] == {"enable_thinking": False}
    assert sent["messages"] == [{"role": "user", "content": "hello"}]


def test_the_key_comes_from_the_environment_only(
    httpserver: HTTPServer, chat: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    httpserver.expect_request(PATH).respond_with_json(completion("x"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    chat().complete(ASK)
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    model = chat()
    model.complete(ASK)
    assert [r.headers["Authorization"] for r, _ in httpserver.log] == ["Bearer EMPTY", "Bearer secret"]
    assert "secret" not in model.fingerprint


def test_a_proxy_in_the_environment_is_not_used_on_loopback(
    httpserver: HTTPServer, chat: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    httpserver.expect_request(PATH).respond_with_json(completion("x"))
    assert chat().complete(ASK).text == "x"


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (completion('{"notes":' + "\n" * 3_000, finish="length"), "truncated"),  # BC-18
        (completion("x", finish="content_filter"), "refused"),
        (completion("x", refusal="I will not"), "refused"),
        (completion("x", finish="tool_calls"), "unfinished"),
        (completion("  "), "empty"),
        (completion(None), "empty"),
        (completion("x") | {"choices": []}, "malformed"),
    ],
)
def test_only_finished_replies_count(httpserver: HTTPServer, chat: Make, body: dict[str, Any], kind: str) -> None:
    httpserver.expect_request(PATH).respond_with_json(body)
    with pytest.raises(CallError) as caught:
        chat().complete(ASK)
    assert caught.value.kind == kind
    assert len(httpserver.log) == 1, "a reply that was given is never asked for again"


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_bc15_a_reply_in_the_reasoning_field_is_taken_and_flagged(
    httpserver: HTTPServer, chat: Make, field: str
) -> None:
    httpserver.expect_request(PATH).respond_with_json(completion(None, **{field: '{"ranking":[3,1]}'}))
    reply = chat(thinking=False).complete(ASK)
    assert (reply.text, reply.flags) == ('{"ranking":[3,1]}', ("reply_in_reasoning_field",))
    with pytest.raises(CallError):
        chat(thinking=True).complete(ASK)


@pytest.mark.parametrize("status", [408, 409, 429, 500, 503])
def test_passing_faults_are_tried_again(httpserver: HTTPServer, chat: Make, status: int) -> None:
    httpserver.expect_ordered_request(PATH).respond_with_data("busy", status=status)
    httpserver.expect_ordered_request(PATH).respond_with_json(completion("x"))
    assert chat().complete(ASK).text == "x"


@pytest.mark.parametrize("status", [400, 401, 404, 422])
def test_lasting_faults_are_not(httpserver: HTTPServer, chat: Make, status: int) -> None:
    httpserver.expect_request(PATH).respond_with_json({"error": {"message": "too many images"}}, status=status)
    with pytest.raises(CallError, match="too many images") as caught:
        chat().complete(ASK)
    assert caught.value.kind == f"http_{status}"
    assert len(httpserver.log) == 1


def test_tries_end(httpserver: HTTPServer, chat: Make) -> None:
    httpserver.expect_request(PATH).respond_with_data("down", status=503)
    with pytest.raises(CallError, match="http_503"):
        chat(attempts=3).complete(ASK)
    assert len(httpserver.log) == 3


def test_a_slow_server_is_a_timeout(httpserver: HTTPServer, chat: Make) -> None:
    def slow(_: Request) -> Response:
        time.sleep(0.5)
        return Response("late")

    httpserver.expect_request(PATH).respond_with_handler(slow)
    with pytest.raises(CallError) as caught:
        chat(attempts=1, timeout_s=0.1).complete(ASK)
    assert caught.value.kind == "timeout"


def test_a_missing_server_is_named(chat: Make) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    with pytest.raises(ModelError, match=url):
        chat(attempts=2, base_url=url).complete(ASK)


def test_what_is_not_a_completion_is_a_model_error(httpserver: HTTPServer, chat: Make) -> None:
    httpserver.expect_request(PATH).respond_with_data("<html>login</html>", content_type="text/html")
    with pytest.raises(ModelError):
        chat().complete(ASK)


@pytest.mark.parametrize("field", ["base_url", "model"])
def test_an_empty_address_or_name_is_refused(field: str) -> None:
    values = {"base_url": "http://127.0.0.1:1/v1", "model": "m"} | {field: ""}
    with pytest.raises(SettingsError, match=field):
        OpenAIChat(ModelSettings(**values))


def test_the_fingerprint_follows_sampling_and_not_the_address(chat: Make) -> None:
    assert chat().fingerprint == chat(base_url="http://127.0.0.1:1/v1", timeout_s=1.0).fingerprint
    assert chat().fingerprint != chat(temperature=0.9).fingerprint


@pytest.mark.parametrize("size", [(40, 60), (1_700, 2_200), (3_000, 1)])
def test_images_are_sent_within_the_cap_and_keep_their_shape(tmp_path: Path, size: tuple[int, int]) -> None:
    path = tmp_path / "page.png"
    Image.new("RGBA", size, "white").save(path)
    head, _, data = image_url(path, 100_000).partition(",")
    assert head == "data:image/jpeg;base64"
    with Image.open(io.BytesIO(base64.b64decode(data))) as sent:
        assert sent.width * sent.height <= 100_000
        if size[0] * size[1] <= 100_000:
            assert sent.size == size
        else:
            assert sent.width / sent.height == pytest.approx(size[0] / size[1], rel=0.02)


def test_an_unreadable_image_is_named(tmp_path: Path, chat: Make) -> None:
    bad = tmp_path / "page.png"
    with pytest.raises(InputError, match=r"page\.png"):
        image_url(bad, 100)
    bad.write_text("<html>")
    with pytest.raises(InputError, match=r"page\.png"):
        chat().complete((Message(role="user", text="x", images=(bad,)),))
