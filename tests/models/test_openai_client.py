"""The door to models against a server that misbehaves on order (cases BC-15, BC-18; promises P10 to P13)."""

from __future__ import annotations

import asyncio
import re
import socket
import statistics
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from medvrag_core.errors import InputError, ModelError, SettingsError
from medvrag_core.models.base import ChatRequest, Message, PageImage
from medvrag_core.models.completion import Assembly
from medvrag_core.models.faults import retry_after
from medvrag_core.models.images import sized
from medvrag_core.models.limits import CallLimits
from medvrag_core.models.openai_client import OpenAIChat
from medvrag_core.models.outcomes import FINAL, PASSING, STOPPING, CallError, RunStopped
from medvrag_core.models.tokens import EstimatedTokens
from medvrag_core.records import ReaderReply
from medvrag_core.settings import CallSettings, ModelSettings

ASK = ChatRequest(purpose="reader", prompt_version="v1", messages=(Message(role="user", text="hello"),))
Make = Callable[..., OpenAIChat]


class Clock:
    """Stands for sleeping between tries: remembers the pauses and takes none."""

    def __init__(self) -> None:
        self.pauses: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await asyncio.sleep(0)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def chat(chaos: Any, clock: Clock) -> Make:
    """Makes clients of the misbehaving server."""

    def make(calls: dict[str, Any] | None = None, **settings: Any) -> OpenAIChat:
        values = {"base_url": chaos.url, "model": "m", "timeout_s": 5.0, "wall_s": 20.0} | settings
        return OpenAIChat(ModelSettings(**values), CallSettings(**calls or {}), sleep=clock.sleep)

    return make


def fails(model: OpenAIChat, request: ChatRequest = ASK) -> CallError:
    with pytest.raises(CallError) as caught:
        model.complete(request)
    return caught.value


def test_a_finished_reply_comes_back_with_its_counts(chaos: Any, chat: Make) -> None:
    reply = chat(temperature=0.2).complete(ASK.model_copy(update={"max_tokens": 40}))
    assert reply.text.startswith("<answer>") and (reply.prompt_tokens, reply.attempts) == (5_000, 1)
    sent = chaos.log()["requests"][-1]["body"]
    assert (sent["temperature"], sent["max_tokens"], sent["seed"]) == (0.2, 40, 42)
    assert sent["chat_template_kwargs"] == {"enable_thinking": False}
    assert sent["messages"] == [{"role": "user", "content": "hello"}]
    assert sent["stream"] is True and sent["stream_options"] == {"include_usage": True}


def test_a_server_that_does_not_stream_is_understood(chaos: Any, chat: Make) -> None:
    chaos.control(faults=["whole"])
    assert chat().complete(ASK).text.startswith("<answer>")


def test_a_hosted_service_gets_only_fields_that_all_know(chaos: Any, chat: Make) -> None:
    chat(server="hosted", repetition_penalty=1.1).complete(ASK)
    sent = chaos.log()["requests"][-1]["body"]
    assert not {"chat_template_kwargs", "repetition_penalty", "repeat_penalty"} & sent.keys()


@pytest.mark.parametrize(("server", "field"), [("vllm", "repetition_penalty"), ("llama.cpp", "repeat_penalty")])
def test_sampling_is_spelled_as_the_server_spells_it(chaos: Any, chat: Make, server: str, field: str) -> None:
    chat(server=server, repetition_penalty=1.05).complete(ASK)
    assert chaos.log()["requests"][-1]["body"][field] == 1.05


def test_a_schema_is_sent_as_one(chaos: Any, chat: Make) -> None:
    schema = {"type": "object", "properties": {"ranking": {"type": "array", "items": {"type": "integer"}}}}
    chat().complete(ASK.model_copy(update={"reply_schema": schema}))
    held = chaos.log()["requests"][-1]["body"]["response_format"]
    assert held["type"] == "json_schema" and held["json_schema"]["schema"] == schema


# --- only complete answers count (P10) ---------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("length", "truncated"),  # BC-18
        ("content_filter", "refused"),
        ("refusal", "refused"),
        ("null", "empty"),
        ("blank", "empty"),
    ],
)
def test_what_the_model_did_is_final_and_not_asked_again(chaos: Any, chat: Make, fault: str, kind: str) -> None:
    chaos.control(faults=[fault])
    error = fails(chat())
    assert error.kind == kind and error.final and error.attempts == 1
    assert error.prompt_tokens == 5_000, "what a failed call cost is charged"
    assert sum(chaos.log()["started"].values()) == 1, "a reply that was given is never asked for again"


