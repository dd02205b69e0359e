"""Files held against the digests of their manifest; one that nobody wrote to since the last time is not read again."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from medvrag_core.errors import InputError, MismatchError
from medvrag_core.records import Record
from medvrag_core.runs.publish import sha256_of
from medvrag_core.runs.sealed import read_sealed, write_sealed
from medvrag_core.settings import cores

NOTE = ".verified.json"
SETTLED_NS = 2_000_000_000
"""Age of a file in ns from which its times tell a later write from the last one; the coarsest clocks of file systems
tick every two seconds."""
THREADS = min(8, cores())
"""Files that are hashed at the same time."""


class FolderEntry(Record):
    """One published folder as a manifest names it: its path beside the manifest, and SHA-256 of its files by name."""

    folder: str
    files: dict[str, str]


def files_of(entries: Iterable[FolderEntry]) -> dict[str, str]:
    """SHA-256 of every file of some folders, by its path beside the manifest, as :func:`verify` takes it."""
    return {f"{entry.folder}/{name}": digest for entry in entries for name, digest in entry.files.items()}


class Note(Record):
    """What each file was like when it was last found whole, by name: SHA-256, size, mtime, ctime, and inode."""

    files: dict[str, str]


def verify(folder: Path, files: Mapping[str, str], *, way_out: str, full: bool = False) -> None:
    """Refuse a folder whose files are not the ones of its manifest.

    What a file was like when its whole content was last found right is noted in ``.verified.json`` in ``folder``.
    Where size, mtime, ctime and inode are still the same, and the manifest still asks for the same digest, the file is
    taken as unchanged; every other file is read and hashed. Any write to a file sets its ctime, which no program can
    set back, so a changed file is always read. A folder that cannot be written to, or a note that is damaged, only
    means that all files are read each time. A file younger than two seconds is not noted, since a second write could
    fall into the same tick of the file system's clock.

    **What the note cannot tell**: bytes that rot on the disk without a write, and writes that go around the file
    system or under a system clock that was set back. Only a check with ``full=True`` finds these. The note guards
    against accidents and not against an attacker: who can write to the folder can write a manifest too.

    Parameters
    ----------
    folder : that the names are relative to
    files : SHA-256 of each file by name, such as ``{"shard-00000/vectors.npy": "..."}``. In each folder in which one
        of them lies, no other file may lie; subfolders without one are not looked into
    way_out : what to do about a file that is not as it was
    full : read every file, whatever the note says

    Raises
    ------
    MismatchError
        A file is missing, or there is one too many, or one has another content or cannot be read; names the first.
    """
    began = time.time_ns()
    found = dict(_stats(folder, {name.rpartition("/")[0] for name in files} or {""}))
    for name in sorted(files.keys() - found.keys()):
        raise MismatchError(f"{folder / name}: is missing", way_out=way_out)
    for name in sorted(found.keys() - files.keys()):
        raise MismatchError(f"{folder / name}: is a file that the manifest does not know", way_out=way_out)
    if full:
        with suppress(OSError):
            (folder / NOTE).unlink()  # What a full check refuses, no later one shall accept for a note's sake.
    noted = {} if full else _noted(folder)
    # The stat is older than the hash, so a write that came in between makes the note stale, not wrong.
    whole = {name: f"{digest} {_told(found[name])}" for name, digest in files.items()}
    sure = {name: seen for name, seen in whole.items() if noted.get(name) == seen}
    _require_digests(folder, sorted(whole.keys() - sure.keys()), files, way_out)
    sure |= {name: seen for name, seen in whole.items() if found[name].st_ctime_ns < began - SETTLED_NS}
    if sure != noted:
        with suppress(OSError, InputError):
            write_sealed(folder / NOTE, Note(files=sure))


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of each file in a folder, by name; a note of :func:`verify` does not count."""
    return {file.name: sha256_of(file) for file in sorted(folder.iterdir()) if not _is_note(file.name)}


def _stats(folder: Path, parts: Iterable[str]) -> Iterator[tuple[str, os.stat_result]]:
    """What the file system tells of each file in these subfolders; nothing of a subfolder that is not there."""
    for part in parts:
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(f"{folder}/{part}") as entries:
            for entry in entries:
                if entry.is_file() and not _is_note(entry.name):
                    yield f"{part}/{entry.name}" if part else entry.name, entry.stat()


def _told(stat: os.stat_result) -> str:
    return f"{stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns} {stat.st_ino}"


def _noted(folder: Path) -> dict[str, str]:
    try:
        note = read_sealed(folder / NOTE, Note, way_out="")
    except MismatchError:
        note = None
    return note.files if note is not None else {}


def _is_note(name: str) -> bool:
    return NOTE in name  # Another process may just be writing it, under a longer name.


def _require_digests(folder: Path, names: list[str], wanted: Mapping[str, str], way_out: str) -> None:
    with ThreadPoolExecutor(THREADS, thread_name_prefix="verify") as pool:
        pending = [(name, pool.submit(sha256_of, folder / name)) for name in names]
        try:
            for name, digest in pending:
                if digest.result() != wanted[name]:
                    raise MismatchError(f"{folder / name}: is damaged, or another file", way_out=way_out)
        except OSError as error:
            raise MismatchError(f"{folder / name}: cannot be read ({error.strerror})", way_out=way_out) from None
        finally:
            for _, digest in pending:
                digest.cancel()
