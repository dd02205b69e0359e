"""Calls that end wrongly, schemas that nobody enforces, models that think (cases BC-15 and BC-18)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_httpserver import HTTPServer

from medvrag_core.models.checks.replies import SCHEMA, fits_schema
from medvrag_core.models.local_server import MODEL
from medvrag_core.profiles.load import load_profile
from medvrag_core.settings import Profile

Make = Callable[..., Any]


def test_another_name_in_the_reply_names_the_setting(examined: Make, script: Any) -> None:
    script.reports = "qwen-alias"
    checks = examined()
    assert checks.having("failed") == ["reply"]
    assert "qwen-alias" in checks["reply"].found and "reader_model.reported_as" in checks["reply"].change
    assert examined(reported_as="qwen-alias").having("failed") == []


def test_replies_without_counts_name_the_setting(examined: Make, script: Any) -> None:
    script.usage = False
    checks = examined()
    assert checks.having("failed") == ["reply"] and "reader_model.usage: false" in checks["reply"].change
    assert checks["pixels"].state == "unknown"
    assert examined(usage=False).having("failed") == []


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
        ("close", "ok", "ends properly"),
        ("sse_error", "failed", "engine died"),
        ("content_filter", "failed", "refused"),
        ("blank", "failed", "empty"),
        ("wrong_model", "failed", "another-model"),
    ],
)
def test_how_the_first_call_ends(
    chaos: Any, fault: str, state: str, words: str, profile_of: Make, diagnosed: Make
) -> None:
    chaos.control(faults=[fault])
    checks = diagnosed(profile_of("reader_model", chaos.url, model="chaos"))
    assert (checks["reply"].state, words in checks["reply"].found) == (state, True), checks["reply"]
    assert checks.having("failed") == ([] if state == "ok" else ["reply"]), "one fault is not to hide or spoil others"
    assert checks["images"].state == "ok"


def test_a_cut_reply_without_counts_still_fails(examined: Make, script: Any) -> None:
    script.usage, script.finish = False, "length"
    checks = examined()
    assert checks.having("failed") == ["reply"] and "reader_model.usage" in checks["reply"].change


def test_a_silent_server_is_not_waited_for_again(chaos: Any, profile_of: Make, diagnosed: Make) -> None:
    chaos.control(faults=["hang"])
    checks = diagnosed(profile_of("reader_model", chaos.url, model="chaos", timeout_s=0.5))
    assert checks.having("failed") == ["reply"] and "reader_model.timeout_s" in checks["reply"].change
    assert checks.having("skipped") == ["images", "pixels"]


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("ignored", "json_schema: false"),
        ("refused", "json_schema: false"),
        ("cut", "json_schema: false"),
        ("blanks", "disable_any_whitespace"),
    ],
)
def test_a_schema_that_is_not_held(examined: Make, script: Any, schema: str, words: str) -> None:
    script.schema = schema
    checks = examined("filter_model")
    assert checks.having("failed") == ["schema"]
    assert words in checks["schema"].change and "filter_model.json_schema" in checks["schema"].change
    assert examined("filter_model", json_schema=False).having("skipped") == ["schema"]


@given(ranking=st.lists(st.one_of(st.integers(-1, 5), st.booleans(), st.floats(0, 3)), max_size=5))
def test_what_fits_the_schema(ranking: list[Any]) -> None:
    items = SCHEMA["properties"]["ranking"]["items"]
    allowed = all(type(n) is int and items["minimum"] <= n <= items["maximum"] for n in ranking)
    assert fits_schema(json.dumps({"ranking": ranking})) == (allowed and 1 <= len(ranking) <= 3)
    assert not fits_schema(json.dumps({"ranking": ranking, "why": "so"}))
    assert not fits_schema(json.dumps(ranking))


@pytest.mark.parametrize("think", ["tag", "field"])
def test_a_model_that_thinks_although_it_should_not(examined: Make, script: Any, think: str) -> None:
    script.think = think
    checks = examined("filter_model")
    assert checks.having("failed") == ["thinking"] and "filter_model.thinking" in checks["thinking"].change
    assert "hosted" in examined("filter_model", server="hosted", tokenizer="estimate")["thinking"].change
    assert examined("filter_model", thinking=True).having("skipped") == ["thinking"]


def test_a_reply_in_the_wrong_field_is_usable_and_told(examined: Make, script: Any) -> None:
    script.think = "only field"
    checks = examined("filter_model")
    assert checks.having("failed") == []
    assert "reply_in_reasoning_field" in checks["thinking"].found and "reasoning parser" in checks["thinking"].change


def test_an_empty_block_is_no_thought(examined: Make, script: Any) -> None:
    script.think = "empty block"
    assert examined("filter_model").having("failed") == []


def scoring(base_url: str) -> Profile:
    return load_profile("cpu-llm", {"reader_model.base_url": base_url})


def test_a_server_without_log_likelihoods(script: Any, httpserver: HTTPServer, diagnosed: Make) -> None:
    script.model = MODEL
    checks = diagnosed(scoring(httpserver.url_for("/v1")))
    assert list(checks) == ["settings", "server", "revision", "context", "likelihood"]
    assert checks.having("failed") == ["likelihood"] and "reader_model.base_url" in checks["likelihood"].change
    script.raw["/tokenize"] = {"tokens": [7]}
    script.raw["/v1/completions"] = {"choices": [{"logprobs": {"content": [{"id": 7, "logprob": -2.5}]}}]}
    assert diagnosed(scoring(httpserver.url_for("/v1"))).having("failed") == []
    script.raw["/v1/completions"] = {"choices": [{"logprobs": None}]}
    assert diagnosed(scoring(httpserver.url_for("/v1"))).having("failed") == ["likelihood"]
