"""Typed records for every seam between stages; they hold data and no behavior.

All records are frozen and refuse unknown fields, so a file written by another
version fails loudly instead of being half read. Arrays travel in
:class:`PageVectors`, everything else is JSON.
"""

from medvrag_core.records.base import SCHEMA_VERSION, Record, describe_validation_error
from medvrag_core.records.corpus import (
    Article,
    Box,
    LedgerEntry,
    LedgerState,
    Page,
    PageLayout,
    Region,
    RegionKind,
    Summary,
    TextSource,
    Word,
)
from medvrag_core.records.questions import Evidence, Query, Question
from medvrag_core.records.reasoning import (
    CallOutcome,
    EvidenceItem,
    MemoryBank,
    Outcome,
    ParsedReply,
    ReaderInput,
    ReaderReply,
    Round,
    SeenPage,
    Step,
    StepKind,
    Trace,
)
from medvrag_core.records.runs import Artefact, RunRecord
from medvrag_core.records.search import FilterDecision, Hit, SearchResult, ShardDecision, StageTime
from medvrag_core.records.vectors import PageVectors

__all__ = [
    "SCHEMA_VERSION",
    "Artefact",
    "Article",
    "Box",
    "CallOutcome",
    "Evidence",
    "EvidenceItem",
    "FilterDecision",
    "Hit",
    "LedgerEntry",
    "LedgerState",
    "MemoryBank",
    "Outcome",
    "Page",
    "PageLayout",
    "PageVectors",
    "ParsedReply",
    "Query",
    "Question",
    "ReaderInput",
    "ReaderReply",
    "Record",
    "Region",
    "RegionKind",
    "Round",
    "RunRecord",
    "SearchResult",
    "SeenPage",
    "ShardDecision",
    "StageTime",
    "Step",
    "StepKind",
    "Summary",
    "TextSource",
    "Trace",
    "Word",
    "describe_validation_error",
]
