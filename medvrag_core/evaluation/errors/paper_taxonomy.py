"""The paper's four classes of errors taken at their word, beside ours (paper section 4.5).

The paper calls its classes mutually exclusive and has one rater choose a primary cause. By its printed definitions an
error can be in several classes, or in none; how often is counted here, from the same stored traces as
:mod:`medvrag_core.evaluation.errors.taxonomy`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import product
from typing import Literal

from pydantic import Field

from medvrag_core.errors import MedvragError
from medvrag_core.evaluation.audit.error_checks import error_checks
from medvrag_core.evaluation.audit.finding import Finding
from medvrag_core.evaluation.audit.paper import load_paper
from medvrag_core.evaluation.errors.taxonomy import (
    ERROR_CLASSES,
    ErrorClass,
    ErrorTaxonomy,
    GoldByStage,
    error_classes,
    error_taxonomy,
    furthest,
    gold_by_stage,
    gold_of,
    reached_by,
)
from medvrag_core.evaluation.scoring import score
from medvrag_core.evaluation.statistics.shares import Share, share_of
from medvrag_core.records import Record, Trace

PaperClass = Literal["retrieval_miss", "filter_miss", "misread", "round_drift"]
PAPER_CLASSES: tuple[PaperClass, ...] = ("retrieval_miss", "filter_miss", "misread", "round_drift")
"""In the order in which the paper lists them, (i) to (iv)."""


class PaperRow(Record):
    """One of the paper's classes.

    Whoever assigns each error to one class by these definitions puts between ``alone`` and ``found.count`` errors into
    this one, depending on the order in which the definitions are tried.
    """

    paper_class: PaperClass
    found: Share = Field(description="errors that meet the definition, of those that can be judged")
    alone: int = Field(description="of these, errors that meet no other definition")
    overlap: dict[PaperClass, int] = Field(description="of these, errors that also meet each definition")
    printed: str = Field(description="per cent of the errors of the full system on MedQA, as the paper prints it")


class PaperTaxonomy(Record):
    """All wrong answers of one system by the paper's definitions; an error may be in several classes."""

    system: str
    profile: str
    n: int = Field(description="questions")
    wrong: int
    unjudged: int = Field(description="wrong, without a gold page or without retrieval: no definition can be applied")
    rows: tuple[PaperRow, ...]
    several: Share = Field(description="errors in more than one class, of those that can be judged")
    none: Share = Field(description="errors in no class, of those that can be judged")


class ErrorCase(Record):
    """One wrong answer in both taxonomies; ``paper`` is null where no definition can be applied."""

    question_id: str
    error_class: ErrorClass
    paper: tuple[PaperClass, ...] | None


class SideRow(Record):
    """The errors of one of our classes, and where the paper's definitions put them."""

    error_class: ErrorClass
    count: int
    found: dict[PaperClass, int]
    several: int
    none: int = Field(description="in none of the paper's classes, though it could be judged")


class BothTaxonomies(Record):
    """One system's errors, once with one class each, once by the paper's definitions."""

    ours: ErrorTaxonomy
    paper: PaperTaxonomy
    rows: tuple[SideRow, ...] = Field(description="one for each of our classes that ``ours`` shows, in its order")


PageStage = Literal["not found", "dropped", "kept", "shown"]
"""How far a page came in one round: no candidate, dropped by the filter, kept but not shown, shown."""


class PageFate(Record):
    """What became of the one gold page of a wrong answer, round by round, and what that is called."""

    stages: tuple[PageStage, ...]
    ours: ErrorClass
    paper: tuple[PaperClass, ...]


def paper_classes(trace: Trace, relevant: AbstractSet[str] | None) -> tuple[PaperClass, ...] | None:
    """The paper's definitions that a wrong answer meets; ``None`` without labels or without retrieval.

    The definitions as printed, and how each is read off a trace:

    - (i) ``retrieval_miss``, "no relevant page in the top-100": in no round is a gold page among the pages that the
      filter keeps (N2, 100 in the paper);
    - (ii) ``filter_miss``, "a relevant page in the top-2,000 dropped by Stage 2": in some round a gold page is among
      the candidates of Stage 1 (N1) and not among those that the filter keeps;
    - (iii) ``misread``, "a relevant page retrieved but reasoned over incorrectly": in some round a gold page was shown
      to the reader, and the answer is another option;
    - (iv) ``round_drift``, "a refined query moved off-topic": the pages kept for a refined query hold no gold page,
      though those of an earlier round did. Whether a query is off-topic is judged by what it finds.

    The paper does not say which round counts; any does, so that no definition is read more narrowly than it is printed.

    Raises
    ------
    MedvragError : the trace is right
    """
    if score(trace):
        raise MedvragError(f"question '{trace.question.id}' was answered right", way_out="classify wrong answers only")
    if relevant is None or furthest(trace, relevant) is None:
        return None
    found = _definitions_met([gold_by_stage(r, relevant) for r in trace.rounds])
    return found if trace.outcome == "answered" else tuple(name for name in found if name != "misread")


