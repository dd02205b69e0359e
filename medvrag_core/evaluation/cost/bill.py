"""What answering costs: seconds, calls, tokens, images and money by stage and question, out of stored traces.

A trace tells what a question takes, whoever paid for it: a reply that came out of the call store has the tokens of the
call that was paid once. Questions that ended in an error are counted with all that their trace holds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, get_args

import numpy as np
from pydantic import Field

from medvrag_core.errors import MedvragError
from medvrag_core.evaluation.audit.paper import load_paper
from medvrag_core.evaluation.cost.latency import PAPER_STEPS
from medvrag_core.evaluation.cost.prices import PriceTable, Role
from medvrag_core.evaluation.endings import Ending
from medvrag_core.evaluation.scoring import require_one_arm
from medvrag_core.evaluation.stopping.rounds import PAPER_ROUNDS
from medvrag_core.records import ReaderReply, Record, ShardDecision, Step, StepKind, Trace
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.answering import each_trace

Stage = Literal[
    "encode", "search", "filter", "filter_map", "filter_reduce", "read", "refine", "helper", "generate", "other"
]
STAGES: dict[Stage, str] = {
    "encode": "Query encoding",
    "search": "Search, after encoding",
    "filter": "Filter, time of all its calls",
    "filter_map": "Filter, map calls",
    "filter_reduce": "Filter, reduce calls",
    "read": "Reader",
    "refine": "Query of the option-blind arm",
    "helper": "Tasks beside the reader's",
    "generate": "Documents written for the question",
    "other": "Outside of the timed steps",
}
"""Stages with their labels. Map and reduce share one clock, so their seconds stand in a row of their own."""


def _stage_of(kind: StepKind) -> Stage:
    """Answers about single pages and pages observed are the reader's own work."""
    stages: dict[str, Stage] = {"generate": "generate", "weigh": "read", "observe": "read"}
    return stages.get(kind, "helper")


_STAGE_OF_STEP: dict[str, Stage] = {"encode_query": "encode", "filter": "filter", "read": "read", "refine": "refine"}
_STAGE_OF_STEP |= {kind: _stage_of(kind) for kind in get_args(StepKind)}
_ROLES: dict[Stage, Role] = {
    "filter_map": "filter",
    "filter_reduce": "filter",
    "read": "reader",
    "refine": "reader",
    "helper": "helper",
    "generate": "generator",
}
_CLOCK_NOISE = 1e-6
PAPER_PAGES_SHOWN = 10
"""Page images in each call of the reader (paper section 3.4)."""


class Spend(Record):
    """What was spent; sums of it are again a ``Spend``. ``money`` is null without prices."""

    seconds: float = 0.0
    calls: int = Field(0, description="model calls that brought a reply")
    prompt_tokens: int = Field(0, description="as the server counted them, visual tokens included")
    completion_tokens: int = 0
    visual_tokens: int = Field(0, description="tokens of page images, a part of prompt_tokens")
    images: int = 0
    money: float | None = None

    def __add__(self, other: Spend) -> Spend:
        money = None if self.money is None or other.money is None else self.money + other.money
        # Sums of valid values need no validation, which would take most of the time of a large run.
        return Spend.model_construct(
            seconds=self.seconds + other.seconds,
            calls=self.calls + other.calls,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            visual_tokens=self.visual_tokens + other.visual_tokens,
            images=self.images + other.images,
            money=money,
        )


QUANTITIES = tuple(Spend.model_fields)
"""Fields of :class:`Spend`, in the order of all tables."""


class QuestionCost(Record):
    """One question; ``stages`` add up to ``total``, whose seconds are those of the trace."""

    id: str
    rounds: int
    error: bool = Field(description="ended in an error; what its last round spent is not in the trace")
    failed_calls: int = Field(description="filter calls without a reply; their tokens are unknown and not counted")
    uncounted_calls: int = Field(description="replies without token counts, since the server sends none")
    retries: int = Field(description="further tries of reader calls, whose tokens are not counted")
    stages: dict[Stage, Spend]
    total: Spend


