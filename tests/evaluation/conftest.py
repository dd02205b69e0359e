"""Makers of traces, so that tests name only what matters to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from medvrag_core.records import (
    FilterDecision,
    Hit,
    MemoryBank,
    Outcome,
    ParsedReply,
    Question,
    ReaderReply,
    Round,
    StageTime,
    Trace,
)

Stages = tuple[Sequence[str], Sequence[str], Sequence[str]]
"""Pages among the candidates, kept, and shown in one round."""


def _round(number: int, stages: Stages, times: dict[str, float]) -> Round:
    candidates, kept, shown = stages
    return Round(
        number=number,
        query="q",
        stage1=tuple(Hit(page_id=p, score=1.0 / r, rank=r) for r, p in enumerate(candidates, start=1)),
        filter=FilterDecision(kept=tuple(kept)),
        shown=tuple(shown),
        bank_before=MemoryBank(),
        reply=ReaderReply(text=""),
        parsed=ParsedReply(),
        times=tuple(StageTime(step=s, seconds=v) for s, v in times.items()),
    )


@pytest.fixture(scope="session")
def make_trace() -> Callable[..., Trace]:
    def make(
        id: str = "q1",
        label: str | None = "A",
        *,
        gold: str = "A",
        outcome: Outcome | None = None,
        rounds: Sequence[Stages] = (((), (), ()),),
        gold_pages: Sequence[str] = (),
        system: str = "medvrag",
        times: dict[str, float] | None = None,
        seconds: float = 1.0,
        options: int = 4,
    ) -> Trace:
        texts = {letter: f"text {letter}" for letter in "ABCDE"[:options]}
        question = Question(id=id, question="?", options=texts, answer=gold, gold_pages=tuple(gold_pages))
        return Trace(
            system=system,
            profile="test",
            fingerprint="f",
            question=question,
            rounds=tuple(_round(n, s, times or {}) for n, s in enumerate(rounds, start=1)),
            outcome=outcome or ("unparsed" if label is None else "answered"),
            label=label,
            correct=label == gold,
            seconds=seconds,
        )

    return make


MakeTrace = Callable[..., Trace]
