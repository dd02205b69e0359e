"""Stand-ins at the seams of the loop: a source of pages, a filter that keeps all, a model that replies on order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from PIL import Image

from medvrag_core.filter.base import Candidate, PageFilter
from medvrag_core.models.base import ChatModel, ChatRequest
from medvrag_core.models.outcomes import CallError
from medvrag_core.reasoning.source import EvidenceSource
from medvrag_core.records import (
    EvidenceItem,
    FilterDecision,
    Hit,
    ReaderReply,
    SearchResult,
    ShardDecision,
    StageTime,
    Summary,
)
from medvrag_core.settings import ModelSettings

Say = Callable[[ChatRequest], str | CallError]


class Pages(EvidenceSource):
    """The same pages for every query, unless ``found`` says otherwise; ``images`` is a folder of ``1.png``, ..."""

    def __init__(
        self,
        texts: dict[str, str] | None = None,
        found: Callable[[str], Sequence[str]] | None = None,
        summaries: dict[str, str] | None = None,
        images: Path | None = None,
    ) -> None:
        self.texts = texts or {f"d#p{n}": f"text of d#p{n}" for n in range(1, 13)}
        self.summaries = summaries or {}
        self.images = images
        self.queries: list[str] = []
        self._found = found or (lambda query: list(self.texts))

    def search(self, query: str) -> SearchResult:
        self.queries.append(query)
        hits = [Hit(page_id=name, score=1.0 / rank, rank=rank) for rank, name in enumerate(self._found(query), 1)]
        return SearchResult(hits=tuple(hits), times=(StageTime(step="exact", seconds=0.0),))

    def summary(self, evidence_id: str) -> Summary:
        return Summary(page_id=evidence_id, text=self.summaries.get(evidence_id, ""), method="test")

    def evidence(self, evidence_id: str) -> EvidenceItem:
        image = str(self.images / f"{evidence_id.partition('#p')[2]}.png") if self.images else ""
        return EvidenceItem(
            evidence_id=evidence_id, page_id=evidence_id, text=self.texts.get(evidence_id, ""), image=image
        )


class KeepAll(PageFilter):
    """Keeps Stage-1 order; ``calls`` are reported as they were given."""

    def __init__(self, *calls: ShardDecision) -> None:
        self.calls = calls

    def select(self, query: str, candidates: Sequence[Candidate]) -> FilterDecision:
        return FilterDecision(kept=tuple(c.page_id for c in candidates), calls=self.calls)


class FakeChat(ChatModel):
    """Says what ``say`` makes of a request; a token is four characters."""

    fingerprint = "fake"

    def __init__(self, say: Say, **settings: object) -> None:
        self.say = say
        self.settings = ModelSettings.model_validate({"model": "fake"} | settings)
        self.requests: list[ChatRequest] = []
        self.counted: list[str] = []

    def complete(self, request: ChatRequest) -> ReaderReply:
        self.requests.append(request)
        said = self.say(request)
        if isinstance(said, CallError):
            raise said
        return ReaderReply(
            text=said, model="fake", prompt_tokens=70, completion_tokens=7, call=f"c{len(self.requests)}"
        )

    def count_tokens(self, text: str) -> int:
        self.counted.append(text)
        return -(-len(text) // 4)

    def prompts(self, purpose: str) -> list[str]:
        return [request.messages[-1].text for request in self.requests if request.purpose == purpose]


@pytest.fixture(scope="session")
def pages() -> type[Pages]:
    return Pages


@pytest.fixture(scope="session")
def keep_all() -> type[KeepAll]:
    return KeepAll


@pytest.fixture(scope="session")
def fake_chat() -> type[FakeChat]:
    return FakeChat


@pytest.fixture
def page_images(tmp_path: Path) -> Path:
    """Twelve page images, 560 x 700 pixels, 500 visual tokens each."""
    for number in range(1, 13):
        Image.new("RGB", (560, 700), (20 * number, 0, 0)).save(tmp_path / f"{number}.png")
    return tmp_path