class CostRow(Record):
    """One quantity of one stage (or ``total``) over all questions; a question that had none of it counts as 0."""

    stage: Stage | Literal["total"]
    label: str
    quantity: str
    total: float
    mean: float
    median: float
    p90: float
    p95: float
    max: float


MEANS: dict[str, Callable[[QuestionCost], float]] = {
    "rounds": lambda q: q.rounds,
    "seconds": lambda q: q.total.seconds,
    "calls": lambda q: q.total.calls,
    "prompt_tokens": lambda q: q.total.prompt_tokens,
    "completion_tokens": lambda q: q.total.completion_tokens,
    "images": lambda q: q.total.images,
    "filter_prompt_tokens": lambda q: sum(
        q.stages[stage].prompt_tokens for stage in q.stages if _ROLES.get(stage) == "filter"
    ),
    "money": lambda q: q.total.money or 0.0,
}
"""Quantities whose mean a question is compared with the paper's."""


class RoundCost(Record):
    """Mean cost of the questions that took so many rounds and did not end in an error."""

    rounds: int
    n: int
    share: float
    mean: dict[str, float] = Field(description="by quantity, see MEANS")
    paper_share: float | None
    paper_seconds: float | None = Field(description="rounds times the steps of the paper's Table 2")


class ExpectedRow(Record):
    """Mean of one quantity a question."""

    quantity: str
    measured: float = Field(description="by this run's shares of rounds")
    at_paper_shares: float | None = Field(
        description="this run's cost of one, two and three rounds, weighted by the paper's shares; null where a "
        "number of rounds did not occur"
    )
    paper: float | None = Field(description="from the paper's printed numbers; null where they do not give it")


class CostReport(Record):
    """Cost of one arm."""

    system: str
    profile: str
    n: int
    errors: int = Field(description="questions that ended in an error")
    failed_calls: int
    uncounted_calls: int
    retries: int
    questions_at_once: int | None = Field(description="null where the run does not say")
    prices: PriceTable | None
    rows: tuple[CostRow, ...]
    rounds: tuple[RoundCost, ...]
    expected: tuple[ExpectedRow, ...]
    questions: tuple[QuestionCost, ...]
    notes: tuple[str, ...] = Field(description="what is counted, and what the numbers leave out")

    def row(self, stage: Stage | Literal["total"], quantity: str) -> CostRow | None:
        """One row, or None where nothing of the kind was spent."""
        return next((r for r in self.rows if (r.stage, r.quantity) == (stage, quantity)), None)


def cost_report(
    traces: Iterable[Trace], *, prices: PriceTable | None = None, questions_at_once: int | None = None
) -> CostReport:
    """Cost of one arm from its traces, which are looked at one by one and not kept.

    Parameters
    ----------
    traces : one trace a question, of one system and settings; gold answers are not needed
    prices : makes money of tokens, images and seconds
    questions_at_once : questions that were under way together, whose seconds overlap

    Raises
    ------
    InputError : no trace, a question twice, or several arms
    MedvragError : the steps of a trace took longer than the whole question
    """
    heads: list[Trace] = []
    questions: list[QuestionCost] = []
    for trace in traces:
        questions.append(question_cost(trace, prices))
        heads.append(trace.model_copy(update={"rounds": ()}))
    require_one_arm(heads)
    rounds = tuple(_rounds([q for q in questions if not q.error]))
    report = CostReport(
        system=heads[0].system,
        profile=heads[0].profile,
        n=len(questions),
        errors=sum(q.error for q in questions),
        failed_calls=sum(q.failed_calls for q in questions),
        uncounted_calls=sum(q.uncounted_calls for q in questions),
        retries=sum(q.retries for q in questions),
        questions_at_once=questions_at_once,
        prices=prices,
        rows=tuple(_rows(questions)),
        rounds=rounds,
        expected=tuple(_expected(rounds)),
        questions=tuple(questions),
        notes=(),
    )
    return report.model_copy(update={"notes": tuple(_notes(report))})


