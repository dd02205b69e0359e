"""What is asked."""

from __future__ import annotations

from typing import Literal

from medvrag_core.records.base import Record

Evidence = Literal["text", "table", "figure", "layout"]


class Question(Record):
    """A multiple-choice question. ``options`` maps labels (A, B, ...) to texts, in order.

    ``dataset`` names the set that the question belongs to (``medqa``); averages over sets go by it. ``context`` is
    text that comes with the question (PubMedQA's abstract): it is read, never searched with.
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


class Query(Record):
    """A free-text retrieval query."""

    id: str
    text: str
