"""Typed records for every seam between stages; they hold data and no behavior.

All records are frozen and refuse unknown fields, so a file written by another
version fails loudly instead of being half read. Arrays travel in
:class:`PageVectors`, everything else is JSON.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

from medvrag_core.errors import InputError

SCHEMA_VERSION = 1

Box = tuple[float, float, float, float]
"""``(x0, y0, x1, y1)`` as fractions of the page's width and height, origin top left."""

TextSource = Literal["pdf", "ocr", "none"]
RegionKind = Literal["text", "heading", "caption", "table", "table_row", "figure", "margin"]
Evidence = Literal["text", "table", "figure", "layout"]
Outcome = Literal["answered", "unparsed", "truncated", "refused", "error"]
"""How a question can end; the set is closed, and every report counts each state."""
CallOutcome = Literal[
    "complete",
    "truncated",
    "refused",
    "empty",
    "aborted",
    "malformed",
    "unavailable",
    "timeout",
    "transport",
    "rejected",
    "denied",
    "wrong_model",
    "not_stored",
]
"""How a model call can end; :mod:`medvrag_core.models.outcomes` says what follows from each."""


class Record(BaseModel):
    """Base of all JSON records: frozen, unknown fields refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def to_json(self) -> str:
        """One line of JSON; :meth:`from_json` reads it back to an equal record."""
        return self.model_dump_json()

    @classmethod
    def from_json(cls, text: str | bytes, *, source: str = "JSON text") -> Self:
        """Read a record; raises :class:`InputError` naming ``source`` and the field."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise InputError(f"{source}: {describe_validation_error(error)}") from None


def describe_validation_error(error: ValidationError) -> str:
    """The first fault of a pydantic error in plain words, with the path of the field."""
    first = error.errors(include_url=False)[0]
    field = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return f"unknown field '{field}'"
    if first["type"] == "missing":
        return f"field '{field}' is missing"
    mapping = first["type"] in ("model_type", "model_attributes_type")
    said = "must be a mapping of fields" if mapping else first["msg"].removeprefix("Value error, ").lower()
    return f"field '{field}': {said}" if field else f"the whole record: {said}"


# --- corpus -----------------------------------------------------------------------------


class Article(Record):
    """One source document. ``article_id`` is the file stem (``PMC5502154``)."""

    article_id: str
    file: str
    sha256: str
    pages: int
    title: str = ""
    doi: str = ""
    pmid: str = ""
    licence: str = ""


class Word(Record):
    """One word as printed on the page."""

    text: str
    box: Box


class Region(Record):
    """A block of a page with its role in the layout."""

    kind: RegionKind
    box: Box
    text: str


class Page(Record):
    """One page of an article. ``page_id`` is ``<article_id>#p<number>``, numbers from 1.

    ``image`` is the path of the page image inside the corpus folder; ``dpi`` is the
    resolution really used (lower than asked where the pixel cap applied).
    """

    page_id: str
    article_id: str
    number: int
    width_pt: float
    height_pt: float
    image: str
    image_width: int
    image_height: int
    dpi: float
    text_source: TextSource
    text: str


class PageLayout(Record):
    """Words and regions of one page, in reading order."""

    page_id: str
    words: tuple[Word, ...]
    regions: tuple[Region, ...]


class Summary(Record):
    """A short text that stands for a page in Stage 2 (paper section 3.1, ~120 tokens)."""

    page_id: str
    text: str
    method: str


class LedgerEntry(Record):
    """What became of one file or page. ``state`` is ``kept``, ``dropped`` or ``changed``.

    ``reason`` is a short code (``encrypted``, ``not_a_pdf``, ``pixel_cap``, ...), ``detail`` says
    it in words, ``page_id`` is empty when the entry speaks of the whole file.
    """

    file: str
    page_id: str = ""
    state: Literal["kept", "dropped", "changed"]
    reason: str
    detail: str = ""


# --- vectors ----------------------------------------------------------------------------


@dataclass(frozen=True)
class PageVectors:
    """Multi-vector embedding of one page.

    Attributes
    ----------
    page_id : the page
    vectors : float32, shape (n, d), rows of unit length, n >= 1
    boxes : float32, shape (p, 4), one a patch, p >= n (see ``Box``)
    vector_of : int64, shape (p,), the row of ``vectors`` that speaks for each patch; 0, 1, 2, ... where nothing was
        pooled
    """

    page_id: str
    vectors: NDArray[np.float32]
    boxes: NDArray[np.float32]
    vector_of: NDArray[np.int64]


# --- questions --------------------------------------------------------------------------


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


# --- retrieval and filter ---------------------------------------------------------------


class Hit(Record):
    """One retrieved page; ``rank`` counts from 1."""

    page_id: str
    score: float
    rank: int


class StageTime(Record):
    """Wall-clock seconds of one named step (``encode_query``, ``ann``, ``coarse``, ``exact`` ...)."""

    step: str
    seconds: float