def arm_cost(
    workspace: Workspace,
    endings: Sequence[Ending],
    *,
    prices: PriceTable | None = None,
    questions_at_once: int | None = None,
) -> CostReport:
    """Cost of one arm from the stored traces behind its endings, one trace in memory at a time.

    Raises what :func:`cost_report` raises, and InputError for a damaged trace.
    """
    require_one_arm(endings)
    traces = each_trace(workspace, endings[0].system, [ending.question.id for ending in endings])
    return cost_report(traces, prices=prices, questions_at_once=questions_at_once)


def question_cost(trace: Trace, prices: PriceTable | None = None) -> QuestionCost:
    """Cost of one question by stage; raises MedvragError when its steps took longer than the whole."""
    stages: dict[Stage, Spend] = defaultdict(Spend)
    filter_calls = [call for round_ in trace.rounds for call in round_.filter.calls]
    replies = [reply for round_ in trace.rounds for reply in (round_.reply, round_.refinement) if reply is not None]
    for round_ in trace.rounds:
        for time in round_.times:
            stages[_STAGE_OF_STEP.get(time.step, "search")] += Spend(seconds=time.seconds)
        stages["read"] += _of_call(round_.reply)
        if round_.refinement is not None:
            stages["refine"] += _of_call(round_.refinement)
        for step in round_.steps:
            stages[_stage_of(step.kind)] += _of_call(step)
    for call in filter_calls:
        stages["filter_map" if call.phase == "map" else "filter_reduce"] += _of_call(call)
    rest = trace.seconds - sum(spend.seconds for spend in stages.values())
    if rest < -_CLOCK_NOISE:
        raise MedvragError(
            f"trace of question '{trace.question.id}' ({trace.system}): its steps took {-rest:.3g} s more than the "
            "whole question"
        )
    stages["other"] += Spend(seconds=max(0.0, rest))
    spent = {stage: _priced(stage, stages[stage], prices) for stage in STAGES if stages[stage] != Spend()}
    steps = [step for round_ in trace.rounds for step in round_.steps]
    calls: list[ShardDecision | ReaderReply | Step] = [*filter_calls, *replies, *steps]
    return QuestionCost(
        id=trace.question.id,
        rounds=len(trace.rounds),
        error=trace.outcome == "error",
        failed_calls=sum(call.fallback and not _is_call(call) for call in filter_calls),
        uncounted_calls=sum(_is_call(call) and not call.prompt_tokens for call in calls),
        retries=sum(reply.attempts - 1 for reply in replies) + sum(step.attempts - 1 for step in steps),
        stages=spent,
        total=sum(spent.values(), start=Spend(money=None if prices is None else 0.0)),
    )


def _of_call(call: ShardDecision | ReaderReply | Step) -> Spend:
    # A page that was sent as text has no size.
    seen = [page for page in call.seen if page.width] if isinstance(call, ReaderReply) else []
    return Spend(
        calls=int(_is_call(call)),
        prompt_tokens=call.prompt_tokens,
        completion_tokens=call.completion_tokens,
        visual_tokens=sum(page.tokens for page in seen),
        images=len(seen),
    )


def _is_call(call: ShardDecision | ReaderReply | Step) -> bool:
    """Whether a model replied; embedded rankers and readers ask none."""
    return bool(call.call or call.prompt_tokens or call.completion_tokens)


def _priced(stage: Stage, spend: Spend, prices: PriceTable | None) -> Spend:
    if prices is None:
        return spend
    money = prices.of_seconds(spend.seconds)
    if stage in _ROLES:
        money += prices.of_calls(
            _ROLES[stage],
            prompt_tokens=spend.prompt_tokens,
            completion_tokens=spend.completion_tokens,
            images=spend.images,
        )
    return spend.model_copy(update={"money": money})


def _rows(questions: Sequence[QuestionCost]) -> list[CostRow]:
    """Rows of all that was spent, by stage, then of the total."""
    columns: list[tuple[Stage | Literal["total"], str, list[Spend]]] = [
        (stage, label, [q.stages.get(stage, Spend()) for q in questions]) for stage, label in STAGES.items()
    ]
    columns.append(("total", "Total", [q.total for q in questions]))
    rows = []
    for stage, label, spends in columns:
        for quantity in QUANTITIES:
            values = np.array([getattr(spend, quantity) or 0 for spend in spends], dtype=np.float64)
            if not values.any():
                continue
            median, p90, p95 = (float(v) for v in np.percentile(values, [50, 90, 95]))
            rows.append(
                CostRow(
                    stage=stage, label=label, quantity=quantity, total=float(values.sum()), mean=float(values.mean()),
                    median=median, p90=p90, p95=p95, max=float(values.max()),
                )
            )  # fmt: skip
    return rows


