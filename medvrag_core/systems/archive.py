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

import pydantic_core
from pydantic import Field, ValidationError, field_validator

from medvrag_core.errors import InputError, MismatchError
from medvrag_core.models.store import CallStore, StoredCall, call_key
from medvrag_core.records import Record, Trace, describe_validation_error
from medvrag_core.runs.publish import whole_file
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.answering import read_traces, systems_with_traces
from medvrag_core.systems.canonical import canonical_trace

FORMAT = 1
MAX_LINE = 16_000_000
"""Bytes of the longest line, on the way out and in; bounds what a hostile file can make of the memory."""
_DECODER_BYTES = 64_000_000
_CHUNK = 1 << 20
_AGAIN = "fetch the file again"


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


class _CallLine(Record):
    kind: Literal["call"]
    call: StoredCall


class _TokensLine(Record):
    kind: Literal["tokens"]
    counter: str
    text: str = Field(pattern="^[0-9a-f]{64}$")
    tokens: int = Field(ge=0, lt=2**31)


class _TraceLine(Record):
    kind: Literal["trace"]
    trace: Trace

    @field_validator("trace", mode="before")
    @classmethod
    def _with_clock(cls, trace: Any) -> Any:
        """An archive keeps no times, a trace must have some."""
        if not isinstance(trace, dict) or not isinstance(rounds := trace.get("rounds"), list):
            return trace
        timed = [{**round_, "times": ()} if isinstance(round_, dict) else round_ for round_ in rounds]
        return {**trace, "rounds": timed, "seconds": 0.0}


class _EndLine(Record):
    kind: Literal["end"]
    lines: int
    sha256: str


_Line = ArchiveHeader | _CallLine | _TokensLine | _TraceLine | _EndLine
_KINDS: dict[str, type[_Line]] = {
    "medvrag-calls": ArchiveHeader,
    "call": _CallLine,
    "tokens": _TokensLine,
    "trace": _TraceLine,
    "end": _EndLine,
}


def export_calls(workspace: Workspace, out: Path) -> ArchiveHeader:
    """Write the calls and traces of a run to ``out``; the same run gives the same bytes.

    Raises InputError when the run has no calls or cannot be read, or ``out`` cannot be written.
    """
    systems = systems_with_traces(workspace)
    if not workspace.calls.is_file():
        raise InputError(
            f"run '{workspace.root.name}' made no model calls", way_out="export a run whose profile asks a model"
        )
    try:
        with CallStore(workspace.calls) as store, whole_file(out) as temporary:
            header = ArchiveHeader(run_id=workspace.root.resolve().name, systems=tuple(systems), calls=len(store))
            digest, count = hashlib.sha256(), 0
            with lzma.open(temporary, "wb", preset=6) as file:
                for value in _values(workspace, store, header):
                    line = _line(value)
                    if len(line) > MAX_LINE:
                        raise InputError(
                            f"{out}: a {value['kind']} takes {len(line):,} bytes, more than an archive holds"
                        )
                    digest.update(line)
                    count += 1
                    file.write(line)
                file.write(_line({"kind": "end", "lines": count, "sha256": digest.hexdigest()}))
    except OSError as error:
        raise InputError(f"{out}: cannot be written ({error.strerror})", way_out="name another file") from None
    return header


def _values(workspace: Workspace, store: CallStore, header: ArchiveHeader) -> Iterator[dict[str, Any]]:
    yield header.model_dump(mode="json")
    for call in store.calls():
        # How long a call took says nothing about its reply, and would make every export differ.
        yield {"kind": "call", "call": call.model_copy(update={"seconds": 0.0}).model_dump(mode="json")}
    for counter, text, tokens in store.token_counts():
        yield {"kind": "tokens", "counter": counter, "text": text, "tokens": tokens}
    for name in header.systems:
        for trace in read_traces(workspace, name, made_by="the questions first"):
            yield {"kind": "trace", "trace": json.loads(canonical_trace(trace))}


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True, ensure_ascii=False).encode() + b"\n"


def import_calls(archive: Path, workspace: Workspace) -> ImportReport:
    """Put the calls of an archive into the store of a run; all of them, or none if anything is wrong with the file.

    Raises
    ------
    InputError
        The file is missing, no archive, cut off, or holds a call that does not match its key.
    MismatchError
        It was written by a newer version.
    """
    kinds = [line.kind for line in _lines(archive)]
    with CallStore(workspace.calls) as store:
        new, different = store.put_missing(
            (line.call for line in _lines(archive) if isinstance(line, _CallLine)),
            ((x.counter, x.text, x.tokens) for x in _lines(archive) if isinstance(x, _TokensLine)),
        )
    return ImportReport(
        calls=kinds.count("call"),
        new_calls=new,
        different_calls=different,
        token_counts=kinds.count("tokens"),
        traces=kinds.count("trace"),
    )


