"""Captions: the text of a page as a vision-language model writes it down (VisRAG's "Captioner", appendix B.2).

VisRAG trained MiniCPM-V 2.0 for this; here any model behind the door is asked, with wording of our own. It is the model
that describes pages offline, ``serve.summary_model``: helpers read text and need no eyes. Without one, the captions,
tables and headings that the layout of a page has stand in for what a model would write; they are words of the page.

Captions are kept beside the chunks that are cut from them, and each call of a model in the call store before, so that
none is made twice and a run that was stopped goes on where it was.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from importlib import resources
from pathlib import Path

from tqdm import tqdm

from medvrag_core.corpus.regions import page_text
from medvrag_core.corpus.store import CorpusStore
from medvrag_core.corpus.text import normalize
from medvrag_core.models.base import ChatModel, ChatRequest, Message
from medvrag_core.models.images import sized
from medvrag_core.models.outcomes import CallError, RunStopped
from medvrag_core.models.reply_text import without_reasoning
from medvrag_core.records import Page, PageLayout, Record, RegionKind
from medvrag_core.runs.publish import whole_file
from medvrag_core.runs.side_by_side import side_by_side

VERSION = "regions-1"
_TELLING: tuple[RegionKind, ...] = ("heading", "caption", "table_row")


class Caption(Record):
    """What stands for the text of a page.

    Attributes
    ----------
    made_by : name of the model, or version of the stand-in
    reason : why it is not what ``made_by`` should have written, a code. Of a model: how it ended the call
        (``truncated``, ``refused``, ``empty``), or that the page is ``too_narrow`` to be shown; the stand-in's words
        are there. Of the stand-in: ``no_region``, and all text of the page is there
    call : key of the call in the call store
    """

    page_id: str
    text: str
    made_by: str
    reason: str = ""
    call: str = ""


class Captioner(ABC):
    """Writes captions; may be asked from several threads at a time."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Changes whenever the same page could get another caption by design."""

    @abstractmethod
    def caption(self, page: Page, layout: PageLayout, image: Path) -> Caption:
        """The caption of one page."""


class RegionCaptioner(Captioner):
    """Headings, captions and tables of the layout, in reading order; all text of a page that has none of them."""

    fingerprint = VERSION

    def caption(self, page: Page, layout: PageLayout, image: Path) -> Caption:
        """See :class:`Captioner`; no model, the image is not looked at."""
        told = page_text(tuple(region for region in layout.regions if region.kind in _TELLING))
        return Caption(
            page_id=page.page_id, text=told or page.text, made_by=VERSION, reason="" if told else "no_region"
        )


class ModelCaptioner(Captioner):
    """A vision-language model that writes down what is on the image of a page.

    Parameters
    ----------
    model : the door to it; ``max_pixels`` and ``max_tokens`` of its settings bound image and caption
    """

    def __init__(self, model: ChatModel) -> None:
        self.model = model
        self._stand_in = RegionCaptioner()

    @property
    def fingerprint(self) -> str:
        """Digest of the model with its sampling, the prompt, and the stand-in for pages that it gives up on."""
        settings = self.model.settings
        told = (self.model.fingerprint, prompt_version(), str(settings.max_pixels), str(settings.min_pixels), VERSION)
        return hashlib.sha256("\0".join(told).encode()).hexdigest()[:16]

    def caption(self, page: Page, layout: PageLayout, image: Path) -> Caption:
        """See :class:`Captioner`.

        Raises
        ------
        CallError : there is no reply, and asking again may bring one
        InputError : the page image is missing or broken
        """
        settings = self.model.settings
        try:
            sent = sized(image, settings.max_pixels, settings.min_pixels)
        except ValueError:
            return self._given_up(page, layout, image, "too_narrow", "")
        message = Message(role="user", text=_template().strip(), images=(sent,))
        try:
            reply = self.model.complete(
                ChatRequest(purpose="caption", prompt_version=prompt_version(), messages=(message,))
            )
        except CallError as error:
            if not error.final:
                raise
            return self._given_up(page, layout, image, error.kind, error.call)
        lines = [normalize(line) for line in without_reasoning(reply.text).splitlines()]
        text = "\n".join(lines).strip()
        if not text:
            return self._given_up(page, layout, image, "empty", reply.call)
        return Caption(page_id=page.page_id, text=text, made_by=settings.model, call=reply.call)

    def _given_up(self, page: Page, layout: PageLayout, image: Path, reason: str, call: str) -> Caption:
        instead = self._stand_in.caption(page, layout, image)
        return instead.model_copy(update={"made_by": self.model.settings.model, "reason": reason, "call": call})


def prompt_version() -> str:
    """Digest of the template, twelve hex digits."""
    return hashlib.sha256(_template().encode()).hexdigest()[:12]


def ensure_captions(
    store: CorpusStore,
    captioner: Captioner,
    folder: Path,
    *,
    at_once: int = 1,
    stop: Callable[[], None] = lambda: None,
    progress: bool = True,
) -> dict[str, Caption]:
    """The caption of every page by page id, made now where they are missing.

    Parameters
    ----------
    folder : takes one file for each captioner and corpus, published when all captions are there
    at_once : pages under way side by side
    stop : tells the model to end after Ctrl-C, see :func:`~medvrag_core.runs.side_by_side.side_by_side`

    Raises
    ------
    RunStopped : a model failed; what it wrote is kept in the call store, and the same command goes on from there
    InputError : a page image is missing or broken, or the file of captions is damaged
    """
    key = hashlib.sha256(f"{captioner.fingerprint}\0{store.fingerprint}".encode()).hexdigest()[:12]
    path = folder / f"captions-{key}.jsonl"
    if path.is_file():
        with path.open("rb") as lines:
            stored = [Caption.from_json(line, source=str(path)) for line in lines]
        if [caption.page_id for caption in stored] == [page.page_id for page in store.pages]:
            return {caption.page_id: caption for caption in stored}

    def work(page: Page) -> Caption:
        try:
            return captioner.caption(page, store.layout(page.page_id), store.image_path(page.page_id))
        except CallError as error:
            raise RunStopped(
                f"page '{page.page_id}' has no caption: {error.problem}", way_out=error.way_out or "run again"
            ) from error

    made: dict[str, Caption] = {}
    with tqdm(total=len(store.pages), desc="captions", unit="page", disable=None if progress else True) as bar:
        for _, caption in side_by_side(work, store.pages, at_once=at_once, stop=stop):
            made[caption.page_id] = caption
            bar.update()
    ordered = {page.page_id: made[page.page_id] for page in store.pages}
    with whole_file(path) as temporary:
        temporary.write_text("".join(caption.to_json() + "\n" for caption in ordered.values()), encoding="utf-8")
    return ordered


def _template() -> str:
    return (resources.files("medvrag_core.corpus") / "prompts" / "caption.md").read_text(encoding="utf-8")
