"""How the questions of a stored run ended, in one compact file a system; traces are parsed only where they changed.

A trace of 2,000 candidates a round takes a few hundred kilobytes, its ending a few. ``outcomes.jsonl`` holds one line a
question with name, size and time of change of the trace that it was read from. It is a copy that can be lost or damaged
without harm: whatever does not fit the folder of traces is read from the traces again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from medvrag_core.errors import InputError, NotBuiltError
from medvrag_core.evaluation.endings import Answered, Ending, last_reply
from medvrag_core.evaluation.retrieval.filter_loss import filter_fallbacks
from medvrag_core.reasoning.sameness import page_of
from medvrag_core.records import Record, Trace
from medvrag_core.runs.publish import whole_file
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.answering import read_asked, trace_path

DEEPEST = 100
"""Places of a ranking that an ending keeps, as far as reports look."""


class _Line(Record):
    """An ending with the trace file that it was read from."""

    file: str
    bytes: int
    changed_ns: int
    ending: Ending


def ending_of(answered: Answered) -> Ending:
    """A trace in short; an ending is its own."""
    if isinstance(answered, Ending):
        return answered
    last = last_reply(answered)
    ranked = answered.rounds[:1] if answered.question.gold_pages else ()
    return Ending(
        **{name: getattr(answered, name) for name in Ending.model_fields.keys() & Trace.model_fields.keys()},
        rounds_used=len(answered.rounds),
        reply=None if last is None else last.text,
        finish_reason=None if last is None else last.finish_reason,
        option_scores={} if last is None else last.option_scores,
        stage1=_first_pages([hit.page_id for round_ in ranked for hit in round_.stage1]),
        kept=_first_pages([page for round_ in ranked for page in round_.filter.kept]),
        fallbacks=tuple(filter_fallbacks([answered])),
    )


def _first_pages(evidence: Sequence[str]) -> tuple[str, ...]:
    """Chunks of one page stand for the page once, at their best place."""
    return tuple(dict.fromkeys(map(page_of, evidence)))[:DEEPEST]


def outcomes_path(workspace: Workspace, system: str) -> Path:
    """The compact file of one system."""
    return workspace.system(system) / "outcomes.jsonl"


def read_endings(workspace: Workspace, system: str, *, made_by: str) -> list[Ending]:
    """Endings of all stored traces of one system by question id; brings the compact file up to date.

    One trace at a time is in memory. A run folder that cannot be written is read all the same.

    Raises NotBuiltError with ``made_by`` as the way out, and InputError for a trace that is damaged or a copy.
    """
    path = outcomes_path(workspace, system)
    known = _known(path)
    lines = []
    for file in sorted(workspace.traces(system).glob("*.json")):
        stat, line = file.stat(), known.get(file.name)
        if line is None or (line.bytes, line.changed_ns) != (stat.st_size, stat.st_mtime_ns):
            ending = ending_of(Trace.from_json(file.read_bytes(), source=str(file)))
            line = _Line(file=file.name, bytes=stat.st_size, changed_ns=stat.st_mtime_ns, ending=ending)
        _require_own(line, file, workspace, system)
        lines.append(line)
    if not lines:
        raise NotBuiltError(f"run '{workspace.root.name}' has no trace of system '{system}'", way_out=f"run {made_by}")
    if {line.file: line for line in lines} != known:
        with contextlib.suppress(OSError), whole_file(path) as temporary:
            temporary.write_text("".join(line.to_json() + "\n" for line in lines), encoding="utf-8")
    return sorted((line.ending for line in lines), key=lambda ending: ending.question.id)


def read_asked_endings(workspace: Workspace, system: str, *, made_by: str) -> tuple[list[Ending], int | None]:
    """Endings of the questions that were asked last, and how many were asked (None where the run does not say).

    A run folder can hold answers to earlier question files. Raises what :func:`read_endings` raises.
    """
    endings = read_endings(workspace, system, made_by=made_by)
    asked = set(read_asked(workspace, system))
    return ([e for e in endings if e.question.id in asked], len(asked)) if asked else (endings, None)


def _known(path: Path) -> dict[str, _Line]:
    lines = {}
    if path.is_file():
        for text in path.read_bytes().splitlines():
            # A line of another version, or cut: its trace is read again.
            with contextlib.suppress(ValidationError):
                line = _Line.model_validate_json(text)
                lines[line.file] = line
    return lines


def _require_own(line: _Line, file: Path, workspace: Workspace, system: str) -> None:
    found = line.ending
    if found.system != system or file != trace_path(workspace, system, found.question.id):
        raise InputError(
            f"{file}: holds the trace of question '{found.question.id}' by system '{found.system}'",
            way_out="each trace lies under its own name; delete the copy",
        )
