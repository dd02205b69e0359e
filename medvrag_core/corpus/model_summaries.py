"""Page summaries by a vision-language model that looks at the page image (paper section 3.1: Qwen2.5-VL-7B, offline).

The wording of the prompt is ours. Each call is kept in the call store before its reply is used, so a build that was
stopped goes on without paying twice, and a page whose call failed has its extract until a later build asks again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from importlib import resources
from pathlib import Path
from string import Template

from tqdm import tqdm

from medvrag_core.corpus.store import CorpusStore
from medvrag_core.corpus.summaries import METHOD, Extracts, shortened, write_summaries
from medvrag_core.corpus.text import normalize
from medvrag_core.models.base import ChatModel, ChatRequest, Message, PageImage
from medvrag_core.models.images import sized
from medvrag_core.models.outcomes import CallError, worth_asking_again
from medvrag_core.models.reply_text import neutral, without_reasoning
from medvrag_core.models.tokens import EstimatedTokens
from medvrag_core.records import Page, Summary
from medvrag_core.runs.crew import Crew
from medvrag_core.runs.publish import write_text
from medvrag_core.runs.side_by_side import side_by_side
from medvrag_core.settings import CorpusSettings

SUMMARY = "summary"
"""Purpose of these calls in the call store."""
KEY_FILE = "summaries.key"
"""Digest of all that shaped the model's summaries beside it; they are made anew where it differs."""
PAGES_A_TIME = 64
"""Pages that a worker of a crew describes before it tells; less would have it wait more often for its slowest call."""
_FAILED = "failed:"


@dataclass(frozen=True)
class SummaryCrew:
    """A crew, and what its workers need to begin.

    Attributes
    ----------
    crew : what runs them
    open_model : gives the model in a worker; it keeps its calls with the caller, see :meth:`Crew.lent`
    at_once : pages under way side by side, all workers together
    """

    crew: Crew
    open_model: Callable[[], ChatModel]
    at_once: int

    def write(self, folder: Path, settings: CorpusSettings, places: Sequence[int]) -> Iterator[Summary]:
        """Summaries of pages of the corpus in ``folder``, told by their places, in any order."""
        workers = min(self.crew.workers("summarize"), self.at_once)
        each = self.at_once // workers
        make = partial(SummaryWorker, folder.absolute(), settings, self.open_model, each)
        items = [tuple(places[start : start + PAGES_A_TIME]) for start in range(0, len(places), PAGES_A_TIME)]
        for made in self.crew.work(make, items, kind="summarize", most=workers):
            yield from made


class SummaryWorker:
    """Describes the pages of a corpus for a crew, some at a time."""

    def __init__(
        self, folder: Path, settings: CorpusSettings, open_model: Callable[[], ChatModel], at_once: int
    ) -> None:
        self._writer = _Writer(CorpusStore.open(folder), settings, open_model())
        self._at_once = at_once

    def __call__(self, places: Sequence[int]) -> tuple[Summary, ...]:
        """One summary a page, in any order."""
        return tuple(summary for _, summary in side_by_side(self._writer.summary, places, at_once=self._at_once))


def summarize_by_model(
    store: CorpusStore,
    settings: CorpusSettings,
    model: ChatModel,
    *,
    at_once: int = 1,
    stop: Callable[[], None] = lambda: None,
    crew: SummaryCrew | None = None,
    progress: bool = True,
) -> None:
    """Write the summary of every page of the store by ``model``, in at most ``summary_tokens`` words and numbers.

    A longer one is cut behind a sentence and flagged. A page whose call failed, or that no such model can be shown,
    gets its extract with a flag that says why. Calls that a fault of the server ended are asked again by the next
    build.

    Parameters
    ----------
    at_once : pages under way side by side
    stop : tells the model to begin no further call, after Ctrl-C
    crew : writes summaries in place of threads of this process, which need not open the model then

    Raises
    ------
    RunStopped : the server no longer works; what it wrote is kept in the call store
    InputError : a page image is missing or broken
    """
    key = _key(store, settings, model)
    made = _standing(store, key)
    if set(made) != {page.page_id for page in store.pages}:
        # Until all pages have one again, nobody takes an older set for whole.
        (store.folder / "summaries.jsonl").unlink(missing_ok=True)
    todo = [place for place, page in enumerate(store.pages) if page.page_id not in made]
    if crew is not None:
        written = crew.write(store.folder, settings, todo)
    else:
        writer = _Writer(store, settings, model)
        written = (summary for _, summary in side_by_side(writer.summary, todo, at_once=at_once, stop=stop))
    with tqdm(total=len(todo), desc="summaries", unit="page", disable=None if progress else True) as bar:
        for summary in written:
            made[summary.page_id] = summary
            bar.update()
    write_summaries(store.folder, (made[page.page_id] for page in store.pages))
    write_text(store.folder / KEY_FILE, key)


