"""Whole files or none: every artefact is written under a temporary name and renamed into place."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from medvrag_core.errors import InputError

_HOST = hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]
"""In temporary names: processes of two machines may have one number, and see one shared disk."""
_LONG_AGO_S = 86_400.0


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; on success it is synced and renamed to ``path``.

    If the body raises, nothing appears at ``path`` and the temporary file is removed. Raises InputError when ``path``
    is a folder, or its folder cannot be made.
    """
    if path.is_dir():
        raise InputError(f"{path}: cannot be written, it is a folder", way_out="give the name of a file")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})", way_out="choose another place") from None
    temporary = _temporary(path)
    try:
        yield temporary
        with temporary.open("rb+") as handle:
            os.fsync(handle.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder beside ``path`` that replaces ``path`` when the body succeeds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary(path)
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    try:
        yield temporary
        if path.exists():
            shutil.rmtree(path)
        temporary.replace(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def abandoned(part: Path) -> bool:
    """Whether nobody will finish a temporary file or folder.

    Its process ran on this machine and is gone, or it is another machine's and nothing happened to it for a day.
    """
    host, _, process = part.name.split(".")[-2].rpartition("-")
    if not process.isdecimal():
        return False
    if host in ("", _HOST):
        return not _is_running(int(process))
    try:
        return time.time() - part.stat().st_mtime > _LONG_AGO_S
    except FileNotFoundError:
        return False


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{_HOST}-{os.getpid()}.part")


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # of another user
    return True


def write_text(path: Path, text: str) -> None:
    """Publish ``text`` as UTF-8."""
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_bytes(path: Path, data: bytes) -> None:
    """Publish ``data``."""
    with whole_file(path) as temporary:
        temporary.write_bytes(data)


def sha256_of(path: Path) -> str:
    """Hex digest of a file's content."""
    digest = hashlib.sha256()
    with path.open("rb") as handle:
        while block := handle.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
