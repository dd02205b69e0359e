"""JSON and JSON lines of files that somebody gave: whole, UTF-8, without repeated names; faults name file and place."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from medvrag_core.errors import InputError

LARGEST_BYTES = 1 << 28
"""What a file may hold when unpacked, so that a small packed file cannot fill the memory."""


def read_text(path: Path) -> str:
    """A UTF-8 text, unpacked if its name ends in ``.gz``.

    Raises
    ------
    InputError : the file is missing, cut, damaged, not UTF-8, or larger than ``LARGEST_BYTES``
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file", way_out="check the path")
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as source:
            raw = source.read(LARGEST_BYTES + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{path}: not a whole gzip file ({error})", way_out="fetch or pack it again") from None
    if len(raw) > LARGEST_BYTES:
        raise InputError(f"{path}: holds more than {LARGEST_BYTES:,} bytes", way_out="cut it into smaller files")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text (byte {error.start})", way_out="save the file as UTF-8") from None


def strict_json(text: str, where: str, *, way_out: str = "") -> Any:
    """JSON in which no name repeats within an object and no number is NaN; InputError names ``where``."""
    try:
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_refuse_repeated_keys)
    except json.JSONDecodeError as error:
        at = f"line {error.lineno}, column {error.colno}" if error.lineno > 1 else f"column {error.colno}"
        raise InputError(f"{where}: not valid JSON ({error.msg} at {at})", way_out=way_out) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: {error}") from None


def json_lines(path: Path) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Line number, ``file, line N`` and content of every line that is not blank; raises as :func:`read_text`."""
    found = 0
    # Only the newline ends a line of JSONL; str.splitlines would also cut at U+2028 inside a text.
    for line, content in enumerate(read_text(path).split("\n"), start=1):
        if not content.strip():
            continue
        found += 1
        where = f"{path}, line {line}"
        data = strict_json(content, where, way_out="write one object a line")
        if not isinstance(data, dict):
            raise InputError(f"{where}: must be a JSON object, found {type(data).__name__}")
        yield line, where, data
    if not found:
        raise InputError(f"{path}: holds no line", way_out="write one object a line")


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON value")


def _refuse_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for key, value in pairs:
        if key in data:
            raise ValueError(f"field '{key}' stands twice in one object")
        data[key] = value
    return data
