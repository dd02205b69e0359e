"""A published run in one compressed file: its model calls, and the traces that they led to.

Lines of JSON in an xz file: a header, the calls, the token counts, the traces without clock, and an end line with the
number and digest of all lines before it. Whoever has the corpus of the run can import it and answer every question
again with no model. Nothing in the file is executed; every call is checked against its key.
"""

from __future__ import annotations

import hashlib
import json
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from medvrag_core.errors import InputError, MismatchError
from medvrag_core.models.store import CallStore, StoredCall, call_key
from medvrag_core.records import Record, Trace, describe_validation_error
from medvrag_core.runs.publish import whole_file
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.answering import read_traces, systems_with_traces
from medvrag_core.systems.canonical import canonical_trace

FORMAT = 1
_MAX_LINE = 64_000_000


class ArchiveHeader(Record):
    """First line of an archive."""

    kind: Literal["medvrag-calls"] = "medvrag-calls"
    format: int = FORMAT
    run_id: str
    systems: tuple[str, ...]
    calls: int


class ImportReport(Record):
    """What an import did; calls that the store had already are kept as they were."""

    calls: int
    new_calls: int
    different_calls: int
    token_counts: int
    traces: int


def export_calls(workspace: Workspace, out: Path) -> ArchiveHeader:
    """Write the calls and traces of a run to ``out``; the same run gives the same bytes.

    Raises NotBuiltError or InputError when the run has no calls or cannot be read.
    """
    systems = systems_with_traces(workspace)
    if not workspace.calls.is_file():
        raise InputError(
            f"run '{workspace.root.name}' made no model calls", way_out="export a run whose profile asks a model"
        )
    with CallStore(workspace.calls) as store, whole_file(out) as temporary:
        header = ArchiveHeader(run_id=workspace.root.name, systems=tuple(systems), calls=len(store))
        digest, count = hashlib.sha256(), 0
        with lzma.open(temporary, "wt", encoding="utf-8", newline="\n", preset=6) as file:
            for value in _lines(workspace, store, header):
                line = json.dumps(value, sort_keys=True, ensure_ascii=False) + "\n"
                digest.update(line.encode())
                count += 1
                file.write(line)
            file.write(json.dumps({"kind": "end", "lines": count, "sha256": digest.hexdigest()}) + "\n")
    return header


def _lines(workspace: Workspace, store: CallStore, header: ArchiveHeader) -> Iterator[dict[str, Any]]:
    yield header.model_dump(mode="json")
    for call in store.calls():
        # How long a call took says nothing about its reply, and would make every export differ.
        yield {"kind": "call", "call": call.model_copy(update={"seconds": 0.0}).model_dump(mode="json")}
    for counter, text, tokens in store.token_counts():
        yield {"kind": "tokens", "counter": counter, "text": text, "tokens": tokens}
    for name in header.systems:
        for trace in read_traces(workspace, name, made_by="the questions first"):
            yield {"kind": "trace", "trace": json.loads(canonical_trace(trace))}


def import_calls(archive: Path, workspace: Workspace) -> ImportReport:
    """Put the calls of an archive into the store of a run; all of them, or none if the file is not whole.

    Raises
    ------
    InputError
        The file is missing, no archive, cut off, or holds a call that does not match its key.
    MismatchError
        It was written by a newer version.
    """
    traces = sum(1 for _ in read_archive(archive, "trace"))
    new, different, total, counts = 0, 0, 0, 0
    with CallStore(workspace.calls) as store:
        for value in read_archive(archive, "call"):
            call = _stored_call(value, archive)
            total += 1
            known = store.get(call.key)
            if known is None:
                store.put(call)
                new += 1
            elif (known.outcome, known.reply.text) != (call.outcome, call.reply.text):
                different += 1
        for value in read_archive(archive, "tokens"):
            store.put_token_digest(str(value.get("counter")), str(value.get("text")), int(value.get("tokens", 0)))
            counts += 1
    return ImportReport(calls=total, new_calls=new, different_calls=different, token_counts=counts, traces=traces)


def archived_traces(archive: Path) -> list[Trace]:
    """The traces of an archive; their times are zero, since an archive keeps none.

    Raises what :func:`import_calls` raises.
    """
    found = []
    for value in read_archive(archive, "trace"):
        trace = value.get("trace")
        try:
            found.append(Trace.model_validate(_with_clock(trace)))
        except ValidationError as error:
            raise InputError(f"{archive}: a trace is damaged ({describe_validation_error(error)})") from None
    return found


def _with_clock(trace: Any) -> Any:
    if isinstance(trace, dict):
        trace = {**trace, "seconds": 0.0}
        trace["rounds"] = [{**round_, "times": []} for round_ in trace.get("rounds", [])]
    return trace


def read_archive(archive: Path, kind: str) -> Iterator[dict[str, Any]]:
    """Values of one kind, after the whole file was checked against its end line. Raises as :func:`import_calls`."""
    _check(archive)
    for line in _raw_lines(archive):
        value = json.loads(line)
        if value.get("kind") == kind:
            yield value


_checked: set[tuple[str, int, int]] = set()


def _check(archive: Path) -> None:
    """Refuse a file that is not whole; once a file, since archives are read kind by kind."""
    if not archive.is_file():
        raise InputError(f"{archive}: no such archive")
    stat = archive.stat()
    identity = (str(archive.resolve()), stat.st_size, stat.st_mtime_ns)
    if identity in _checked:
        return
    digest, count, end = hashlib.sha256(), 0, None
    for number, line in enumerate(_raw_lines(archive), start=1):
        try:
            value = json.loads(line)
        except ValueError:
            raise InputError(f"{archive}: line {number} is no JSON", way_out="fetch the file again") from None
        if not isinstance(value, dict) or (number == 1 and value.get("kind") != "medvrag-calls"):
            raise InputError(f"{archive}: is no archive of model calls")
        if number == 1 and value.get("format") != FORMAT:
            raise MismatchError(
                f"{archive}: has format {value.get('format')}, this version reads {FORMAT}",
                way_out="use the version of this package that wrote it",
            )
        if value.get("kind") == "end":
            end = value
            break
        digest.update(line.encode())
        count += 1
    if end is None or end.get("lines") != count or end.get("sha256") != digest.hexdigest():
        raise InputError(f"{archive}: is not whole", way_out="fetch the file again")
    _checked.add(identity)


def _raw_lines(archive: Path) -> Iterator[str]:
    try:
        with lzma.open(archive, "rt", encoding="utf-8", newline="\n") as file:
            while line := file.readline(_MAX_LINE):
                yield line
    except (lzma.LZMAError, EOFError, UnicodeDecodeError) as error:
        raise InputError(f"{archive}: cannot be read ({error})", way_out="fetch the file again") from None


def _stored_call(value: dict[str, Any], archive: Path) -> StoredCall:
    try:
        call = StoredCall.model_validate(value.get("call"))
    except ValidationError as error:
        raise InputError(f"{archive}: a call is damaged ({describe_validation_error(error)})") from None
    if call_key(call.request) != call.key:
        raise InputError(f"{archive}: call {call.key[:12]} does not match its request", way_out="do not use this file")
    return call