class SearchResult(Record):
    """Ranked pages of one query, ``proved`` to be the best of all in this order or not, with the time of each step."""

    hits: tuple[Hit, ...]
    times: tuple[StageTime, ...] = ()
    proved: bool = False


class ShardDecision(Record):
    """One map or reduce call of the filter.

    ``repeated`` and ``strangers`` count ids in the reply that came twice or were not in the shard (together
    ``dropped_ids``), ``filled`` counts places filled in Stage-1 order. ``fallback`` tells that the call gave no
    ranking, and ``reason`` why (a :data:`CallOutcome`, or ``unreadable``). ``call`` is its key in the call store.
    """

    phase: Literal["map", "reduce"]
    shown: tuple[str, ...]
    kept: tuple[str, ...]
    dropped_ids: int = 0
    repeated: int = 0
    strangers: int = 0
    filled: int = 0
    fallback: bool = False
    reason: str = ""
    call: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    flags: tuple[str, ...] = ()


class FilterDecision(Record):
    """Outcome of Stage 2: the pages kept, best first, and every call behind it."""

    kept: tuple[str, ...]
    calls: tuple[ShardDecision, ...] = ()


# --- reasoning --------------------------------------------------------------------------


class MemoryBank(Record):
    """The JSON memory bank of paper section 3.5.

    ``iteration`` is the number of rounds recorded, ``key_findings`` are facts prefixed with
    ``[Round k]``, ``reasoning_history`` has one note per recorded round.
    """

    iteration: int = 0
    key_findings: tuple[str, ...] = ()
    reasoning_history: tuple[str, ...] = ()


class EvidenceItem(Record):
    """One thing shown to a reader: a page (with image) or a text chunk (``image`` empty)."""

    evidence_id: str
    page_id: str
    text: str
    image: str = ""


class ReaderInput(Record):
    """All that a reader sees in one round (paper section 3.4).

    ``history`` is the plain text of earlier rounds in the arm that has it in the place of the memory bank.
    """

    question: Question
    round: int
    must_answer: bool
    evidence: tuple[EvidenceItem, ...]
    summaries: tuple[Summary, ...] = ()
    bank: MemoryBank = MemoryBank()
    query: str = ""
    history: str = ""


class SeenPage(Record):
    """A page as the model got it: its image's size in pixels with the visual tokens that this means.

    A page that was sent as text has the size 0 x 0 and the tokens of its text.
    """

    page_id: str
    width: int
    height: int
    tokens: int


class ReaderReply(Record):
    """Raw text of a reader with what is known about how it was made.

    ``call`` is the key of the call in the call store (empty for readers without a model), ``attempts`` the tries it
    took, ``seen`` are the page images that were sent, in order; pages that did not fit are missing there and flagged
    ``pages_dropped``. ``option_scores`` is the share that the reader gives each label, summing to 1; empty for readers
    that tell none.
    """

    text: str
    finish_reason: str = "stop"
    model: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    flags: tuple[str, ...] = ()
    call: str = ""
    attempts: int = 1
    seen: tuple[SeenPage, ...] = ()
    option_scores: dict[str, float] = {}


class ParsedReply(Record):
    """What a reply says: an answer label, or a refined query with notes, or neither.

    ``reason`` is empty when the reply was read, else a code such as ``no_tag``.
    """

    label: str | None = None
    query_update: str | None = None
    findings: tuple[str, ...] = ()
    notes: str = ""
    reason: str = ""


class Round(Record):
    """One pass of retrieve -> filter -> read.

    ``shown`` are the pages that the reader really got. ``refinement`` is the reply of a call that wrote the query
    alone: in the option-blind arm, and where a round must ask. ``history`` is what was shown in the place of the bank,
    in the arm with plain history.
    """

    number: int
    query: str
    stage1: tuple[Hit, ...]
    filter: FilterDecision
    shown: tuple[str, ...]
    summaries_shown: tuple[str, ...] = ()
    bank_before: MemoryBank
    history: str = ""
    reply: ReaderReply
    parsed: ParsedReply
    refinement: ReaderReply | None = None
    times: tuple[StageTime, ...]
    flags: tuple[str, ...] = ()


class Trace(Record):
    """The whole story of one question in one system."""

    schema_version: int = SCHEMA_VERSION
    system: str
    profile: str
    fingerprint: str
    question: Question
    rounds: tuple[Round, ...]
    outcome: Outcome
    label: str | None
    reason: str = ""
    correct: bool | None = None
    seconds: float


# --- runs -------------------------------------------------------------------------------


class Artefact(Record):
    """A published file; ``name`` is relative to the run folder."""

    name: str
    sha256: str
    bytes: int


class RunRecord(Record):
    """What one stage of a run did; the next stage and the book read it."""

    schema_version: int = SCHEMA_VERSION
    run_id: str
    stage: str
    profile: str
    settings: dict[str, Any]
    fingerprint: str
    started: str
    seconds: float
    artefacts: tuple[Artefact, ...] = ()
    metrics: dict[str, Any] = {}
    environment: dict[str, str] = {}
