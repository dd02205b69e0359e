"""A model that replies as told, and candidates to show it."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Callable

import pytest

from medvrag_core.filter.base import Candidate
from medvrag_core.models.base import ChatModel, ChatRequest
from medvrag_core.models.tokens import EstimatedTokens
from medvrag_core.records import ReaderReply
from medvrag_core.settings import ModelSettings

_LINE = re.compile(r"^(\d+)\. (.*)$", re.M)


class FakeChat(ChatModel):
    """Replies with what ``say`` returns for a request; an exception that it returns is raised."""

    def __init__(self, say: Callable[[ChatRequest], str | BaseException], **settings: object) -> None:
        self.settings = ModelSettings.model_validate({"model": "fake"} | settings)
        self.say = say
        self.requests: list[ChatRequest] = []
        self.counted: list[str] = []
        self.most_at_once = 0
        self._now = 0
        self._lock = threading.Lock()

    @property
    def fingerprint(self) -> str:
        return "fake"

    def complete(self, request: ChatRequest) -> ReaderReply:
        with self._lock:
            self.requests.append(request)
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
        try:
            said = self.say(request)
        finally:
            with self._lock:
                self._now -= 1
        if isinstance(said, BaseException):
            raise said
        return ReaderReply(
            text=said, call=digest(prompt_of(request)), prompt_tokens=len(prompt_of(request)), completion_tokens=9
        )

    def count_tokens(self, text: str) -> int:
        with self._lock:
            self.counted.append(text)
        return EstimatedTokens().count(text)

    @staticmethod
    def lines_of(request: ChatRequest) -> dict[int, str]:
        """Numbers and summaries as the prompt shows them."""
        return lines_of(request)

    @staticmethod
    def by_digest(request: ChatRequest) -> str:
        """A ranking that depends on the summaries alone, in no order that Stage 1 would give."""
        lines = lines_of(request)
        return json.dumps({"ranking": sorted(lines, key=lambda number: digest(lines[number]))})


def prompt_of(request: ChatRequest) -> str:
    return request.messages[0].text


def lines_of(request: ChatRequest) -> dict[int, str]:
    shown = prompt_of(request).split("<summaries>\n")[1].split("\n</summaries>")[0]
    return {int(number): summary for number, summary in _LINE.findall(shown)}


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture(scope="session")
def fake_chat() -> type[FakeChat]:
    """A model that replies as told."""
    return FakeChat


@pytest.fixture(scope="session")
def pool() -> Callable[..., list[Candidate]]:
    """Makes candidates ``p1#p1``, ``p2#p1``, ... in Stage-1 order."""

    def make(n: int, summary: str = "about page {0}") -> list[Candidate]:
        return [Candidate(f"p{i}#p1", summary.format(i), rank=i, score=1.0 / i) for i in range(1, n + 1)]

    return make
