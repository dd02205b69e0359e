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


class Query(Record):
    """A free-text retrieval query."""

    id: str
    text: str
