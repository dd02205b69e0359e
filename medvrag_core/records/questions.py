"""What is asked."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from medvrag_core.records.base import Record

Evidence = Literal["text", "table", "figure", "layout"]


class Question(Record):
    """A multiple-choice question. ``options`` maps labels (A, B, ...) to texts, in order.

    ``dataset`` names the set that the question belongs to (``medqa``); averages over sets go by it. ``context`` is
    text that comes with the question (PubMedQA's abstract): it is read, never searched with. ``sources`` are ids of the
    articles that it was made from (``PMID:123``, a DOI, ``PMC123``), which a corpus can leave out; no system sees them.
    ``difficulty`` and ``split`` are what the makers of a set say (``hard``, ``dev``). An ``unanswerable`` question has
    no right option: the corpus does not hold what it asks for.
    """

    id: str
    question: str
    options: dict[str, str]
    answer: str | None = None
    gold_pages: tuple[str, ...] = ()
    evidence: Evidence | None = None
    hops: int | None = None
    dataset: str = ""
    context: str = ""
    sources: tuple[str, ...] = Field((), exclude_if=lambda ids: not ids)
    difficulty: str = Field("", exclude_if=lambda text: not text)
    split: str = Field("", exclude_if=lambda text: not text)
    unanswerable: bool = Field(False, exclude_if=lambda switch: not switch)


class Query(Record):
    """A free-text retrieval query."""

    id: str
    text: str