@pytest.mark.parametrize(
    "fault",
    [
        "cut",
        "cut_before_usage",
        "abort",
        "tool_calls",
        "error200",
        "sse_error",
        "503",
        "429",
        "500",
        "408",
        "close",
        "html",
        "half_json",
        "no_choices",
        "no_usage",
        "bad_usage",
        "too_many_tokens",
        "huge",
    ],
)
def test_passing_faults_are_tried_again(chaos: Any, chat: Make, fault: str) -> None:
    chaos.control(faults=[fault])
    reply = chat().complete(ASK)
    assert reply.text.startswith("<answer>") and reply.attempts == 2
    chaos.control(faults=[fault] * 3)
    error = fails(chat({"attempts": 3}))
    assert error.kind in PASSING and error.attempts == 3
    assert sum(chaos.log()["started"].values()) == 5


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_request_that_is_not_accepted_is_not_tried_again(chaos: Any, chat: Make, status: int) -> None:
    chaos.control(faults=[str(status)])
    assert fails(chat()).kind == "rejected"
    assert sum(chaos.log()["started"].values()) == 1


def test_a_refusal_inside_a_stream_is_one(chaos: Any, chat: Make) -> None:
    chaos.control(faults=["sse_400"])
    error = fails(chat())
    assert error.kind == "rejected" and "json_schema: false" in str(error)
    assert sum(chaos.log()["started"].values()) == 1


@pytest.mark.parametrize(("fault", "field"), [("401", "key_env"), ("403", "key_env"), ("404", "base_url")])
def test_a_closed_door_stops_the_run_and_names_the_setting(chaos: Any, chat: Make, fault: str, field: str) -> None:
    chaos.control(faults=[fault])
    model = chat()
    with pytest.raises(RunStopped, match=field):
        model.complete(ASK)
    with pytest.raises(RunStopped):
        model.complete(ASK)
    assert sum(chaos.log()["started"].values()) == 1, "once stopped, nothing more is sent"


def test_another_model_than_asked_stops_the_run(chaos: Any, chat: Make) -> None:
    chaos.control(faults=["wrong_model"])
    with pytest.raises(RunStopped, match=r"'another-model' replied where 'm' was asked.*reported_as"):
        chat().complete(ASK)
    chaos.control(faults=["wrong_model"])
    assert chat(reported_as="another-model").complete(ASK).model == "m"


@pytest.mark.parametrize("thinking", [False, True])
def test_bc15_a_reply_in_the_reasoning_field_is_taken_and_flagged(chaos: Any, chat: Make, thinking: bool) -> None:
    chaos.control(faults=["reasoning"])
    if thinking:
        assert fails(chat(thinking=True)).kind == "empty", "a model that may think has not answered yet"
    else:
        reply = chat().complete(ASK)
        assert reply.text.startswith("<answer>") and reply.flags == ("reply_in_reasoning_field",)


def test_counts_can_be_waived(chaos: Any, chat: Make) -> None:
    chaos.control(faults=["no_usage"])
    assert chat(usage=False).complete(ASK).prompt_tokens == 0


# --- log-probabilities ---------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["", "whole"])
def test_log_probabilities_come_streamed_and_whole(chaos: Any, chat: Make, fault: str) -> None:
    chaos.control(faults=[fault])
    reply = chat().complete(ASK.model_copy(update={"logprobs": True}))
    assert chaos.log()["requests"][-1]["body"]["logprobs"] is True
    assert reply.text.startswith("<answer>") and len(reply.text) == 18
    assert reply.mean_logprob == (-0.25 * 4 - 1) / 5, "five tokens of four characters, the last of them -1"
    assert reply.flags == (), "the mark of the end need not be listed"


def test_they_are_not_asked_for_nor_kept_unless_wanted(chaos: Any, chat: Make) -> None:
    assert chat().complete(ASK).mean_logprob is None
    assert "logprobs" not in chaos.log()["requests"][-1]["body"]


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("no_logprobs", "without log-probabilities, which were asked for.*vLLM and llama.cpp"),
        ("nan_logprob", "the log-probability nan"),
        ("minus_infinity", "the log-probability -inf"),
    ],
)
def test_a_reply_without_usable_log_probabilities_is_none(chaos: Any, chat: Make, fault: str, words: str) -> None:
    chaos.control(faults=[fault] * 2)
    error = fails(chat({"attempts": 2}), ASK.model_copy(update={"logprobs": True}))
    assert error.kind == "malformed" and re.search(words, str(error))
    assert error.completion_tokens > 0 and error.attempts == 2


