"""What servers say of themselves, or do not."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pytest_httpserver import HTTPServer

Make = Callable[..., Any]
READER_CHECKS = ["settings", "room", "server", "revision", "context", "tokens", "reply", "images", "pixels"]
KEY = "sk-secret-0123456789abcdef"


def test_without_a_server_the_rest_is_skipped(profile_of: Make, diagnosed: Make) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        checks = diagnosed(profile_of("reader_model", f"http://127.0.0.1:{free.getsockname()[1]}/v1"))
    assert checks.having("failed") == ["server"]
    assert "reader_model.base_url" in checks["server"].change
    assert checks.having("skipped") == READER_CHECKS[3:]


def test_a_refused_key_stops_and_is_not_printed(examined: Make, script: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCTOR_VARIABLE", KEY)
    script.status["/v1/models"] = (401, "wrong key")
    checks = examined(key_env="DOCTOR_VARIABLE")
    assert checks.having("failed") == ["server"] and "reader_model.key_env" in checks["server"].change
    assert checks.having("skipped") == READER_CHECKS[3:]
    assert "wrong key" in checks["server"].found
    assert not any(KEY in check.to_json() for check in checks.values())


def test_a_key_that_the_server_repeats_later_is_not_printed_either(
    examined: Make, script: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCTOR_VARIABLE", KEY)
    script.status["/v1/chat/completions"] = (400, "broken")
    checks = examined(key_env="DOCTOR_VARIABLE")
    assert checks.having("failed") == ["reply", "images", "pixels"]
    assert not any(KEY in check.to_json() for check in checks.values())


def test_an_unknown_name_tells_the_known_ones_and_the_rest_goes_on(examined: Make, script: Any) -> None:
    script.models = [{"id": f"model-{n}"} for n in range(9)]
    checks = examined()
    assert checks.having("failed") == ["server"]
    assert "'model-0'" in checks["server"].found and "4 more" in checks["server"].found
    assert "reader_model.model" in checks["server"].change and "--served-model-name" in checks["server"].change
    assert checks.having("skipped") == []


@pytest.mark.parametrize("said", [{"data": []}, {"models": 1}, [1], {"data": "x"}])
def test_a_server_that_lists_nothing_is_asked_all_the_same(examined: Make, script: Any, said: Any) -> None:
    script.raw["/v1/models"] = said
    checks = examined()
    assert checks.having("failed") == []
    assert checks.having("unknown") == ["server", "revision", "context"]


def test_a_page_in_place_of_a_server_fails_with_the_address(
    httpserver: HTTPServer, profile_of: Make, diagnosed: Make
) -> None:
    httpserver.expect_request(re.compile(".*")).respond_with_data("<html>log in</html>", content_type="text/html")
    checks = diagnosed(profile_of("reader_model", httpserver.url_for("/v1")))
    assert {"reply", "images", "pixels"} <= set(checks.having("failed"))
    assert "ok" not in {checks["context"].state, checks["tokens"].state}


def test_an_address_without_its_version_is_named(
    httpserver: HTTPServer, script: Any, profile_of: Make, diagnosed: Make
) -> None:
    checks = diagnosed(profile_of("reader_model", httpserver.url_for("")))
    assert checks.having("failed") == ["reply"], "the first call tells"
    assert "reader_model.base_url" in checks["reply"].change and "/v1" in checks["reply"].change


def test_the_revision_is_known_only_from_a_folder_that_bears_it(examined: Make, script: Any) -> None:
    commit = "c4e7" * 10
    script.raw["/version"] = {"version": "0.32.0"}
    check = examined(revision=commit)["revision"]
    assert check.state == "unknown" and "vLLM 0.32.0" in check.found and f"--revision {commit}" in check.change
    assert "not pinned" in examined()["revision"].found
    script.entry["root"] = f"/models/snapshots/{commit}"
    assert examined(revision=commit)["revision"].state == "ok"


@pytest.mark.parametrize("where", ["vllm", "hosted", "props", "meta"])
def test_a_shorter_context_than_the_profile_counts_on(examined: Make, script: Any, where: str) -> None:
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
    assert checks.having("failed") == ["context"]
    assert "lower 'reader_model.context_tokens' to 32767" in checks["context"].change
    assert "--max-model-len 32768" in checks["context"].change
    tell(32_768)
    assert examined()["context"].state == "ok"


def test_a_server_that_counts_no_tokens(examined: Make, script: Any) -> None:
    script.status["/tokenize"] = (404, "not found")
    checks = examined(tokenizer="server")
    assert checks.having("failed") == ["tokens"] and "reader_model.tokenizer" in checks["tokens"].change
    assert "estimate" in examined()["tokens"].found, "by itself it falls back to the estimate, and says so"
    assert "estimate" in examined(tokenizer="estimate")["tokens"].found
    script.status.clear()
    script.raw["/tokenize"] = {"count": 0}
    assert examined().having("failed") == ["tokens"]


def test_a_missing_tokenizer_file_hides_nothing_else(examined: Make, tmp_path: Path) -> None:
    checks = examined(tokenizer=str(tmp_path / "tokenizer.json"))
    assert checks.having("failed") == ["tokens"] and "reader_model.tokenizer" in checks["tokens"].change
