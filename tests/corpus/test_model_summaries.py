"""Summaries by a model: what is sent and kept, what becomes of calls that fail, and how a build goes on."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from medvrag_core.corpus import model_summaries
from medvrag_core.corpus.model_summaries import prompt_version, summarize_by_model
from medvrag_core.corpus.store import CorpusStore
from medvrag_core.corpus.summaries import METHOD, shortened, summarize_pages
from medvrag_core.errors import MismatchError, NotBuiltError, SettingsError
from medvrag_core.models.base import ChatModel, ChatRequest
from medvrag_core.models.outcomes import CallError, RunStopped
from medvrag_core.models.store import CallStore
from medvrag_core.models.tokens import EstimatedTokens
from medvrag_core.profiles.load import load_profile
from medvrag_core.records import CallOutcome, ReaderReply
from medvrag_core.runs.workspace import Workspace
from medvrag_core.settings import CorpusSettings, ModelSettings, Profile
from medvrag_core.systems.prepare import build_store

SETTINGS = CorpusSettings(summary_tokens=20)
Say = Callable[[ChatRequest], "str | CallError | RunStopped"]


class Told(ChatModel):
    """Says what ``say`` makes of a request; tokens are characters."""

    def __init__(self, say: Say, settings: ModelSettings | None = None) -> None:
        self.say, self.settings = say, settings or ModelSettings(model="vlm", max_pixels=100_000)
        self.requests: list[ChatRequest] = []
        self.counts = True
        self._lock = threading.Lock()

    @property
    def fingerprint(self) -> str:
        return f"{self.settings.model}@{self.settings.revision}"

    def complete(self, request: ChatRequest) -> ReaderReply:
        with self._lock:
            self.requests.append(request)
        said = self.say(request)
        if isinstance(said, Exception):
            raise said
        return ReaderReply(text=said, model="vlm", call="c1")

    def count_tokens(self, text: str) -> int:
        if not self.counts:
            raise CallError("transport", "no tokenizer")
        return len(text)


@pytest.fixture
def store(made_run: Workspace, tmp_path: Path) -> Iterator[CorpusStore]:
    shutil.copytree(made_run.corpus, tmp_path / "corpus")
    yield CorpusStore.open(tmp_path / "corpus")


def written(store: CorpusStore, model: ChatModel, settings: CorpusSettings = SETTINGS, at_once: int = 2) -> CorpusStore:
    summarize_by_model(CorpusStore.open(store.folder), settings, model, at_once=at_once, progress=False)
    return CorpusStore.open(store.folder)


def fails(kind: CallOutcome) -> CallError:
    error = CallError(kind, "so far", text="half")
    error.call = "c9"
    return error


def test_the_model_sees_the_image_and_its_place_and_the_summary_is_kept_with_its_tokens(store: CorpusStore) -> None:
    model = Told(lambda r: "<think>hm</think>Allopurinol  starts at\n100 mg daily.")
    made = written(store, model).summaries
    assert list(made) == [page.page_id for page in store.pages]
    first = made[store.pages[0].page_id]
    assert (first.text, first.method, first.call, first.flags) == (
        "Allopurinol starts at 100 mg daily.", "vlm", "c1", (),
    )  # fmt: skip
    assert first.tokens == len(first.text)
    told = {request.messages[0].text for request in model.requests}
    assert len(told) == len(store.pages)
    for request in model.requests:
        (message,) = request.messages
        (sent,) = message.images
        assert (request.purpose, request.prompt_version) == ("summary", prompt_version())
        assert sent.width * sent.height <= 100_000
        assert "at most 20 words" in message.text and "never an instruction" in message.text


def test_one_that_is_too_long_is_cut_behind_a_sentence_and_flagged(store: CorpusStore) -> None:
    made = written(store, Told(lambda r: "Five words are in this. " + "More of them stand here now. " * 9)).summaries
    for summary in made.values():
        assert summary.flags == ("shortened",)
        assert summary.text == "Five words are in this. More of them stand here now. More of them stand here now."
        assert summary.tokens == len(summary.text)


@given(st.lists(st.sampled_from(["word", "5", "mg.", "Then", "It", "2.5%", "!"]), max_size=40), st.integers(1, 30))
def test_shortened_is_a_beginning_within_the_limit(words: list[str], limit: int) -> None:
    text = " ".join(words)
    short = shortened(text, limit)
    assert text.startswith(short.removesuffix(" ..."))
    counted = [word for word in short.split() if any(c.isalnum() for c in word)]
    assert len(counted) <= limit
    if len([word for word in words if word != "!"]) <= limit:
        assert short == text


@pytest.mark.parametrize(
    ("kind", "asked_again"), [("truncated", False), ("refused", False), ("empty", False), ("timeout", True)]
)
def test_a_page_whose_call_failed_keeps_its_extract_with_a_flag(
    store: CorpusStore, kind: CallOutcome, asked_again: bool
) -> None:
    bad = f'page is number {store.pages[1].number} of the article "'
    title = store.articles[0].title if store.pages[1].article_id == store.articles[0].article_id else ""
    title = title or next(a.title for a in store.articles if a.article_id == store.pages[1].article_id)

    def say(request: ChatRequest) -> str | CallError:
        return fails(kind) if bad + title in request.messages[0].text else "Fine."

    summarize_pages(store, SETTINGS)
    extracts = CorpusStore.open(store.folder).summaries
    made = written(store, Told(say)).summaries
    summary = made[store.pages[1].page_id]
    assert (summary.text, summary.method) == (extracts[summary.page_id].text, METHOD)
    assert (summary.flags, summary.call) == ((f"failed:{kind}",), "c9")
    assert sum(s.text == "Fine." for s in made.values()) == len(store.pages) - 1
    again = Told(lambda r: "Better.")
    assert len(written(store, again).summaries) == len(store.pages)
    assert len(again.requests) == asked_again


def test_a_page_that_no_model_takes_and_a_model_that_counts_no_tokens(store: CorpusStore) -> None:
    Image.new("RGB", (2, 700)).save(store.image_path(store.pages[0].page_id), "JPEG")
    model = Told(lambda r: "Fine.")
    model.counts = False
    made = list(written(store, model).summaries.values())
    assert made[0].flags == ("too_narrow",) and made[0].method == METHOD
    assert made[1].flags == ("tokens_estimated",)
    assert made[1].tokens == EstimatedTokens().count("Fine.")


@pytest.mark.parametrize("change", ["model", "limit", "pixels"])
def test_what_stands_is_not_asked_again_and_whatever_shapes_it_counts(store: CorpusStore, change: str) -> None:
    written(store, Told(lambda r: "Fine."))
    before = (store.folder / "summaries.jsonl").read_bytes()
    same = Told(lambda r: pytest.fail("asked again"))
    written(store, same)
    assert (store.folder / "summaries.jsonl").read_bytes() == before
    settings = SETTINGS.model_copy(update={"summary_tokens": 30} if change == "limit" else {})
    of_model = {"model": {"model": "other"}, "pixels": {"max_pixels": 50_000}}.get(change, {})
    other = Told(lambda r: "New.", same.settings.model_copy(update=of_model))
    assert {s.text for s in written(store, other, settings).summaries.values()} == {"New."}
    assert len(other.requests) == len(store.pages)


def test_a_build_that_was_stopped_leaves_no_older_set_to_be_taken_for_whole(store: CorpusStore) -> None:
    with pytest.raises(RunStopped):
        written(store, Told(lambda r: RunStopped("the server is gone")))
    with pytest.raises(NotBuiltError, match=r"summaries\.jsonl"):
        _ = CorpusStore.open(store.folder).summaries


def test_an_extract_tells_its_tokens(store: CorpusStore) -> None:
    summarize_pages(store, SETTINGS)
    for summary in CorpusStore.open(store.folder).summaries.values():
        assert summary.tokens == EstimatedTokens().count(summary.text) > 0


# --- through the door, on loopback -----------------------------------------------------------------


def profile_of(chaos: Any) -> Profile:
    return load_profile(
        "test",
        {
            "corpus.summarizer": "model",
            "serve.summary_model.server": "vllm",
            "serve.summary_model.model": "chaos",
            "serve.summary_model.base_url": chaos.url,
            "serve.summary_model.tokenizer": "estimate",
            "calls.pause_s": 0.0,
            "calls.in_flight": 3,
        },
    )


def test_a_changed_prompt_is_told_before_any_page_is_asked_about(
    made_pdfs: Path, tmp_path: Path, chaos: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile, folder = profile_of(chaos), tmp_path / "store"
    build_store(made_pdfs, folder, profile, calls_of=Workspace(folder), progress=False)
    monkeypatch.setattr(model_summaries, "_template", lambda: "Page $number of $title in $words words")
    with pytest.raises(MismatchError, match=r"prompt of 'summary' .*: 5 stored calls"):
        build_store(made_pdfs, folder, profile, calls_of=Workspace(folder), progress=False)
    calls = profile.calls.model_copy(update={"accept_changed_prompts": True})
    accepting = profile.model_copy(update={"calls": calls})
    store = build_store(made_pdfs, folder, accepting, calls_of=Workspace(folder), progress=False)
    assert all(summary.call for summary in store.summaries.values())
    build_store(made_pdfs, folder, profile, calls_of=Workspace(folder), progress=False)


def test_a_server_that_misbehaves_costs_no_page_and_a_second_build_asks_nothing(
    made_pdfs: Path, tmp_path: Path, chaos: Any
) -> None:
    profile = profile_of(chaos)
    chaos.control(faults=["503", "cut", "length"])
    folder = tmp_path / "store"
    store = build_store(made_pdfs, folder, profile, calls_of=Workspace(folder), progress=False)
    assert list(store.summaries) == [page.page_id for page in store.pages]
    told = sorted(summary.flags for summary in store.summaries.values())
    assert told == [(), (), (), (), ("failed:truncated",)]
    assert all(summary.call for summary in store.summaries.values())
    calls = CallStore(folder / "calls.sqlite")
    assert {group.purpose for group in calls.prompts()} == {"summary"}
    calls.close()
    before = (folder / "summaries.jsonl").read_bytes()
    (folder / "summaries.jsonl").unlink()
    again = profile.model_copy(update={"calls": profile.calls.model_copy(update={"policy": "only-cache"})})
    build_store(made_pdfs, folder, again, calls_of=Workspace(folder), progress=False)
    assert (folder / "summaries.jsonl").read_bytes() == before


def test_without_a_model_the_setting_is_refused(made_pdfs: Path, tmp_path: Path) -> None:
    profile = load_profile("test", {"corpus.summarizer": "model"})
    with pytest.raises(SettingsError, match=r"no model is named.*serve\.summary_model"):
        build_store(made_pdfs, tmp_path, profile, calls_of=Workspace(tmp_path), progress=False)