@pytest.mark.parametrize("listed", [None, True, "-0.5", 0.5, float("inf"), -(10**400), {}])
def test_what_is_no_log_probability_is_refused(listed: Any) -> None:
    with pytest.raises(CallError, match=r"holds the log-probability"):
        assembled([{"logprob": -0.5}, {"logprob": listed}])


@given(st.lists(st.floats(-50, 0), min_size=1, max_size=40), st.data())
def test_however_a_stream_is_cut_the_mean_is_the_same(values: list[float], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(values)))
    steps = [{"logprob": value} for value in values]
    assert assembled(steps[:cut], steps[cut:]).mean_logprob == assembled(steps).mean_logprob
    assert assembled(steps).mean_logprob == pytest.approx(statistics.fmean(values))


def test_tokens_that_are_not_listed_are_told() -> None:
    steps = [{"logprob": -0.5}] * 4
    assert assembled(steps, tokens=5).flags == () and assembled(steps, tokens=6).flags == ("logprobs_partial",)
    assert assembled([{"logprob": 3e-5}], tokens=1).mean_logprob == 0.0, "single precision"


def assembled(*chunks: list[dict[str, Any]], tokens: int = 1) -> ReaderReply:
    """What an assembly makes of a stream whose chunks list these tokens."""
    assembly = Assembly()
    for steps in chunks:
        delta = {"content": "x"}
        assembly.add({"model": "m", "choices": [{"delta": delta, "logprobs": {"content": steps}}]})
    assembly.add({"model": "m", "choices": [{"delta": {}, "finish_reason": "stop"}]})
    assembly.add({"model": "m", "choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": tokens}})
    return assembly.finished(ModelSettings(model="m"), max_tokens=99, logprobs=True)


def test_images_that_a_server_dropped_are_noticed(chaos: Any, chat: Make, tmp_path: Any) -> None:
    path = tmp_path / "page.png"
    Image.new("RGB", (2_000, 2_000)).save(path)
    request = ASK.model_copy(update={"messages": (Message(role="user", text="x", images=(sized(path, 10**7),)),)})
    # 2000 x 2000 pixels are 5,041 visual tokens, more than the 5,000 that this server counts in the whole prompt.
    error = fails(chat({"attempts": 1}, model="Qwen2.5-VL", max_pixels=10**7), request)
    assert error.kind == "malformed" and "5000 in the prompt (at least 5041)" in str(error)


# --- tries, pauses, budgets (P11) ----------------------------------------------------------------


def test_the_pause_grows_and_follows_retry_after(chaos: Any, chat: Make, clock: Clock) -> None:
    chaos.control(faults=["500", "500", "500"])
    chat({"attempts": 4, "pause_s": 2.0}).complete(ASK)
    for pause, middle in zip(clock.pauses, (2.0, 4.0, 8.0), strict=True):
        assert 0.75 * middle <= pause <= 1.25 * middle


def test_a_server_that_asks_for_time_gets_it(httpserver: Any, clock: Clock) -> None:
    httpserver.expect_ordered_request("/v1/chat/completions").respond_with_data(
        "busy", status=429, headers={"Retry-After": "7"}
    )
    httpserver.expect_ordered_request("/v1/chat/completions").respond_with_data("no", status=400)
    settings = ModelSettings(base_url=httpserver.url_for("/v1"), model="m")
    assert fails(OpenAIChat(settings, CallSettings(pause_s=0.0), sleep=clock.sleep)).kind == "rejected"
    assert clock.pauses == [7.0]


def test_retry_after_may_be_a_date() -> None:
    now = datetime(2026, 11, 30, 8, 0, 0, tzinfo=UTC)
    assert retry_after("Mon, 30 Nov 2026 08:00:09 GMT", now=now) == 9.0
    assert retry_after("Mon, 30 Nov 2026 07:00:00 GMT", now=now) == 0.0
    assert retry_after("nan") == 0.0


