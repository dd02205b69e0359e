"""Two runs, question by question: what came out differently, and where they first went apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from medvrag_core.errors import InputError
from medvrag_core.evaluation.statistics.proportions import mcnemar
from medvrag_core.records import Record, Trace

_WORTH_TELLING = 120
_PATH = (
    "query",
    "bank_before",
    "stage1",
    "filter",
    "shown",
    "summaries_shown",
    "reply",
    "refinement",
    "parsed",
    "flags",
)
"""Fields of a round in the order in which a difference arises."""


class QuestionDiff(Record):
    """One question in two runs. ``where`` names the first round and field that differ, empty when none does."""

    question_id: str
    first: str = Field(description="label, or the outcome in parentheses")
    second: str
    first_correct: bool | None
    second_correct: bool | None
    where: str = ""
    detail: str = ""


class RunDiff(Record):
    """All questions of two runs of the same or of different systems; the counts add up to the questions of each."""

    first: str
    second: str
    both: int
    identical: int = Field(description="the same in every detail but time")
    same_outcome: int = Field(description="same label or same reason for having none")
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    gained: int = Field(description="wrong in the first run, right in the second")
    lost: int
    p_value: float | None = Field(description="exact McNemar test on right and wrong; null without gold answers")
    questions: tuple[QuestionDiff, ...] = Field(description="questions that are not identical, by id")


def diff_runs(first: Sequence[Trace], second: Sequence[Trace], *, names: tuple[str, str]) -> RunDiff:
    """Compare two lists of traces by question id.

    Raises InputError when a question stands twice in one of them, or when none is in both.
    """
    left, right = _by_id(first, names[0]), _by_id(second, names[1])
    both = sorted(left.keys() & right.keys())
    if not both:
        raise InputError(f"{names[0]} and {names[1]} have no question in common")
    told = [_question_diff(left[i], right[i]) for i in both]
    gained = sum(d.first_correct is False and d.second_correct is True for d in told)
    lost = sum(d.first_correct is True and d.second_correct is False for d in told)
    scored = all(None not in (d.first_correct, d.second_correct) for d in told)
    return RunDiff(
        first=names[0],
        second=names[1],
        both=len(both),
        identical=sum(not d.where for d in told),
        same_outcome=sum(d.first == d.second for d in told),
        only_first=tuple(sorted(left.keys() - right.keys())),
        only_second=tuple(sorted(right.keys() - left.keys())),
        gained=gained,
        lost=lost,
        p_value=mcnemar(gained, lost) if scored else None,
        questions=tuple(d for d in told if d.where),
    )


def _by_id(traces: Sequence[Trace], name: str) -> Mapping[str, Trace]:
    found: dict[str, Trace] = {}
    for trace in traces:
        if trace.question.id in found:
            raise InputError(f"{name}: question '{trace.question.id}' stands twice", way_out="compare one system each")
        found[trace.question.id] = trace
    return found


def _question_diff(first: Trace, second: Trace) -> QuestionDiff:
    where, detail = _first_difference(first, second)
    return QuestionDiff(
        question_id=first.question.id,
        first=first.label or f"({first.reason or first.outcome})",
        second=second.label or f"({second.reason or second.outcome})",
        first_correct=first.correct,
        second_correct=second.correct,
        where=where,
        detail=detail,
    )


def _first_difference(first: Trace, second: Trace) -> tuple[str, str]:
    if first.question != second.question:
        return "question", "the question itself differs"
    for number, (a, b) in enumerate(zip(first.rounds, second.rounds, strict=False), start=1):
        left, right = a.model_dump(mode="json"), b.model_dump(mode="json")
        for field in _PATH:
            if not _same(left[field], right[field]):
                return f"round {number}, {field}", _told(field, left[field], right[field])
    if len(first.rounds) != len(second.rounds):
        return "rounds", f"{len(first.rounds)} ({_ending(first)}) -> {len(second.rounds)} ({_ending(second)})"
    if (first.outcome, first.label, first.reason) != (second.outcome, second.label, second.reason):
        return "outcome", f"{_ending(first)} -> {_ending(second)}"
    return "", ""


def _ending(trace: Trace) -> str:
    return _short(" ".join(filter(None, (trace.outcome, trace.label, trace.reason))))


def _same(a: Any, b: Any) -> bool:
    """Equal but for tries, and for the keys of calls, which differ with the model and say nothing by themselves."""
    skip = {"attempts", "call"}
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(k in skip or _same(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_same, a, b))
    return bool(a == b)


def _told(field: str, a: Any, b: Any) -> str:
    if field in {"stage1", "filter", "shown", "summaries_shown"}:
        return _told_pages(field, a, b)
    if isinstance(a, dict) and isinstance(b, dict):
        changed = [name for name in a if not _same({name: a[name]}, {name: b[name]})]
        what = "text" if "text" in changed else changed[0]
        also = [name for name in changed if name != what]
        return f"{what}: {_change(a[what], b[what])}" + (f" (and {', '.join(also)})" if also else "")
    return _change(a, b)


def _told_pages(field: str, a: Any, b: Any) -> str:
    left, right = _pages(field, a), _pages(field, b)
    gone, new = [page for page in left if page not in set(right)], [page for page in right if page not in set(left)]
    if gone or new:
        named = [f"-{page}" for page in gone[:3]] + [f"+{page}" for page in new[:3]]
        return f"{len(gone)} pages gone, {len(new)} new ({' '.join(named)})"
    if left != right:
        return "same pages, other order"
    if field == "stage1":
        return "same pages, other scores"
    fallbacks = [sum(call["fallback"] for call in side["calls"]) for side in (a, b)]
    return f"same pages kept, other calls behind them ({fallbacks[0]} -> {fallbacks[1]} fallbacks)"


def _change(a: Any, b: Any) -> str:
    """Both values, from a little before the place where they part."""
    left, right = (" ".join(str(value).split()) for value in (a, b))
    same = next((n for n, (x, y) in enumerate(zip(left, right, strict=False)) if x != y), min(len(left), len(right)))
    start = max(0, same - _WORTH_TELLING // 2) if max(len(left), len(right)) > _WORTH_TELLING else 0
    return f"{_short(left, start)} -> {_short(right, start)}"


def _pages(field: str, value: Any) -> list[str]:
    if field == "stage1":
        return [hit["page_id"] for hit in value]
    return list(value["kept"] if field == "filter" else value)


def _short(text: str, start: int = 0) -> str:
    text = ("…" if start else "") + text[start:]
    return text if len(text) <= _WORTH_TELLING else text[: _WORTH_TELLING - 1] + "…"
