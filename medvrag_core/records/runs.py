"""What a stage of a run leaves."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from medvrag_core.records.base import SCHEMA_VERSION, Record


class Artefact(Record):
    """A published file; ``name`` is relative to the run folder."""

    name: str
    sha256: str
    bytes: int


class RunRecord(Record):
    """What one stage of a run did; the next stage and the book read it."""

    schema_version: int = SCHEMA_VERSION
    run_id: str
    stage: str
    profile: str
    settings: dict[str, Any]
    fingerprint: str
    started: str
    seconds: float
    artefacts: tuple[Artefact, ...] = ()
    metrics: dict[str, Any] = Field(default_factory=dict)
    environment: dict[str, str] = Field(default_factory=dict)
