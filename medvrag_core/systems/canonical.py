"""Traces without a clock: what two runs of the same experiment must have in common to the byte."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from medvrag_core.records import Trace

_CLOCK: dict[str, Any] = {
    "seconds": True,
    "rounds": {
        "__all__": {
            "times": True,
            "reply": {"attempts"},
            "refinement": {"attempts"},
            "steps": {"__all__": {"attempts"}},
        }
    },
}
"""Fields that tell how long something took, or how often it had to be tried; they say nothing about the result."""


def canonical_trace(trace: Trace) -> str:
    """A trace as one line of JSON with sorted keys and without times.

    Equal lines mean that a question went the same way: queries, candidates, scores, filter calls, pages, replies.
    """
    return json.dumps(trace.model_dump(mode="json", exclude=_CLOCK), sort_keys=True, ensure_ascii=False)


def canonical_export(traces: Iterable[Trace]) -> str:
    """All traces, one line each, by system and question id."""
    ordered = sorted(traces, key=lambda trace: (trace.system, trace.question.id))
    return "".join(canonical_trace(trace) + "\n" for trace in ordered)


def export_digest(traces: Iterable[Trace]) -> str:
    """SHA-256 of :func:`canonical_export`; two runs with the same digest had the same outcome in every detail."""
    return hashlib.sha256(canonical_export(traces).encode()).hexdigest()
