"""Records that carry their own digest, so that any change to their file is found when it is read."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TypeVar

from medvrag_core.errors import InputError, MismatchError
from medvrag_core.records import Record
from medvrag_core.runs.publish import write_bytes

R = TypeVar("R", bound=Record)


def write_sealed(path: Path, record: Record) -> None:
    """Publish ``record`` as JSON together with the SHA-256 of its text, whole or not at all."""
    write_bytes(path, _sealed(record.to_json().encode()))


def read_sealed(path: Path, kind: type[R], *, way_out: str) -> R | None:
    """Read what :func:`write_sealed` wrote; None where there is no such file.

    Parameters
    ----------
    path : of the file
    kind : of the record
    way_out : what to do about a file that is not as it was written

    Raises
    ------
    MismatchError
        A single bit of the file is another one than was written, it was never sealed, its record is of another
        kind, or it cannot be read at all.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise MismatchError(f"{path}: cannot be read ({error.strerror})", way_out=way_out) from None
    body = data[_FIRST:-_LAST]
    # The whole file is made anew and compared, so that nothing in it is left to a parser's tolerance.
    if data != _sealed(body):
        raise MismatchError(f"{path}: is damaged, or another version wrote it", way_out=way_out)
    try:
        return kind.from_json(body, source=str(path))
    except InputError as error:
        raise MismatchError(f"{error.problem}, as in a file of another version", way_out=way_out) from None


def _sealed(body: bytes) -> bytes:
    return b'{"sha256":"%s","record":%s}\n' % (hashlib.sha256(body).hexdigest().encode(), body)


_LAST = len(b"}\n")
_FIRST = len(_sealed(b"")) - _LAST
