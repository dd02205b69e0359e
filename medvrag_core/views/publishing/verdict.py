"""Our own verdict on an executed notebook; papermill's exit code and the file alone both miss failures.

``sys.exit(0)`` in a cell ends a run early with success, and a killed kernel leaves a notebook in
which every cell says ``completed``. So a chapter passes only if each cell with code was executed,
none shows an error, and the RunRecord of its stage was written by this very execution.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from medvrag_core.errors import MedvragError
from medvrag_core.records import RunRecord
from medvrag_core.runs.stage import read_stage
from medvrag_core.views.publishing.errors import ChapterFailed

_NOT_EXECUTED = "was not executed"


def require_complete(notebook: Any, chapter: str, raised: Exception | None = None) -> None:
    """Refuse a notebook that did not run to its end.

    Parameters
    ----------
    notebook : as papermill saved it
    chapter : name for the message
    raised : what papermill raised, if anything

    Raises
    ------
    ChapterFailed : names the chapter, the code cell (counted from 1 in the source) and the exception
    """
    cells = list(_source_code_cells(notebook))
    for number, cell in cells:
        fault = _fault_of(cell)
        if fault == _NOT_EXECUTED and raised is not None:
            # The kernel is gone; the cell that took it along is the last one that was started.
            started = [pair for pair in cells if pair[1].metadata.get("papermill", {}).get("start_time")]
            number, cell = started[-1] if started else (number, cell)
            fault = _last_line(raised)
        if fault:
            head = cell.source.strip().splitlines()[0]
            raise ChapterFailed(f"chapter {chapter}, code cell {number} (`{head}`): {fault}")
    if raised is not None or notebook.metadata.get("papermill", {}).get("exception"):
        raise ChapterFailed(f"chapter {chapter}: stopped early ({_last_line(raised)})")


def require_record(run: Path, chapter: str, stage: str, began: datetime | None = None) -> RunRecord:
    """The RunRecord that the chapter must have left; with ``began`` it must not be older than that."""
    try:
        record = read_stage(run, stage, made_by=chapter)
    except MedvragError as error:
        raise ChapterFailed(f"chapter {chapter}: left no record of stage '{stage}' ({error.problem})") from None
    if record.run_id != run.name or record.stage != stage:
        raise ChapterFailed(
            f"chapter {chapter}: its record is of run '{record.run_id}', stage '{record.stage}', "
            f"not of run '{run.name}', stage '{stage}'"
        )
    # Records keep whole seconds.
    if began is not None and datetime.fromisoformat(record.started) < began.replace(microsecond=0):
        raise ChapterFailed(
            f"chapter {chapter}: the record of stage '{stage}' is from {record.started}, before this execution",
            way_out="the chapter must write it with record_stage",
        )
    return record


def _source_code_cells(notebook: Any) -> Iterator[tuple[int, Any]]:
    number = 0
    for cell in notebook.cells:
        if cell.cell_type == "code" and "injected-parameters" not in cell.metadata.get("tags", []):
            number += 1
            if cell.source.strip():
                yield number, cell


def _fault_of(cell: Any) -> str:
    for output in cell.outputs:
        if output.output_type == "error":
            return f"{output.ename}: {output.evalue}".splitlines()[0]
    status = cell.metadata.get("papermill", {}).get("status", "absent")
    if status in ("pending", "running") or cell.execution_count is None:
        return _NOT_EXECUTED
    return "" if status == "completed" else f"has status '{status}'"


def _last_line(error: Exception | None) -> str:
    lines = str(error).strip().splitlines() if error is not None else []
    return lines[-1] if lines else "the notebook ended itself"
