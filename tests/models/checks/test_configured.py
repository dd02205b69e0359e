"""Settings that are wrong before any server is asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest_httpserver import HTTPServer

from medvrag_core.evaluation.labels.judge import PAGE_CHARACTERS, REPLY_TOKENS
from medvrag_core.filter.llm_ranker import LlmRanker
from medvrag_core.models.base import ChatModel
from medvrag_core.models.checks.base import Finding, Role
from medvrag_core.models.checks.configured import (
    DOCUMENT_TOKENS,
    HELPER_REPLY_TOKENS,
    JUDGE_CHARACTERS,
    JUDGE_REPLY_TOKENS,
    SHOWN_CHARACTERS,
    check_room,
    reply_tokens,
)
from medvrag_core.models.checks.pages import page_size
from medvrag_core.models.doctor import run_checks
from medvrag_core.reasoning.follow_up_tasks import ANSWER_TOKENS, ASK_TOKENS
from medvrag_core.reasoning.knowledge import prompted
from medvrag_core.reasoning.knowledge.prompted import GAPS_TOKENS, SELECTION_TOKENS, SUMMARY_TOKENS
from medvrag_core.settings import ReaderSettings

Make = Callable[..., Any]
READER_CHECKS = ["settings", "room", "server", "revision", "context", "tokens", "reply", "images", "pixels"]
KEY = "sk-secret-0123456789abcdef"


@pytest.mark.parametrize("empty", ["base_url", "model"])
def test_an_empty_setting_is_named_and_nothing_is_asked(examined: Make, httpserver: HTTPServer, empty: str) -> None:
    checks = examined(**{empty: ""})
    assert (checks["settings"].state, checks["settings"].change) == ("failed", f"set 'reader_model.{empty}'")
    assert checks.having("skipped") == READER_CHECKS[1:]
    assert httpserver.log == []


@pytest.mark.parametrize(
    "address", ["localhost:8000", "http://127.0.0.1:99999/v1", "ftp://127.0.0.1/v1", "http://", "http://\x01/", "//x"]
)
@pytest.mark.parametrize("reader", ["vlm", "likelihood"])
def test_what_is_no_address_is_not_asked(address: str, reader: str, profile_of: Make, diagnosed: Make) -> None:
    profile = profile_of("reader_model", address).model_copy(update={"reader": ReaderSettings(name=reader)})
    checks = diagnosed(profile)
    assert checks.having("failed") == ["settings"] and "reader_model.base_url" in checks["settings"].change
    assert len(checks.having("skipped")) == len(checks) - 1


@pytest.mark.parametrize(("server", "state"), [("hosted", "failed"), ("vllm", "unknown")])
def test_a_missing_key_is_told_for_servers_elsewhere(
    monkeypatch: pytest.MonkeyPatch, server: str, state: str, profile_of: Make
) -> None:
    monkeypatch.delenv("OTHER_KEY", raising=False)
    # No such host (RFC 2606), so that nothing leaves this computer.
    profile = profile_of("reader_model", "http://none.invalid/v1", server=server, key_env="OTHER_KEY")
    check = next(run_checks(profile))
    assert (check.name, check.state) == ("settings", state)
    assert "OTHER_KEY" in check.change and "reader_model.key_env" in check.change
    monkeypatch.setenv("OTHER_KEY", KEY)
    check = next(run_checks(profile))
    assert check.state == "ok" and KEY not in check.to_json()


@pytest.fixture
def room(profile_of: Make) -> Callable[..., Finding]:
    def check(role: Any = "reader_model", **changes: Any) -> Finding:
        return check_room(Role(role, profile_of(role, "http://127.0.0.1:1/v1", **changes)))

    return check


def test_a_context_that_is_too_short_for_the_pages_shows_the_sum(room: Make) -> None:
    found = room(context_tokens=16_384)
    assert found.state == "failed" and "10 pages x 1,282" in found.found and "of 16,384" in found.found
    assert "reader_model.context_tokens" in found.change and "loop.pages_shown" in found.change
    assert room(context_tokens=16_384, loop__pages_shown=4).state == "ok"
    assert room(context_tokens=16_384, max_images=4).state == "ok"
    assert room(context_tokens=16_384, loop__overflow="scale_pages").state == "ok"
    assert room(context_tokens=8_192, loop__overflow="scale_pages").state == "failed"


def test_a_context_without_room_for_summaries_names_it(room: Make) -> None:
    found = room("filter_model", context_tokens=1_024)
    assert (found.state, found.change) == ("failed", "raise 'filter_model.context_tokens'")
    assert "filter.shard_size" in room("filter_model", context_tokens=8_192).found


def test_the_judge_has_room_for_a_page_as_it_cuts_it(room: Make) -> None:
    assert (JUDGE_CHARACTERS, JUDGE_REPLY_TOKENS) == (PAGE_CHARACTERS, REPLY_TOKENS)
    assert room("judge_model", context_tokens=3_700).state == "ok"
    short = room("judge_model", context_tokens=3_699)
    assert short.state == "unknown" and "raise 'judge_model.context_tokens'" in short.change


def test_the_helper_has_room_for_the_longest_task_and_the_generator_for_its_document(room: Make) -> None:
    asked = (SUMMARY_TOKENS, GAPS_TOKENS, SELECTION_TOKENS, ASK_TOKENS, ANSWER_TOKENS)
    assert max(asked) == HELPER_REPLY_TOKENS
    assert (DOCUMENT_TOKENS, SHOWN_CHARACTERS) == (prompted.DOCUMENT_TOKENS, prompted.MAX_SHOWN)
    pages, snippets, text = 10 * 1_500 + 5 * 512, 32 * 512, 2_000 + 768
    assert room("helper_model", context_tokens=pages + text).state == "ok"
    short = room("helper_model", context_tokens=pages + text - 1)
    assert short.state == "unknown" and "'helper_model.context_tokens'" in short.change and "17,560" in short.found
    few = {"loop__pages_shown": 1}
    assert room("helper_model", context_tokens=snippets + text, **few).state == "ok"
    assert room("helper_model", context_tokens=snippets + text - 1, **few).state == "unknown"
    assert room("helper_model", context_tokens=10 * 512 + text, i_medrag__snippets=10, **few).state == "ok"
    assert room("helper_model", context_tokens=10 * 512 + text - 1, i_medrag__snippets=9, **few).state == "unknown"
    assert room("generator_model", context_tokens=2_512).state == "ok"
    assert "raise" in room("generator_model", context_tokens=2_511).change
    cut = room("generator_model", max_tokens=256)
    assert (cut.state, cut.change) == ("unknown", "raise 'generator_model.max_tokens' to 512")


@given(keep=st.integers(1, 400), most=st.integers(1, 4_000))
@settings(max_examples=50, deadline=None)
def test_the_reply_reserve_is_that_of_the_ranker(keep: int, most: int, profile_of: Make) -> None:
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
