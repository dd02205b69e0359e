"""What a reader is shown and says, round by round, up to the trace of a question."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from medvrag_core.records.base import SCHEMA_VERSION, Record
from medvrag_core.records.corpus import Summary
from medvrag_core.records.questions import Question
from medvrag_core.records.search import FilterDecision, Hit, StageTime

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


class MemoryBank(Record):
    """The JSON memory bank of paper section 3.5.

    ``iteration`` is the number of rounds recorded, ``key_findings`` are facts prefixed with
    ``[Round k]``, ``reasoning_history`` has one note per recorded round.
    """

    iteration: int = 0
    key_findings: tuple[str, ...] = ()
    reasoning_history: tuple[str, ...] = ()


class EvidenceItem(Record):
    """One thing shown to a reader: a page (with image) or a text chunk (``image`` empty).

    ``written_by`` names who wrote the text for this question, a model or a stand-in; empty for what the corpus holds.
    Such an item is on no page, and ``page_id`` is its own id. ``stands_for`` are the pages that were put together into
    one image, in its order; empty for what is one page or a part of one.
    """

    evidence_id: str
    page_id: str
    text: str
    image: str = ""
    written_by: str = Field("", exclude_if=lambda name: not name)
    stands_for: tuple[str, ...] = Field((), exclude_if=lambda pages: not pages)


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
    that tell none. ``mean_logprob`` is the mean natural logarithm of the probability of a token of the reply, so that
    its exponential is the reciprocal of the perplexity; None where it was not asked for.
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
    option_scores: dict[str, float] = Field(default_factory=dict)
    mean_logprob: float | None = Field(None, exclude_if=lambda value: value is None)


class ParsedReply(Record):
    """What a reply says: an answer label, or a refined query with notes, or neither.

    ``reason`` is empty when the reply was read, else a code such as ``no_tag``.
    """

    label: str | None = None
    query_update: str | None = None
    findings: tuple[str, ...] = ()
    notes: str = ""
    reason: str = ""


StepKind = Literal["summarize", "explore", "generate", "select", "weigh", "ask", "follow_up", "observe"]


class Step(Record):
    """What a system did between retrieval and the reply of a round, beside the filter: one entry for each call.

    Attributes
    ----------
    about : what it was about: an evidence id, a knowledge point, a query; empty for the question itself
    text : what came of it, or what the model said where nothing could be read
    names : ids, labels or queries that it chose, in its order
    made_by : version of the code or name of the model
    reason : why nothing came of it, a code; empty where something did
    call, prompt_tokens, completion_tokens, attempts, flags : as in :class:`ReaderReply`
    """

    kind: StepKind
    about: str = ""
    text: str = ""
    names: tuple[str, ...] = ()
    made_by: str = ""
    reason: str = ""
    call: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    attempts: int = 1
    flags: tuple[str, ...] = ()


class Round(Record):
    """One pass of retrieve -> filter -> read.

    ``shown`` are the pages that the reader really got. ``refinement`` is the reply of a call that wrote the query
    alone: in the option-blind arm, and where a round must ask. ``history`` is what was shown in the place of the bank,
    in the arm with plain history. ``steps`` tell what else the system did, ``written`` is what was written for this
    question and shown; both are left out of files where there is none.
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
    steps: tuple[Step, ...] = Field((), exclude_if=lambda steps: not steps)
    written: tuple[EvidenceItem, ...] = Field((), exclude_if=lambda items: not items)


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
