"""Wrong answers and grounding of one system in one report, from its stored traces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from pydantic import Field

from medvrag_core.evaluation.errors.by_hand import ErrorLabel, HumanCheck, human_check
from medvrag_core.evaluation.errors.evidence_flow import EvidenceFlow, evidence_flow
from medvrag_core.evaluation.errors.grounding import GroundingReport, grounding_report
from medvrag_core.evaluation.errors.paper_taxonomy import BothTaxonomies, taxonomies_side_by_side
from medvrag_core.evaluation.errors.taxonomy import (
    ErrorTaxonomy,
    error_classes,
    error_taxonomy,
    without_other_candidates,
)
from medvrag_core.evaluation.outcomes import read_asked_endings
from medvrag_core.records import Record, Trace
from medvrag_core.runs.workspace import Workspace
from medvrag_core.settings import EvaluationSettings
from medvrag_core.systems.answering import each_trace


class ErrorReport(Record):
    """Everything about the errors of one system that needs no further run."""

    taxonomies: BothTaxonomies
    lost_first: ErrorTaxonomy = Field(description="our classes by the gold page that was lost first")
    flow: EvidenceFlow
    grounding: GroundingReport
    checked: HumanCheck | None = Field(description="against classes given by hand; null where there are none")


def read_for_errors(
    workspace: Workspace, system: str, relevant: Mapping[str, AbstractSet[str]] | None = None
) -> list[Trace]:
    """Traces of the questions asked last, with what this report needs; one whole trace at a time is in memory.

    Raises NotBuiltError where the system answered nothing in this run, and InputError for a trace that is damaged.
    """
    endings, _ = read_asked_endings(workspace, system, made_by=f"`medvrag run --system {system}` first")
    whole = each_trace(workspace, system, [ending.question.id for ending in endings])
    return [without_other_candidates(trace, relevant) for trace in whole]


def error_report(
    traces: Sequence[Trace],
    relevant: Mapping[str, AbstractSet[str]] | None = None,
    *,
    suspect: Mapping[str, str] | None = None,
    labels: Sequence[ErrorLabel] = (),
    settings: EvaluationSettings | None = None,
) -> ErrorReport:
    """Classify, follow and check the answers of one system.

    Parameters
    ----------
    traces : one a question, all of one system and settings
    relevant : question id to relevant pages, see :func:`~medvrag_core.evaluation.errors.taxonomy.gold_of`
    suspect : question id to the reason why its gold option is in doubt
    labels : classes given by one person
    settings : confidence of the intervals, samples and seed of the bootstrap
    """
    settings = settings or EvaluationSettings()
    level = settings.confidence
    classes = error_classes(traces, relevant, suspect=suspect)
    return ErrorReport(
        taxonomies=taxonomies_side_by_side(traces, relevant, suspect=suspect, confidence=level),
        lost_first=error_taxonomy(traces, relevant, need="all", suspect=suspect, confidence=level),
        flow=evidence_flow(traces, relevant, confidence=level),
        grounding=grounding_report(traces, relevant, settings),
        checked=human_check(classes, labels, settings) if labels else None,
    )