def test_a_used_up_quota_does_not_pass_by_waiting(httpserver: Any, clock: Clock) -> None:
    error = {"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}}
    httpserver.expect_request("/v1/chat/completions").respond_with_json(error, status=429)
    with pytest.raises(RunStopped):
        OpenAIChat(ModelSettings(base_url=httpserver.url_for("/v1"), model="m"), sleep=clock.sleep).complete(ASK)
    assert clock.pauses == []


@pytest.mark.parametrize("fault", ["hang", "drip"])
def test_the_wall_budget_ends_what_a_read_timeout_does_not(chaos: Any, chat: Make, fault: str) -> None:
    chaos.control(faults=[fault])
    start = time.monotonic()
    error = fails(chat({"attempts": 1}, timeout_s=30.0, wall_s=0.5))
    assert error.kind == "timeout" and "wall_s" in str(error)
    assert time.monotonic() - start < 20, "the server would have gone on for a minute"


def test_silence_is_a_timeout(chaos: Any, chat: Make) -> None:
    chaos.control(faults=["hang"])
    error = fails(chat({"attempts": 1}, timeout_s=0.3))
    assert error.kind == "timeout" and "timeout_s" in str(error)


def test_a_missing_server_is_named(chat: Make) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    with pytest.raises(ModelError, match=url) as caught:
        chat({"attempts": 2}, base_url=url).complete(ASK)
    assert isinstance(caught.value, CallError) and (caught.value.kind, caught.value.attempts) == ("transport", 2)


def test_a_redirect_is_not_followed(httpserver: Any) -> None:
    httpserver.expect_request("/v1/chat/completions").respond_with_data(
        "", status=307, headers={"Location": httpserver.url_for("/elsewhere")}
    )
    with pytest.raises(RunStopped):
        OpenAIChat(ModelSettings(base_url=httpserver.url_for("/v1"), model="m")).complete(ASK)
    assert [request.path for request, _ in httpserver.log] == ["/v1/chat/completions"]


def test_p12_a_server_that_no_longer_works_stops_the_run(chaos: Any, chat: Make) -> None:
    chaos.control(faults=["500"] * 100)
    model = chat({"attempts": 2, "give_up_after": 3})
    assert [fails(model).kind for _ in range(2)] == ["unavailable"] * 2
    with pytest.raises(RunStopped, match="3 model calls failed one after another"):
        model.complete(ASK)
    assert sum(chaos.log()["started"].values()) == 6


def test_counting_tokens_is_watched_too(chaos: Any, chat: Make) -> None:
    model = chat({"attempts": 1, "give_up_after": 2})
    chaos.close()
    with pytest.raises(CallError, match="cannot be reached"):
        model.count_tokens("x")
    with pytest.raises(RunStopped):
        model.count_tokens("x")


def test_failures_between_successes_do_not_stop_it(chaos: Any, chat: Make) -> None:
    model = chat({"attempts": 1, "give_up_after": 2})
    for _ in range(3):
        chaos.control(faults=["500"])
        assert fails(model).kind == "unavailable"
        assert model.complete(ASK).text
    chaos.control(faults=["length"] * 5)
    assert [fails(model).kind for _ in range(5)] == ["truncated"] * 5, "what a model does is no fault of the server"


# --- bounds (P13) ----------------------------------------------------------------------------


def test_calls_in_flight_are_bounded(chaos: Any, chat: Make) -> None:
    chaos.control(delay=0.05)
    model = chat({"in_flight": 3})
    with ThreadPoolExecutor(12) as pool:
        list(pool.map(lambda _: model.complete(ASK), range(12)))
    assert chaos.log()["most_at_once"] == 3


def test_image_bytes_in_flight_are_bounded_and_a_large_call_goes_alone() -> None:
    limits = CallLimits(CallSettings(in_flight=50, image_mb=10))
    most, lock = [0], threading.Lock()

    def call(size: int) -> None:
        with limits.place(size):
            with lock:
                most[0] = max(most[0], limits.in_flight[1])
            time.sleep(0.005)

    with ThreadPoolExecutor(20) as pool:
        list(pool.map(call, [3_000_000] * 40))
    assert most[0] == 9_000_000
    call(99_000_000)
    assert most[0] == 99_000_000 and limits.in_flight == (0, 0)


def test_stopping_lets_waiting_calls_go() -> None:
    limits = CallLimits(CallSettings(in_flight=1))
    seen: list[str] = []

    def wait() -> None:
        try:
            with limits.place():
                seen.append("in")
        except RunStopped as stopped:
            seen.append(stopped.problem)

    with limits.place():
        waiting = threading.Thread(target=wait)
        waiting.start()
        limits.stop("stopped by Ctrl-C")
        waiting.join(5)
        assert not limits.idle(0.01)
    assert seen == ["stopped by Ctrl-C"] and limits.idle(1.0)


# --- keys ------------------------------------------------------------------------------------


def test_the_key_comes_from_the_environment_only(chaos: Any, chat: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    chat().complete(ASK)
    monkeypatch.setenv("OPENAI_API_KEY", "canary-of-the-default")
    monkeypatch.setenv("OTHER_SERVICE", "canary-of-the-other")
    first, second = chat(), chat(key_env="OTHER_SERVICE")
    first.complete(ASK)
    second.complete(ASK)
    sent = [request["authorization"] for request in chaos.log()["requests"]]
    assert sent == ["Bearer EMPTY", "Bearer canary-of-the-default", "Bearer canary-of-the-other"]
    assert first.fingerprint == second.fingerprint


@pytest.mark.parametrize("fault", ["400", "500"])
def test_a_server_that_repeats_the_key_does_not_bring_it_into_an_error(
    chaos: Any, chat: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fault: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary-0123456789")
    chaos.control(faults=[fault] * 4)
    error = fails(chat({"attempts": 2}))
    assert "canary" not in str(error) + caplog.text and "[key removed]" in str(error)


@pytest.mark.parametrize(
    "values",
    [
        {"base_url": "http://user:pass@127.0.0.1/v1"},
        {"base_url": "http://127.0.0.1/v1?key=1"},
        {"key_env": "sk-proj-0123456789abcdefghijk"},
    ],
)
def test_settings_cannot_hold_a_key(values: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="key"):
        ModelSettings(**values)  # type: ignore[arg-type]


def test_a_proxy_in_the_environment_is_not_used_on_loopback(chat: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    assert chat().complete(ASK).text


# --- the rest ----------------------------------------------------------------------------------


def test_every_outcome_has_one_consequence() -> None:
    assert not FINAL & PASSING and not FINAL & STOPPING and not PASSING & STOPPING


@pytest.mark.parametrize("field", ["base_url", "model"])
def test_an_empty_address_or_name_is_refused(field: str) -> None:
    values = {"base_url": "http://127.0.0.1:1/v1", "model": "m"} | {field: ""}
    with pytest.raises(SettingsError, match=field):
        OpenAIChat(ModelSettings(**values))  # type: ignore[arg-type]


def test_the_fingerprint_follows_sampling_and_not_the_address(chat: Make) -> None:
    where = {"base_url": "http://127.0.0.1:1/v1", "timeout_s": 1.0, "wall_s": 2.0, "key_env": "OTHER"}
    assert chat().fingerprint == chat(**where).fingerprint
    for field, value in {"temperature": 0.9, "revision": "abc", "model": "n", "max_pixels": 800, "seed": 1}.items():
        assert chat().fingerprint != chat(**{field: value}).fingerprint


def test_tokens_are_counted_by_the_server_once_a_text(chaos: Any, chat: Make, httpserver: Any) -> None:
    assert chat().count_tokens("one two three") == 6
    httpserver.expect_ordered_request("/tokenize").respond_with_json({"tokens": [1, 2, 3]})
    model = chat(base_url=httpserver.url_for("/v1"), server="llama.cpp")
    assert [model.count_tokens("x") for _ in range(3)] == [3, 3, 3]
    assert httpserver.log[0][0].get_json() == {"content": "x", "add_special": False}


def test_a_server_without_a_tokenizer_names_the_way_out(httpserver: Any) -> None:
    httpserver.expect_request("/tokenize").respond_with_data("not here", status=404)
    settings = ModelSettings(base_url=httpserver.url_for("/v1"), model="m", tokenizer="server")
    with pytest.raises(CallError, match="tokenizer: estimate"):
        OpenAIChat(settings).count_tokens("x")


def test_without_one_tokens_are_estimated_and_the_server_is_asked_once(
    httpserver: Any, caplog: pytest.LogCaptureFixture
) -> None:
    httpserver.expect_request("/tokenize").respond_with_data("not here", status=404)
    model = OpenAIChat(ModelSettings(base_url=httpserver.url_for("/v1"), model="m"))
    text = "Hydroxychloroquine is dosed by weight."
    assert [model.count_tokens(text), model.count_tokens(text + " x")] == [
        EstimatedTokens().count(text),
        EstimatedTokens().count(text + " x"),
    ]
    assert len(httpserver.log) == 1 and "estimated" in caplog.text


def test_an_unreadable_image_is_named(tmp_path: Any, chat: Make) -> None:
    bad = tmp_path / "page.png"
    with pytest.raises(InputError, match=r"page\.png"):
        sized(bad, 100)
    bad.write_text("<html>")
    shown = (Message(role="user", text="x", images=(PageImage(path=bad, width=9, height=9),)),)
    with pytest.raises(InputError, match=r"page\.png"):
        chat().complete(ASK.model_copy(update={"messages": shown}))
