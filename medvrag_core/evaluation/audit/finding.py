"""The typed record of one check, and the two rules by which most checks reach their verdict."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, Self

from pydantic import model_validator

from medvrag_core.evaluation.audit.rounded import Rounded
from medvrag_core.records import Record

Verdict = Literal["holds", "fails", "open", "derived"]
Severity = Literal["A", "B", "C"]

SEVERITIES: dict[Severity, str] = {
    "A": "cannot be so as described",
    "B": "disagrees with another number, or with its source",
    "C": "depends on something that is not said",
}


class Finding(Record):
    """One number of a paper beside what its own cells give.

    ``verdict``: ``holds`` (agrees, rounding allowed), ``fails`` (no rounding makes it agree), ``open``
    (agrees under one reading and not under another, or rests on an assumption), ``derived`` (follows from
    printed cells; the paper prints no such number). Only ``fails`` (A or B) and ``open`` (C) have a
    ``severity``. ``wording`` is how the finding may fairly be told, ``alternatives`` are explanations
    that would remove it.
    """

    id: str
    topic: str
    where: str
    claim: str
    arithmetic: str
    result: str
    verdict: Verdict
    severity: Severity | None = None
    wording: str
    alternatives: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _severity_follows_the_verdict(self) -> Self:
        allowed: dict[str, tuple[Severity | None, ...]] = {"fails": ("A", "B"), "open": ("C",)}
        if self.severity not in allowed.get(self.verdict, (None,)):
            raise ValueError(f"severity {self.severity} does not go with verdict {self.verdict}")
        return self


def compare(
    id: str,
    topic: str,
    where: str,
    claim: str,
    *,
    claimed: Rounded,
    computed: Rounded,
    arithmetic: str,
    wording: str,
    severity: Severity = "B",
    alternatives: Iterable[str] = (),
    digits: int = 2,
) -> Finding:
    """Finding whose verdict is whether two ranges overlap; ``severity``, ``wording`` and ``alternatives`` if not."""
    spread = f" ({computed.range(digits)} with rounding)" if computed.low != computed.high else ""
    return decide(
        id, topic, where, claim,
        ok=claimed.agrees(computed),
        arithmetic=f"{arithmetic} = {computed.show(digits)}{spread}",
        result=f"printed {claimed.show(digits)}, computed {computed.show(digits)}",
        wording=wording, severity=severity, alternatives=alternatives,
    )  # fmt: skip


def decide(
    id: str,
    topic: str,
    where: str,
    claim: str,
    *,
    ok: bool,
    arithmetic: str,
    result: str,
    wording: str,
    severity: Severity,
    alternatives: Iterable[str] = (),
) -> Finding:
    """Finding that holds if ``ok``; else it fails (severity A or B) or stays open (severity C)."""
    verdict: Verdict = "holds" if ok else "open" if severity == "C" else "fails"
    return Finding(
        id=id,
        topic=topic,
        where=where,
        claim=claim,
        arithmetic=arithmetic,
        result=result,
        verdict=verdict,
        severity=None if ok else severity,
        wording="Agrees with its parts." if ok else wording,
        alternatives=() if ok else tuple(alternatives),
    )


def derive(id: str, topic: str, where: str, arithmetic: str, result: str, wording: str) -> Finding:
    """Finding without a claim: a number that follows from printed ones."""
    return Finding(
        id=id, topic=topic, where=where, claim="–",
        arithmetic=arithmetic, result=result, verdict="derived", wording=wording,
    )  # fmt: skip
