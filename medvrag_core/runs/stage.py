"""One RunRecord a stage: written when the stage is whole, read by the stage after it."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from medvrag_core.errors import MismatchError, NotBuiltError
from medvrag_core.records import Artefact, RunRecord
from medvrag_core.runs.publish import sha256_of, write_text
from medvrag_core.settings import Profile, differences, fingerprint

_PACKAGES = ("numpy", "pymupdf", "faiss-cpu", "llvmlite", "onnxruntime", "pydantic")


class StageDraft:
    """A stage that is under way; nothing is published until :meth:`finish`.

    Notebooks begin a stage in one cell and finish it in their last; code uses :func:`record_stage`.
    """

    def __init__(self, run: Path, stage: str, *, profile: str, settings: BaseModel) -> None:
        self._run, self._stage, self._profile, self._settings = run, stage, profile, settings
        self._started, self._clock = datetime.now(UTC), time.perf_counter()
        self._artefacts: list[Path] = []
        self._metrics: dict[str, Any] = {}

    def add(self, *paths: Path) -> None:
        """Name files that the stage published."""
        self._artefacts += paths

    def measure(self, **metrics: Any) -> None:
        """Store numbers (JSON values) that reports and the book quote."""
        self._metrics |= metrics

    def finish(self) -> RunRecord:
        """Publish ``run/records/<stage>.json`` and return what it holds."""
        record = RunRecord(
            run_id=self._run.name,
            stage=self._stage,
            profile=self._profile,
            settings=self._settings.model_dump(mode="json"),
            fingerprint=fingerprint(self._settings),
            started=self._started.isoformat(timespec="seconds"),
            seconds=time.perf_counter() - self._clock,
            artefacts=tuple(
                Artefact(name=p.relative_to(self._run).as_posix(), sha256=sha256_of(p), bytes=p.stat().st_size)
                for p in self._artefacts
            ),
            metrics=self._metrics,
            environment=environment(),
        )
        write_text(self._run / "records" / f"{self._stage}.json", record.model_dump_json(indent=1) + "\n")
        return record


@contextmanager
def record_stage(run: Path, stage: str, *, profile: str, settings: BaseModel) -> Iterator[StageDraft]:
    """Run a stage and publish its record only if the body succeeds."""
    draft = StageDraft(run, stage, profile=profile, settings=settings)
    yield draft
    draft.finish()


def begin_stage(run: Path, stage: str, profile: Profile) -> StageDraft:
    """Start the stage of a notebook; its last cell calls ``finish()`` on what this returns."""
    return StageDraft(run, stage, profile=profile.name, settings=profile)


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
    """Refuse to go on in ``folder`` if it was made under other settings; names the fields.

    A setting that the version which made the folder did not have counts as its default there.
    """
    path = folder / "settings.json"
    if not path.is_file():
        return
    stored = json.loads(path.read_text(encoding="utf-8"))
    with suppress(ValidationError):
        stored = type(settings).model_validate(stored).model_dump(mode="json")
    changed = differences(stored, settings.model_dump(mode="json"))
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
