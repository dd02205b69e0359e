"""Where a wrong answer came from, read off the stored outputs of every stage (paper section 4.5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import IntEnum
from typing import Literal, NamedTuple, get_args

from pydantic import Field

from medvrag_core.errors import MedvragError
from medvrag_core.evaluation.scoring import require_one_arm, score
from medvrag_core.evaluation.statistics.proportions import wilson
from medvrag_core.reasoning.sameness import page_of
from medvrag_core.records import Record, Round, Trace

ErrorClass = Literal[
    "retrieval_miss",
    "filter_miss",
    "not_shown",
    "round_drift",
    "misread",
    "suspect_gold",
    "no_retrieval",
    "unlabeled",
    "unparsed",
    "truncated",
    "refused",
    "error",
]
ERROR_CLASSES: tuple[ErrorClass, ...] = get_args(ErrorClass)


class Reached(IntEnum):
    """How far a gold page came; the value orders the stages, and is the place of its class in :data:`ERROR_CLASSES`."""

    NOT_FOUND = 0
    DROPPED = 1
    NOT_SHOWN = 2
    DRIFTED = 3
    SHOWN = 4


class ErrorRow(Record):
    """One class of wrong answers; ``share`` is of all wrong answers, with its Wilson interval."""

    error_class: ErrorClass
    count: int
    share: float
    low: float
    high: float
    suspect: int = Field(0, description="further ones that would stand here if the gold of suspect questions held")


class ErrorTaxonomy(Record):
    """All wrong answers of one system, each in exactly one class."""

    system: str
    profile: str
    n: int = Field(description="questions")
    wrong: int = Field(description="questions not answered with the gold option, whatever the reason")
    need: Literal["any", "all"]
    rows: tuple[ErrorRow, ...]
    suspect_reasons: dict[str, int] = Field({}, description="why the gold of suspect questions is in doubt")


def classify_error(
    trace: Trace, relevant: AbstractSet[str] | None, *, need: Literal["any", "all"] = "any", suspect: bool = False
) -> ErrorClass:
    """The class of one wrong answer.

    The first rule that holds decides, so that every wrong answer has exactly one class:

    1. no answer was read: ``error``, ``unparsed``, ``truncated``, ``refused``. These fail whatever the gold option is;
    2. ``suspect_gold``: the question's gold option is in doubt. It comes before the evidence, since the answer may be
       right, and gold pages were chosen to support the option that is in doubt. What the class would be otherwise is
       counted beside it (:attr:`ErrorRow.suspect`);
    3. ``unlabeled`` (nobody said which pages are relevant), ``no_retrieval`` (no candidates in any round): nothing to
       follow;
    4. the place where the gold page was lost, or ``misread`` where it was not:

       - ``retrieval_miss``: in no round among the candidates of Stage 1 (top N1);
       - ``filter_miss``: among the candidates, but in no round kept by the filter (top N2);
       - ``not_shown``: kept in the last round, but ranked below the pages that the reader saw;
       - ``round_drift``: shown or kept in an earlier round, gone after the query was refined;
       - ``misread``: shown in the last round, and the answer is still wrong.

    The paper has four classes and calls them mutually exclusive, yet defines a retrieval miss as
    "no relevant page in the top-100", which contains its filter miss, "in the top-2,000 but dropped
    by Stage 2" (see :mod:`.paper_taxonomy`). Here a retrieval miss means not in the top N1.
    ``not_shown`` is ours: the paper has no name for a page that passed the filter at rank 11 to 100.

    Parameters
    ----------
    trace : a trace that does not end in the gold option
    relevant : gold page ids; none of them where pages were judged and none was relevant, which is a retrieval miss;
        ``None`` where no page was judged
    need : ``any``: judge by the gold page that came furthest (as the paper does); ``all``: by the
        one that was lost first, for questions that need several pages
    suspect : the gold option of the question is in doubt

    Raises
    ------
    MedvragError : the trace is right
    """
    if score(trace):
        raise MedvragError(f"question '{trace.question.id}' was answered right", way_out="classify wrong answers only")
    if trace.outcome != "answered":
        return trace.outcome
    if suspect:
        return "suspect_gold"
    if relevant is None:
        return "unlabeled"
    place = furthest(trace, relevant, need=need)
    return "no_retrieval" if place is None else ERROR_CLASSES[place]


def furthest(trace: Trace, relevant: AbstractSet[str] | None, *, need: Literal["any", "all"] = "any") -> Reached | None:
    """How far the evidence of a question came, right or wrong; ``None`` without labels or without retrieval.

    Parameters
    ----------
    need : ``any``: the gold page that came furthest; ``all``: the one that was lost first
    """
    if relevant is None or not any(r.stage1 or r.filter.kept or r.shown for r in trace.rounds):
        return None
    rounds = [gold_by_stage(r, relevant) for r in trace.rounds]
    reached = [reached_by(page, rounds) for page in relevant]
    return (max if need == "any" else min)(reached, default=Reached.NOT_FOUND)


def error_classes(
    traces: Sequence[Trace],
    relevant: Mapping[str, AbstractSet[str]] | None = None,
    *,
    need: Literal["any", "all"] = "any",
    suspect: Mapping[str, str] | None = None,
) -> dict[str, ErrorClass]:
    """Question id to class of every wrong answer of one system; parameters as in :func:`error_taxonomy`."""
    require_one_arm(traces)
    doubtful = suspect or {}
    return {
        t.question.id: classify_error(t, gold_of(t, relevant), need=need, suspect=t.question.id in doubtful)
        for t in traces
        if not score(t)
    }


def error_taxonomy(
    traces: Sequence[Trace],
    relevant: Mapping[str, AbstractSet[str]] | None = None,
    *,
    need: Literal["any", "all"] = "any",
    suspect: Mapping[str, str] | None = None,
    confidence: float = 0.95,
) -> ErrorTaxonomy:
    """Count the classes over all wrong answers of one system.

    Parameters
    ----------
    traces : one a question, all of one system and settings
    relevant : question id to gold pages, a question that is missing is not labeled; without it the gold pages of the
        questions are used
    need : see :func:`classify_error`
    suspect : question id to the reason why its gold option is in doubt, the kind of reason in front of a colon;
        questions without a trace are no matter
    confidence : of the Wilson intervals

    Notes
    -----
    Classes without a case are left out, except the five that say where evidence was lost.
    """
    classes = error_classes(traces, relevant, need=need, suspect=suspect)
    counts = Counter(classes.values())
    doubtful = [t for t in traces if classes.get(t.question.id) == "suspect_gold"]
    otherwise = Counter(classify_error(t, gold_of(t, relevant), need=need) for t in doubtful)
    reasons = Counter((suspect or {})[t.question.id].partition(":")[0] for t in doubtful)
    wrong = len(classes)
    rows = []
    for name in ERROR_CLASSES:
        if counts[name] or otherwise[name] or name in ERROR_CLASSES[: len(Reached)]:
            low, high = wilson(counts[name], wrong, confidence=confidence)
            share = counts[name] / wrong if wrong else 0.0
            row = ErrorRow(
                error_class=name, count=counts[name], share=share, low=low, high=high, suspect=otherwise[name]
            )
            rows.append(row)
    first = traces[0]
    return ErrorTaxonomy(
        system=first.system,
        profile=first.profile,
        n=len(traces),
        wrong=wrong,
        need=need,
        rows=tuple(rows),
        suspect_reasons=dict(sorted(reasons.items())),
    )


def gold_of(trace: Trace, relevant: Mapping[str, AbstractSet[str]] | None) -> AbstractSet[str] | None:
    """Gold pages of a question: those of ``relevant`` where it is given, else the question's own.

    ``None``: not labeled. An empty set of ``relevant`` says that pages were judged and none was relevant.
    """
    return frozenset(trace.question.gold_pages) or None if relevant is None else relevant.get(trace.question.id)


class GoldByStage(NamedTuple):
    """The gold pages that came into each stage of one round; each set contains the next."""

    candidates: frozenset[str]
    kept: frozenset[str]
    shown: frozenset[str]


def gold_by_stage(round_: Round, relevant: AbstractSet[str]) -> GoldByStage:
    """Gold pages among the candidates, kept by the filter, and shown.

    What was shown counts as kept, and what was kept as a candidate, whatever the arm stored. A chunk stands for the
    page that its id names, which has most of its words; a short gold page at its edge is not seen in text arms.
    """
    starts = tuple(relevant)

    def among(ids: Iterable[str]) -> frozenset[str]:
        return frozenset(page for i in ids if i.startswith(starts) and (page := page_of(i)) in relevant)

    shown = among(round_.shown)
    kept = shown | among(round_.filter.kept)
    return GoldByStage(kept | among(hit.page_id for hit in round_.stage1), kept, shown)


def without_other_candidates(trace: Trace, relevant: Mapping[str, AbstractSet[str]] | None = None) -> Trace:
    """A trace without what no class depends on: candidates that are no gold page (but for the best), and filter calls.

    A few kilobytes in place of a few hundred, so that the answers to a whole benchmark fit into memory together.
    """
    gold = tuple(gold_of(trace, relevant) or ())
    rounds = [
        r.model_copy(
            update={
                "stage1": tuple(hit for k, hit in enumerate(r.stage1) if k == 0 or hit.page_id.startswith(gold)),
                "filter": r.filter.model_copy(update={"calls": ()}),
            }
        )
        for r in trace.rounds
    ]
    return trace.model_copy(update={"rounds": tuple(rounds)})


def reached_by(page: str, rounds: Sequence[GoldByStage]) -> Reached:
    """How far one gold page came over the rounds of a question, at least one."""
    last = rounds[-1]
    if page in last.shown:
        return Reached.SHOWN
    if any(page in r.shown or (page in r.kept and page not in last.kept) for r in rounds):
        return Reached.DRIFTED
    if page in last.kept:
        return Reached.NOT_SHOWN
    if any(page in r.candidates for r in rounds):
        return Reached.DROPPED
    return Reached.NOT_FOUND