def archived_traces(archive: Path) -> list[Trace]:
    """The traces of an archive; their times are zero, since an archive keeps none.

    Raises what :func:`import_calls` raises.
    """
    return [line.trace for line in _lines(archive) if isinstance(line, _TraceLine)]


def _lines(archive: Path) -> Iterator[_Line]:
    """Every line, checked; the whole file is checked once the last one was read. Raises as :func:`import_calls`."""
    digest, count, calls, last_key = hashlib.sha256(), 0, 0, ""
    header = end = None
    for raw in _raw_lines(archive):
        where = f"{archive}: line {count + 1}"
        if end is not None:
            raise InputError(f"{where} follows the end", way_out=_AGAIN)
        line = _parsed(raw, where, first=header is None)
        if isinstance(line, _EndLine):
            end = line
            continue
        if isinstance(line, ArchiveHeader):
            header = line
        elif isinstance(line, _CallLine):
            _require_own_key(line.call, where)
            if line.call.key <= last_key:
                raise InputError(f"{where} is out of order", way_out=_AGAIN)
            last_key, calls = line.call.key, calls + 1
        digest.update(raw + b"\n")
        count += 1
        yield line
    whole = end is not None and (end.lines, end.sha256) == (count, digest.hexdigest())
    if header is None or not whole or header.calls != calls:
        raise InputError(f"{archive}: is not whole", way_out=_AGAIN)


def _parsed(raw: bytes, where: str, *, first: bool) -> _Line:
    try:
        value = pydantic_core.from_json(raw)
    except ValueError:
        raise InputError(f"{where} is no JSON", way_out=_AGAIN) from None
    kind = value.get("kind") if isinstance(value, dict) else None
    if first != (kind == "medvrag-calls") or not isinstance(kind, str) or kind not in _KINDS:
        raise InputError(f"{where} does not belong into an archive of model calls")
    if first and value.get("format") != FORMAT:
        raise MismatchError(
            f"{where}: has format {str(value.get('format'))[:20]}, this version reads {FORMAT}",
            way_out="use the version of this package that wrote it",
        )
    try:
        return _KINDS[kind].model_validate(value)
    except ValidationError as error:
        raise InputError(f"{where}: a {kind} is damaged ({describe_validation_error(error)})") from None


def _raw_lines(archive: Path) -> Iterator[bytes]:
    """Lines without their ends; never more than a line and two chunks in memory, whatever the file unpacks to."""
    if not archive.is_file():
        raise InputError(f"{archive}: no such archive", way_out="check the path")
    decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_DECODER_BYTES)
    pending = b""
    try:
        with archive.open("rb") as file:
            while not decoder.eof:
                packed = file.read(_CHUNK) if decoder.needs_input else b""
                if decoder.needs_input and not packed:
                    raise InputError(f"{archive}: is cut off", way_out=_AGAIN)
                *whole, pending = (pending + decoder.decompress(packed, max_length=_CHUNK)).split(b"\n")
                yield from whole
                if len(pending) > MAX_LINE:
                    raise InputError(f"{archive}: holds a line of more than {MAX_LINE:,} bytes")
            if pending or decoder.unused_data or file.read(1):
                raise InputError(f"{archive}: goes on after its end", way_out=_AGAIN)
    except (lzma.LZMAError, OSError) as error:
        raise InputError(f"{archive}: cannot be read ({error})", way_out=_AGAIN) from None


def _require_own_key(call: StoredCall, where: str) -> None:
    if call_key(call.request) != call.key:
        raise InputError(f"{where}: call {call.key[:12]} does not match its request", way_out="do not use this file")
    try:
        request = pydantic_core.from_json(call.request)
    except ValueError:
        request = None
    told = {"purpose": call.purpose, "model": call.model, "revision": call.revision}
    if not isinstance(request, dict) or any(request.get(name) != value for name, value in told.items()):
        raise InputError(f"{where}: call {call.key[:12]} is not what it says", way_out="do not use this file")
    if call.prompt_version not in (request.get("prompt_version"), request.get("version")):
        raise InputError(f"{where}: call {call.key[:12]} has another prompt", way_out="do not use this file")
