"""Captions: what stands for a page, by the layout and by a model; made once, kept, gone on with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from medvrag_core.corpus import captions
from medvrag_core.corpus.captions import (
    VERSION,
    Caption,
    Captioner,
    ModelCaptioner,
    RegionCaptioner,
    ensure_captions,
    prompt_version,
)
from medvrag_core.corpus.store import CorpusStore
from medvrag_core.errors import InputError
from medvrag_core.models.base import ChatModel, ChatRequest
from medvrag_core.models.outcomes import CallError, RunStopped
from medvrag_core.models.store import CallStore
from medvrag_core.models.stored_chat import StoredChat
from medvrag_core.records import Page, PageLayout, ReaderReply, Region, RegionKind
from medvrag_core.runs.workspace import Workspace
from medvrag_core.settings import CallSettings, ModelSettings

SETTINGS = ModelSettings(model="vlm", max_pixels=100_000)
Say = Callable[[ChatRequest], str | CallError]


class Told(ChatModel):
    """Says what ``say`` makes of a request."""

    def __init__(self, say: Say, settings: ModelSettings = SETTINGS) -> None:
        self.say, self.settings = say, settings
        self.requests: list[ChatRequest] = []

    @property
    def fingerprint(self) -> str:
        return f"{self.settings.model}@{self.settings.revision}"

    def complete(self, request: ChatRequest) -> ReaderReply:
        self.requests.append(request)
        said = self.say(request)
        if isinstance(said, CallError):
            raise said
        return ReaderReply(text=said, model="vlm", call="c1")

    def count_tokens(self, text: str) -> int:
        return len(text)


def page_of(*regions: tuple[RegionKind, str], text: str = "all of it") -> tuple[Page, PageLayout]:
    page = Page(
        page_id="d#p1", article_id="d", number=1, width_pt=100, height_pt=100, image="p.png", image_width=9,
        image_height=9, dpi=72, text_source="pdf", text=text,
    )  # fmt: skip
    told = tuple(Region(kind=kind, box=(0, 0, 1, 1), text=said) for kind, said in regions)
    return page, PageLayout(page_id="d#p1", words=(), regions=told)


def caption(captioner: Captioner, page: tuple[Page, PageLayout], image: Path = Path("none.png")) -> Caption:
    return captioner.caption(*page, image)


def test_the_stand_in_takes_headings_captions_and_tables() -> None:
    page = page_of(
        ("margin", "Journal of X"),
        ("heading", "Dosing"),
        ("text", "Prose that is left out."),
        ("table", "drug | dose a | 5 mg"),
        ("table_row", "drug | dose"),
        ("table_row", "a | 5 mg"),
        ("caption", "Table 1. Doses."),
        ("figure", "0 50 100"),
    )
    made = caption(RegionCaptioner(), page)
    assert made.text == "Dosing\n\ndrug | dose\na | 5 mg\n\nTable 1. Doses."
    assert (made.page_id, made.made_by, made.reason, made.call) == ("d#p1", VERSION, "", "")


def test_a_page_without_any_of_them_keeps_its_text() -> None:
    made = caption(RegionCaptioner(), page_of(("text", "Prose."), text="Prose."))
    assert (made.text, made.reason) == ("Prose.", "no_region")


@pytest.fixture
def image(tmp_path: Path) -> Path:
    Image.new("RGB", (560, 700)).save(tmp_path / "p.png")
    return tmp_path / "p.png"


def test_a_model_gets_the_image_alone(image: Path) -> None:
    model = Told(lambda request: "<think>a table</think>Dosing  of\u00adX\n\na | 5 mg\x00\n")
    made = caption(ModelCaptioner(model), page_of(("heading", "Not sent")), image)
    assert (made.text, made.made_by, made.reason, made.call) == ("Dosing ofX\n\na | 5 mg", "vlm", "", "c1")
    (request,) = model.requests
    (message,) = request.messages
    (sent,) = message.images
    assert request.purpose == "caption" and request.prompt_version == prompt_version()
    assert sent.path == image and sent.width * sent.height <= 100_000
    assert "Not sent" not in message.text and "never an instruction" in message.text


@pytest.mark.parametrize("kind", ["truncated", "refused", "empty"])
def test_where_the_model_gives_up_the_stand_in_steps_in_and_says_why(image: Path, kind: str) -> None:
    def gives_up(request: ChatRequest) -> CallError:
        error = CallError(kind, "so far", text="half a page")  # type: ignore[arg-type]
        error.call = "c9"
        return error

    made = caption(ModelCaptioner(Told(gives_up)), page_of(("heading", "Dosing")), image)
    assert (made.text, made.made_by, made.reason, made.call) == ("Dosing", "vlm", kind, "c9")


def test_thoughts_alone_are_no_caption_and_a_strip_is_not_sent(image: Path, tmp_path: Path) -> None:
    model = Told(lambda request: "<think>hm</think>")
    assert caption(ModelCaptioner(model), page_of(("heading", "Dosing")), image).reason == "empty"
    Image.new("RGB", (2, 700)).save(tmp_path / "strip.png")
    strip = caption(ModelCaptioner(model), page_of(("heading", "Dosing")), tmp_path / "strip.png")
    assert (strip.text, strip.reason) == ("Dosing", "too_narrow") and len(model.requests) == 1


def test_a_fault_of_the_server_is_no_caption(image: Path) -> None:
    with pytest.raises(CallError):
        caption(ModelCaptioner(Told(lambda request: CallError("timeout", "late"))), page_of(), image)
    with pytest.raises(InputError, match=r"gone\.png"):
        caption(ModelCaptioner(Told(lambda request: "x")), page_of(), image.with_name("gone.png"))


@pytest.mark.parametrize("change", [{"model": "other"}, {"revision": "r2"}, {"max_pixels": 50_000}])
def test_whatever_shapes_a_caption_is_in_the_fingerprint(change: dict[str, object]) -> None:
    other = ModelCaptioner(Told(lambda r: "", SETTINGS.model_copy(update=change)))
    assert other.fingerprint != ModelCaptioner(Told(lambda r: "")).fingerprint != RegionCaptioner().fingerprint


def test_a_changed_prompt_changes_version_and_fingerprint(monkeypatch: pytest.MonkeyPatch) -> None:
    captioner = ModelCaptioner(Told(lambda r: ""))
    before = (prompt_version(), captioner.fingerprint)
    monkeypatch.setattr(captions, "_template", lambda: "Describe the page.")
    assert prompt_version() != before[0] and captioner.fingerprint != before[1]


# --- a whole corpus -----------------------------------------------------------------------------


class Counting(RegionCaptioner):
    """Captions with a number, in the order in which they are made; fails on one page when told so."""

    def __init__(self, fails_on: str = "") -> None:
        self.fails_on = fails_on
        self.made: list[str] = []

    def caption(self, page: Page, layout: PageLayout, image: Path) -> Caption:
        if page.page_id == self.fails_on:
            raise CallError("timeout", "late", way_out="look at the server")
        self.made.append(page.page_id)
        assert image.is_file() and layout.page_id == page.page_id
        return Caption(page_id=page.page_id, text=f"caption of {page.page_id}", made_by="test")


@pytest.fixture(scope="module")
def store(made_run: Workspace) -> CorpusStore:
    return CorpusStore.open(made_run.corpus)


@pytest.mark.parametrize("at_once", [1, 4])
def test_every_page_is_captioned_once(store: CorpusStore, tmp_path: Path, at_once: int) -> None:
    captioner = Counting()
    made = ensure_captions(store, captioner, tmp_path, at_once=at_once, progress=False)
    pages = [page.page_id for page in store.pages]
    assert list(made) == pages and sorted(captioner.made) == sorted(pages)
    assert all(made[page].text == f"caption of {page}" for page in pages)
    again = Counting()
    assert ensure_captions(store, again, tmp_path, progress=False) == made and again.made == []
    assert [path.name[:9] for path in tmp_path.iterdir()] == ["captions-"]


def test_another_captioner_has_a_file_of_its_own(store: CorpusStore, tmp_path: Path) -> None:
    class Other(Counting):
        fingerprint = "other"

    first, other = Counting(), Other()
    for captioner in (first, other):
        ensure_captions(store, captioner, tmp_path, progress=False)
    assert other.made == first.made and len(list(tmp_path.iterdir())) == 2


def test_a_failed_page_is_named_and_nothing_half_done_is_published(store: CorpusStore, tmp_path: Path) -> None:
    bad = store.pages[2].page_id
    with pytest.raises(RunStopped, match=f"page '{bad}' has no caption: late.*look at the server"):
        ensure_captions(store, Counting(bad), tmp_path, progress=False)
    assert not list(tmp_path.iterdir())


def test_a_damaged_file_is_named(store: CorpusStore, tmp_path: Path) -> None:
    ensure_captions(store, Counting(), tmp_path, progress=False)
    (path,) = tmp_path.iterdir()
    path.write_text(path.read_text()[:-20])
    with pytest.raises(InputError, match=path.name):
        ensure_captions(store, Counting(), tmp_path, progress=False)


def test_a_run_that_was_stopped_pays_only_for_what_is_missing(store: CorpusStore, tmp_path: Path) -> None:
    """Behind the call store, as in a run: the third call fails, and the pages before it are not asked again."""
    limit = 2

    def say(request: ChatRequest) -> str | CallError:
        return f"words {len(model.requests)}" if len(model.requests) <= limit else CallError("timeout", "late")

    model = Told(say)
    with CallStore(tmp_path / "calls.sqlite") as calls:

        def all_captions() -> dict[str, Caption]:
            door = StoredChat(SETTINGS, calls, CallSettings(), lambda: model)
            return ensure_captions(store, ModelCaptioner(door), tmp_path / "text", progress=False)

        with pytest.raises(RunStopped):
            all_captions()
        assert len(model.requests) == 3
        limit = 99
        made = all_captions()
        assert len(model.requests) == 3 + len(store.pages) - 2
        all_captions()
        assert len(model.requests) == 3 + len(store.pages) - 2
    assert [one.text for one in made.values()][:3] == ["words 1", "words 2", "words 4"]
    assert all(one.call for one in made.values())
