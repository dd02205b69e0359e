"""A language model labels pages as relevant or not, for questions that come without gold pages (MIRAGE has none).

It sees the question with its options, without the right answer, and one page; neither where the page was ranked nor
what anybody else says about it. Its labels are only as good as their agreement with people, see
:mod:`medvrag_core.evaluation.labels.agreement`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import resources
from string import Template
from typing import Any

from pydantic import Field
from tqdm import tqdm

from medvrag_core.corpus.store import CorpusStore
from medvrag_core.errors import InputError, ModelError
from medvrag_core.evaluation.labels.relevance import Pair, RelevanceLabel
from medvrag_core.models.base import ChatModel, ChatRequest, Message
from medvrag_core.models.outcomes import CallError
from medvrag_core.models.reply_text import neutral, without_reasoning
from medvrag_core.reasoning.sameness import page_of
from medvrag_core.records import Question, Record, Trace
from medvrag_core.runs.side_by_side import side_by_side

POOLS: dict[str, tuple[str, ...]] = {"stage1": ("stage1",), "kept": ("kept",), "both": ("stage1", "kept")}
"""Stages whose first pages are judged, by name of the pool."""
SHOWN = ("text", "summary")
"""What a judge may see of a page."""
PAGE_CHARACTERS = 12_000
"""What the judge sees of a page's text; more is cut, and the report counts such pages."""
REPLY_TOKENS = 200
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"reason": {"type": "string", "maxLength": 400}, "relevant": {"type": "boolean"}},
    "required": ["reason", "relevant"],
    "additionalProperties": False,
}
_FENCE = re.compile(r"\A```(?:json)?\s*\n(.*)\n```\Z", re.DOTALL)


class Verdict(Record):
    """What a reply says."""

    reason: str
    relevant: bool


class JudgeTask(Record):
    """One page to judge for one question."""

    question: Question
    page_id: str
    text: str

    @property
    def pair(self) -> Pair:
        """Question id and page id."""
        return self.question.id, self.page_id


class JudgeReport(Record):
    """What came of judging a pool: every pair is relevant, not relevant, unread or failed."""

    model: str
    prompt_version: str
    questions: int
    pairs: int
    relevant: int
    not_relevant: int
    unread: dict[str, int] = Field(description="replies that gave no label, by reason; they are not asked again")
    failed: dict[str, int] = Field(description="calls that a fault ended, by kind; they have no label, run again")
    cut: int = Field(description="pairs whose page text was cut")