def page_fates(rounds: int = 2) -> tuple[PageFate, ...]:
    """Every way in which one gold page can come and go in up to ``rounds`` rounds, with its class in both taxonomies.

    No run enters: this is what the definitions themselves do to a question with one gold page and a wrong answer.
    """
    page = frozenset({"page"})
    none = frozenset[str]()
    sets: dict[PageStage, GoldByStage] = {
        "not found": GoldByStage(none, none, none),
        "dropped": GoldByStage(page, none, none),
        "kept": GoldByStage(page, page, none),
        "shown": GoldByStage(page, page, page),
    }
    fates = []
    for count in range(1, rounds + 1):
        for stages in product(sets, repeat=count):
            came = [sets[stage] for stage in stages]
            place = reached_by("page", came)
            fates.append(PageFate(stages=stages, ours=ERROR_CLASSES[place], paper=_definitions_met(came)))
    return tuple(fates)


def error_cases(
    traces: Sequence[Trace],
    relevant: Mapping[str, AbstractSet[str]] | None = None,
    *,
    suspect: Mapping[str, str] | None = None,
) -> list[ErrorCase]:
    """Every wrong answer of one system with its classes, in the order of ``traces``."""
    classes = error_classes(traces, relevant, suspect=suspect)
    return [
        ErrorCase(question_id=i, error_class=classes[i], paper=paper_classes(t, gold_of(t, relevant)))
        for t in traces
        if (i := t.question.id) in classes
    ]


def taxonomies_side_by_side(
    traces: Sequence[Trace],
    relevant: Mapping[str, AbstractSet[str]] | None = None,
    *,
    suspect: Mapping[str, str] | None = None,
    confidence: float = 0.95,
) -> BothTaxonomies:
    """Both taxonomies of one system, and how they cross; a question is judged by the gold page that came furthest.

    The paper knows no suspect questions, so that they count in its classes and stand apart in ours.
    """
    ours = error_taxonomy(traces, relevant, suspect=suspect, confidence=confidence)
    cases = error_cases(traces, relevant, suspect=suspect)
    judged = [case.paper for case in cases if case.paper is not None]
    rows = []
    for row in ours.rows:
        mine = [case.paper for case in cases if case.error_class == row.error_class and case.paper is not None]
        rows.append(
            SideRow(
                error_class=row.error_class,
                count=row.count,
                found={name: sum(name in found for found in mine) for name in PAPER_CLASSES},
                several=sum(len(found) > 1 for found in mine),
                none=sum(not found for found in mine),
            )
        )
    paper = PaperTaxonomy(
        system=ours.system,
        profile=ours.profile,
        n=ours.n,
        wrong=ours.wrong,
        unjudged=ours.wrong - len(judged),
        rows=tuple(_row(name, judged, confidence) for name in PAPER_CLASSES),
        several=share_of(sum(len(found) > 1 for found in judged), len(judged), confidence=confidence),
        none=share_of(sum(not found for found in judged), len(judged), confidence=confidence),
    )
    return BothTaxonomies(ours=ours, paper=paper, rows=tuple(rows))


def printed_findings() -> list[Finding]:
    """What the audit of the paper says about its printed shares of errors."""
    return [finding for finding in error_checks(load_paper()) if finding.id.startswith("taxonomy-")]


def _definitions_met(rounds: Sequence[GoldByStage]) -> tuple[PaperClass, ...]:
    """The paper's definitions that hold for an answered question, given its gold pages by round."""
    kept = [bool(r.kept) for r in rounds]
    holds: dict[PaperClass, bool] = {
        "retrieval_miss": not any(kept),
        "filter_miss": any(r.candidates - r.kept for r in rounds),
        "misread": any(r.shown for r in rounds),
        "round_drift": any(kept) and not all(kept[kept.index(True) :]),
    }
    return tuple(name for name in PAPER_CLASSES if holds[name])


def _row(name: PaperClass, judged: Sequence[tuple[PaperClass, ...]], confidence: float) -> PaperRow:
    mine = [found for found in judged if name in found]
    return PaperRow(
        paper_class=name,
        found=share_of(len(mine), len(judged), confidence=confidence),
        alone=sum(len(found) == 1 for found in mine),
        overlap={other: sum(other in found for found in mine) for other in PAPER_CLASSES},
        printed=load_paper().shown(name),
    )
