"""Child processes that render pages, and the few of them that wait for the next file.

Starting one costs more than a short article, so a child that read a file without trouble serves the next one. Whatever
could have left a mark on it (damage, a limit, a repair, growth, many files) ends it.
"""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading

from medvrag_core.corpus.job import Job

MOST_FILES = 100
GROWN_SHARE = 0.5
"""Of the address space that a child may have; one that has taken more is ended after its file."""
_KEEP_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(256 << 20)}
"""Has glibc keep the memory of one page's pixels for the next, which the system would have to clear each time. Other C
libraries know no such variables."""


class Renderer:
    """One child process: takes jobs, its answers come line by line."""

    def __init__(self) -> None:
        self.served = 0
        self._lines: queue.Queue[bytes | None] = queue.Queue()
        self._child = subprocess.Popen(
            [sys.executable, "-m", "medvrag_core.corpus.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"OMP_NUM_THREADS": "1", "OMP_THREAD_LIMIT": "1"} | _KEEP_MEMORY,
            start_new_session=True,  # Ctrl-C reaches the parent alone, which then ends its children in order
        )
        self._reader = threading.Thread(target=self._pump, daemon=True)
        self._reader.start()

    def send(self, job: Job) -> bool:
        """Hand over a job; False if the child is gone."""
        assert self._child.stdin is not None
        self.served += 1
        try:
            self._child.stdin.write(job.to_json().encode() + b"\n")
            self._child.stdin.flush()
        except BrokenPipeError:
            return False
        return True

    def line(self, timeout: float) -> bytes | None:
        """The next line of the child, None at its end; raises :class:`queue.Empty` after ``timeout`` seconds."""
        return self._lines.get(timeout=timeout)

    def exit_code(self) -> int:
        """Of the child, once its lines have ended."""
        return self._child.wait()

    def end(self) -> None:
        """Kill the child with all that it started."""
        if self._child.poll() is None:
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait()
        self._reader.join()
        for pipe in (self._child.stdin, self._child.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:
                continue  # what was not read by the child is of no use to anyone

    def _pump(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            self._lines.put(line)
        self._lines.put(None)


class Renderers:
    """The children that wait; safe for use by several threads. End them with :meth:`close`."""

    def __init__(self) -> None:
        self._waiting: list[Renderer] = []
        self._lock = threading.Lock()

    def waiting(self) -> Renderer | None:
        """One that has served before, for the caller alone; None if there is none."""
        with self._lock:
            return self._waiting.pop() if self._waiting else None

    def give_back(self, renderer: Renderer) -> None:
        """Let ``renderer`` wait for the next file, or end it after :data:`MOST_FILES`."""
        if renderer.served >= MOST_FILES:
            renderer.end()
            return
        with self._lock:
            self._waiting.append(renderer)

    def close(self) -> None:
        """End all that wait."""
        while (renderer := self.waiting()) is not None:
            renderer.end()