def prompt_version() -> str:
    """Digest of the template, twelve hex digits."""
    return hashlib.sha256(_template().encode()).hexdigest()[:12]


class _Writer:
    def __init__(self, store: CorpusStore, settings: CorpusSettings, model: ChatModel) -> None:
        self.store, self.limit, self.model = store, settings.summary_tokens, model
        self._titles = {article.article_id: article.title for article in store.articles}

    @cached_property
    def _extracts(self) -> Extracts:
        return Extracts(self.store, self.limit)  # Goes through all pages, and most builds need none.

    def summary(self, place: int) -> Summary:
        """One page; safe to call from several threads."""
        page, settings = self.store.pages[place], self.model.settings
        try:
            image = sized(self.store.folder / page.image, settings.max_pixels, settings.min_pixels)
        except ValueError:
            return self._extract(page, "too_narrow", "")
        try:
            reply = self.model.complete(self._request(page, image))
        except CallError as error:
            return self._extract(page, f"{_FAILED}{error.kind}", error.call)
        text = normalize(without_reasoning(reply.text))
        if not text:
            return self._extract(page, f"{_FAILED}empty", reply.call)
        short = shortened(text, self.limit)
        tokens, flags = self._tokens(short)
        flags = (*flags, *(["shortened"] if short != text else []))
        return Summary(
            page_id=page.page_id, text=short, method=settings.model, tokens=tokens, flags=flags, call=reply.call
        )

    def _request(self, page: Page, image: PageImage) -> ChatRequest:
        title = neutral(self._titles.get(page.article_id, "") or page.article_id)
        text = Template(_template()).substitute(words=self.limit, number=page.number, title=title).strip()
        return ChatRequest(
            purpose=SUMMARY,
            prompt_version=prompt_version(),
            messages=(Message(role="user", text=text, images=(image,)),),
        )

    def _extract(self, page: Page, flag: str, call: str) -> Summary:
        return self._extracts.of(page).model_copy(update={"flags": (flag,), "call": call})

    def _tokens(self, text: str) -> tuple[int, tuple[str, ...]]:
        try:
            return self.model.count_tokens(text), ()
        except CallError:
            return EstimatedTokens().count(text), ("tokens_estimated",)


def _key(store: CorpusStore, settings: CorpusSettings, model: ChatModel) -> str:
    of_model = model.settings
    told = (model.fingerprint, prompt_version(), of_model.max_pixels, of_model.min_pixels, METHOD)
    return hashlib.sha256(f"{told} {settings.summary_tokens} {store.fingerprint}".encode()).hexdigest()


def _standing(store: CorpusStore, key: str) -> dict[str, Summary]:
    """Summaries of an earlier build that need not be asked for again."""
    path = store.folder / KEY_FILE
    if not (path.is_file() and path.read_text(encoding="utf-8") == key and (path.parent / "summaries.jsonl").is_file()):
        return {}
    return {
        page_id: summary
        for page_id, summary in store.summaries.items()
        if not any(worth_asking_again(flag.removeprefix(_FAILED)) for flag in summary.flags if flag.startswith(_FAILED))
    }


@cache
def _template() -> str:
    return (resources.files("medvrag_core.corpus") / "prompts" / "summary.md").read_text(encoding="utf-8")