class UnreadableVerdictError(ModelError):
    """A reply that is no verdict; ``reason`` is its code."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the judge's reply is no verdict ({reason})")
        self.reason = reason


def judging_pool(traces: Iterable[Trace], pool: str = "both", depth: int = 10) -> dict[str, tuple[str, ...]]:
    """Pages to judge by question id, in order of page id: the first ``depth`` of stages in round 1.

    Only these are worth a call: labels compare what stages put on top, as in TREC's pooling. Recall from them is
    relative to the relevant pages of the pool. The traces are looked at one by one and not kept.

    Raises InputError for an unknown pool, and when no page was retrieved.
    """
    if pool not in POOLS:
        raise InputError(f"there is no pool '{pool}'", way_out=f"choose one of {', '.join(POOLS)}")
    pages: dict[str, tuple[str, ...]] = {}
    for trace in traces:
        for round_ in trace.rounds[:1]:
            stages = {"stage1": [hit.page_id for hit in round_.stage1], "kept": list(round_.filter.kept)}
            found = {p for name in POOLS[pool] for p in list(dict.fromkeys(map(page_of, stages[name])))[:depth]}
            pages[trace.question.id] = tuple(sorted(found))
    if not any(pages.values()):
        raise InputError("no page was retrieved, so there is none to judge", way_out="choose a system that searches")
    return pages


def judge_tasks(
    questions: Iterable[Question], pool: Mapping[str, Sequence[str]], store: CorpusStore, *, show: str = "text"
) -> list[JudgeTask]:
    """The pairs of a pool with what the judge is shown of each page.

    Raises InputError for a page that the corpus lacks, and for a ``show`` that is not in :data:`SHOWN`.
    """
    if show not in SHOWN:
        raise InputError(f"a judge cannot be shown '{show}'", way_out=f"choose one of {', '.join(SHOWN)}")

    def text_of(page_id: str) -> str:
        page = store.page(page_id)
        return page.text if show == "text" else store.summaries[page_id].text

    return [
        JudgeTask(question=question, page_id=page_id, text=text_of(page_id))
        for question in questions
        for page_id in pool.get(question.id, ())
    ]


def judge_pages(
    model: ChatModel,
    tasks: Sequence[JudgeTask],
    *,
    at_once: int = 1,
    stop: Callable[[], None] = lambda: None,
    progress: bool = True,
) -> tuple[list[RelevanceLabel], JudgeReport]:
    """Label every pair, ``at_once`` at a time; the labels come in the order of the tasks.

    Behind a call store, pairs that were judged before cost nothing. A pair whose call failed gets no label. ``stop``
    tells the model to begin no further call once one failed for good, or after Ctrl-C.

    Raises
    ------
    RunStopped
        The model server no longer works; the same command goes on from here.
    """
    labels: dict[int, RelevanceLabel] = {}
    unread: Counter[str] = Counter()
    failed: Counter[str] = Counter()

    def work(task: JudgeTask) -> Verdict | CallError | UnreadableVerdictError:
        try:
            return parse_verdict(model.complete(request_for(model, task)).text)
        except (CallError, UnreadableVerdictError) as error:
            return error

    bar = tqdm(total=len(tasks), desc="judge", unit="page", disable=None if progress else True)
    with bar:
        for place, said in side_by_side(work, tasks, at_once=at_once, stop=stop):
            bar.update()
            if isinstance(said, CallError) and not said.final:
                failed[said.kind] += 1
                continue
            if not isinstance(said, Verdict):
                code = said.kind if isinstance(said, CallError) else said.reason
                unread[code] += 1
                labels[place] = _label(model, tasks[place], None, code)
                continue
            labels[place] = _label(model, tasks[place], said.relevant, said.reason)
    ordered = [labels[place] for place in sorted(labels)]
    counts = Counter(label.label for label in ordered)
    return ordered, JudgeReport(
        model=model.settings.model,
        prompt_version=prompt_version(),
        questions=len({task.question.id for task in tasks}),
        pairs=len(tasks),
        relevant=counts["relevant"],
        not_relevant=counts["not_relevant"],
        unread=dict(sorted(unread.items())),
        failed=dict(sorted(failed.items())),
        cut=sum(len(neutral(task.text)) > PAGE_CHARACTERS for task in tasks),
    )


def request_for(model: ChatModel, task: JudgeTask) -> ChatRequest:
    """The call that judges one page; the page is made neutral, so that it cannot close its section."""
    question = task.question
    text = Template(_template()).substitute(
        question=neutral(question.question),
        options="\n".join(f"{neutral(label)}) {neutral(option)}" for label, option in question.options.items()),
        page=neutral(task.text, PAGE_CHARACTERS) or "(no text)",
    )
    return ChatRequest(
        purpose="judge",
        prompt_version=prompt_version(),
        messages=(Message(role="user", text=text),),
        max_tokens=min(REPLY_TOKENS, model.settings.max_tokens),
        reply_schema=SCHEMA if model.settings.json_schema else None,
    )


def parse_verdict(text: str) -> Verdict:
    """Read a reply that is one JSON object with ``reason`` and ``relevant`` and nothing beside it.

    Strict, since a model that repeats the page could repeat a verdict that somebody planted there: with two objects in
    a reply nobody knows which one is meant.

    Raises
    ------
    UnreadableVerdictError
        Anything else; its code is ``no_json``, ``broken_json``, ``text_around`` or ``no_verdict``.

    >>> parse_verdict('<think>hm</think>{"reason": "gives the dose", "relevant": true}').relevant
    True
    """
    spoken = without_reasoning(text).strip()
    fenced = _FENCE.match(spoken)
    spoken = fenced.group(1).strip() if fenced else spoken
    try:
        value, end = json.JSONDecoder(object_pairs_hook=_once).raw_decode(spoken)
    except (ValueError, RecursionError):
        code = "broken_json" if spoken.startswith("{") else "text_around" if "{" in spoken else "no_json"
        raise UnreadableVerdictError(code) from None
    if spoken[end:].strip():
        raise UnreadableVerdictError("text_around")
    match value:
        case {"reason": str(reason), "relevant": bool(relevant), **more} if not more:
            return Verdict(reason=neutral(reason, 400), relevant=relevant)
    raise UnreadableVerdictError("no_verdict")


def prompt_version() -> str:
    """Digest of the template, twelve hex digits; a changed prompt asks anew."""
    return hashlib.sha256(_template().encode()).hexdigest()[:12]


def _label(model: ChatModel, task: JudgeTask, relevant: bool | None, reason: str) -> RelevanceLabel:
    return RelevanceLabel(
        question_id=task.question.id,
        page_id=task.page_id,
        rater=model.settings.model,
        label=None if relevant is None else "relevant" if relevant else "not_relevant",
        reason=reason,
    )


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) != len(pairs):
        raise ValueError("a key stands twice")
    return dict(pairs)


@cache
def _template() -> str:
    return (resources.files("medvrag_core.evaluation.labels") / "prompts" / "relevance.md").read_text(encoding="utf-8")
