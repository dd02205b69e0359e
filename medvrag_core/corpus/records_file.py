"""Records of a file, one a line of JSON, read when somebody asks for them.

A page takes kilobytes of memory as a record, and a corpus may have millions. A process that needs a few pages at a
time, as a worker of a crew does, holds 8 bytes for each of the others; see ``benchmarks/corpus_memory.py``.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from operator import eq
from pathlib import Path
from typing import TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from medvrag_core.errors import NotBuiltError
from medvrag_core.records import Record

R = TypeVar("R", bound=Record)
KEPT = 4_096
"""Records that stay in memory once they were read; all of a small file."""
_PIECE = 1 << 20


class RecordsFile(Sequence[R]):
    """The records of a file by their place in it; safe to read from several threads.

    The file is read as it was when this was made, also after another one took its name.

    Raises
    ------
    NotBuiltError : the file is missing
    InputError : a line is no such record; told when it is read
    """

    def __init__(self, path: Path, record: type[R]) -> None:
        self._path, self._record = path, record
        if not path.is_file():
            raise NotBuiltError(f"{path}: is missing", way_out="build the corpus again; finished articles are kept")
        with path.open("rb") as handle:
            # The system does not map an empty file.
            self._bytes = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) if path.stat().st_size else b""
        self._ends = _line_ends(self._bytes)
        self._kept = lru_cache(maxsize=KEPT)(self._read)

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, place: int) -> R: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[R, ...]: ...

    def __getitem__(self, place: int | slice) -> R | tuple[R, ...]:
        if isinstance(place, slice):
            return tuple(self._kept(n) for n in range(*place.indices(len(self))))
        if not -len(self) <= place < len(self):
            raise IndexError(place)
        return self._kept(place % len(self))

    def __iter__(self) -> Iterator[R]:
        read = self._kept if len(self) <= KEPT else self._read
        return map(read, range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(eq, self, other))

    __hash__ = None  # type: ignore[assignment]

    def _read(self, place: int) -> R:
        start = int(self._ends[place - 1]) + 1 if place else 0
        return self._record.from_json(self._bytes[start : int(self._ends[place])], source=str(self._path))


class KeyedRecords(Mapping[str, R]):
    """The same by a key, in the order of the file; memory holds the keys."""

    def __init__(self, records: RecordsFile[R], key: Callable[[R], str]) -> None:
        self._records = records
        self._places = {key(record): place for place, record in enumerate(records)}

    def __getitem__(self, key: str) -> R:
        return self._records[self._places[key]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def _line_ends(content: bytes | mmap.mmap) -> NDArray[np.int64]:
    """Where each line ends; the last one may lack its newline."""
    found = [
        start + np.flatnonzero(np.frombuffer(content[start : start + _PIECE], np.uint8) == ord("\n"))
        for start in range(0, len(content), _PIECE)
    ]
    ends = np.concatenate(found).astype(np.int64) if found else np.zeros(0, np.int64)
    if len(content) and content[-1] != ord("\n"):
        ends = np.append(ends, len(content))
    return ends