def _rounds(questions: Sequence[QuestionCost]) -> list[RoundCost]:
    groups: dict[int, list[QuestionCost]] = defaultdict(list)
    for question in questions:
        groups[question.rounds].append(question)
    one_round = sum(seconds or 0.0 for _, seconds in PAPER_STEPS.values())
    return [
        RoundCost(
            rounds=rounds,
            n=len(group),
            share=len(group) / len(questions),
            mean={name: float(np.mean([of(q) for q in group])) for name, of in MEANS.items()},
            paper_share=PAPER_ROUNDS[rounds][0] if rounds in PAPER_ROUNDS else None,
            paper_seconds=rounds * one_round if rounds in PAPER_ROUNDS else None,
        )
        for rounds, group in sorted(groups.items())
    ]


def _expected(rounds: Sequence[RoundCost]) -> list[ExpectedRow]:
    by_rounds = {row.rounds: row for row in rounds}
    paper = paper_means()
    return [
        ExpectedRow(
            quantity=name,
            measured=sum(row.share * row.mean[name] for row in rounds),
            at_paper_shares=sum(share * by_rounds[k].mean[name] for k, (share, _) in PAPER_ROUNDS.items())
            if PAPER_ROUNDS.keys() <= by_rounds.keys()
            else None,
            paper=paper.get(name),
        )
        for name in MEANS
        if any(row.mean[name] for row in rounds)
    ]


def paper_means() -> dict[str, float]:
    """Means a question that follow from the paper's Table 2, its shares of rounds and the sizes of sections 3.3, 3.4.

    >>> means = paper_means()
    >>> round(means["rounds"], 3), round(means["seconds"], 1), round(means["calls"], 1), round(means["images"], 1)
    (1.524, 24.3, 15.2, 15.2)
    """
    paper = load_paper()
    rounds = sum(share * k for k, (share, _) in PAPER_ROUNDS.items())
    summaries = (paper.count("candidates") + paper.count("survivors")) * float(paper.number("summary_tokens").value)
    return {
        "rounds": rounds,
        "seconds": rounds * sum(seconds or 0.0 for _, seconds in PAPER_STEPS.values()),
        "calls": rounds * (paper.count("shards") + 2),  # the map calls, one reduce call, one call of the reader
        "images": rounds * PAPER_PAGES_SHOWN,
        "filter_prompt_tokens": rounds * summaries,
    }


def _notes(report: CostReport) -> list[str]:
    """What a reader must know before quoting a number."""
    notes = [
        "tokens, calls and images are those of the traces: a reply that came out of the call store counts in full",
        "seconds are of the run that wrote the traces: a reply out of the call store took no time there",
    ]
    if report.questions_at_once is None or report.questions_at_once > 1:
        at_once = f"up to {report.questions_at_once}" if report.questions_at_once else "an unknown number of"
        notes.append(
            f"{at_once} questions were under way at one time: their seconds overlap, so sums exceed the time of the "
            "run and steps that wait for one server look longer than alone"
        )
    if report.prices is not None and report.prices.gpu_hour:
        notes.append("GPUs are charged for each question's own seconds, also where questions overlap")
    if report.errors:
        notes.append(f"{report.errors} questions ended in an error: tokens of their last round are not in the traces")
    if report.failed_calls:
        notes.append(f"{report.failed_calls} filter calls brought no reply: their tokens are unknown")
    if report.uncounted_calls:
        notes.append(f"{report.uncounted_calls} replies came without token counts: tokens and money are lower bounds")
    if report.retries:
        notes.append(f"{report.retries} further tries of reader calls: their tokens are unknown")
    return notes
