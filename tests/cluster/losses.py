"""Workers that come to an end or take long, and some that tell on whom they run; other processes can import them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medvrag_core.errors import InputError


@dataclass(frozen=True)
class Marking:
    """Makes workers of another kind that leave a mark in ``marks`` before each item, and wait for ``go`` there.

    The mark tells the process; so a test knows whom to end while there is work in its hands.
    """

    make: Callable[[], Callable[[Any], Any]]
    marks: Path

    def __call__(self) -> Callable[[Any], Any]:
        worker = self.make()

        def work(item: Any) -> Any:
            (self.marks / f"{os.getpid()}-{time.monotonic_ns()}").touch()
            while not (self.marks / "go").exists():
                time.sleep(0.05)
            return worker(item)

        return work


class Squares:
    """Squares numbers; 13 kills its process each time, 7 the first time, 5 is refused, 3 is a bug."""

    def __init__(self, marks: Path) -> None:
        self.marks = marks

    def __call__(self, number: int) -> tuple[int, str]:
        first = self.marks / "first"
        if number == 13 or (number == 7 and not first.exists()):
            first.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if number == 5:
            raise InputError("5 is refused", way_out="take 6")
        if number == 3:
            raise ZeroDivisionError("3 is a bug")
        return number * number, os.environ.get("OMP_NUM_THREADS", "")


class Slow:
    """Does 0 at once and other numbers in a minute; leaves a mark as :class:`Marking` does."""

    def __init__(self, marks: Path) -> None:
        self.marks = marks

    def __call__(self, number: int) -> int:
        (self.marks / f"{os.getpid()}-{number}").touch()
        time.sleep(60 if number else 0)
        return number


class Device:
    """Tells its process, and the GPU that Ray gave it."""

    def __call__(self, number: int) -> tuple[int, str]:
        time.sleep(0.5)
        return os.getpid(), os.environ.get("CUDA_VISIBLE_DEVICES", "")


class Diary:
    """Lines in a file, which outlive the process that writes them."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def put(self, line: str) -> int:
        if line == "":
            raise InputError("nothing is said", way_out="say something")
        with self.path.open("a", encoding="utf-8") as handle:
            handle.write(line + "\n")
        return os.getpid()

    def close(self) -> None:
        self.put("end")


class Writes:
    """Puts what it is given into a diary that it has borrowed; tells who wrote it."""

    def __init__(self, diary: Diary) -> None:
        self.diary = diary

    def __call__(self, line: str) -> int:
        return self.diary.put(line)
