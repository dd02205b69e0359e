"""One RunRecord a stage: written when the stage is whole, read by the stage after it."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from medvrag_core.errors import MismatchError, NotBuiltError
from medvrag_core.records import Artefact, RunRecord
from medvrag_core.runs.publish import sha256_of, write_text
from medvrag_core.settings import differences, fingerprint

_PACKAGES = ("numpy", "pymupdf", "faiss-cpu", "onnxruntime", "pydantic")


class StageDraft:
    """Collects artefacts and metrics while a stage runs; see :func:`record_stage`."""

    def __init__(self) -> None:
        self.artefacts: list[Path] = []
        self.metrics: dict[str, Any] = {}

    def add(self, *paths: Path) -> None:
        """Name files that the stage published."""
        self.artefacts += paths

    def measure(self, **metrics: Any) -> None:
        """Store numbers (JSON values) that reports and the book quote."""
        self.metrics |= metrics


@contextmanager
def record_stage(run: Path, stage: str, *, profile: str, settings: BaseModel, run_id: str = "") -> Iterator[StageDraft]:
    """Run a stage and publish ``run/records/<stage>.json`` only if the body succeeds."""
    draft, started, clock = StageDraft(), datetime.now(UTC), time.perf_counter()
    yield draft
    record = RunRecord(
        run_id=run_id or run.name,
        stage=stage,
        profile=profile,
        settings=settings.model_dump(mode="json"),
        fingerprint=fingerprint(settings),
        started=started.isoformat(timespec="seconds"),
        seconds=time.perf_counter() - clock,
        artefacts=tuple(
            Artefact(name=p.relative_to(run).as_posix(), sha256=sha256_of(p), bytes=p.stat().st_size)
            for p in draft.artefacts
        ),
        metrics=draft.metrics,
        environment=environment(),
    )
    write_text(run / "records" / f"{stage}.json", record.model_dump_json(indent=1))


def read_stage(run: Path, stage: str, *, made_by: str) -> RunRecord:
    """The record of a finished stage.

    Raises :class:`NotBuiltError` with ``made_by`` (a notebook or command) as the way out.
    """
    path = run / "records" / f"{stage}.json"
    if not path.is_file():
        raise NotBuiltError(
            f"run '{run.name}' has no finished stage '{stage}' ({path})", way_out=f"run {made_by} first"
        )
    return RunRecord.from_json(path.read_text(encoding="utf-8"), source=str(path))


def save_settings(folder: Path, settings: BaseModel) -> None:
    """Write the resolved settings beside the artefacts they shaped."""
    write_text(folder / "settings.json", settings.model_dump_json(indent=1))


def require_same_settings(folder: Path, settings: BaseModel, *, way_out: str) -> None:
    """Refuse to go on in ``folder`` if it was made under other settings; names the fields."""
    path = folder / "settings.json"
    if not path.is_file():
        return
    changed = differences(json.loads(path.read_text(encoding="utf-8")), settings.model_dump(mode="json"))
    if changed:
        raise MismatchError(f"{folder}: made under other settings ({'; '.join(changed)})", way_out=way_out)


def environment() -> dict[str, str]:
    """Versions that can change a result."""
    found = {"python": platform.python_version(), "machine": platform.machine()}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
