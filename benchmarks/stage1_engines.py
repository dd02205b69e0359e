"""Search engines that ``stage1.py`` compares, each behind the same few methods; needs numpy, and the engine it runs.

Engines rank by one half of S ("one way": mean over query rows of the best patch, the MaxSim of ColBERT) or by both.
A one-way engine is compared with exact one-way search: its ranking is another one, not a worse copy.
"""

from __future__ import annotations

import importlib
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Halves = NDArray[np.float16]
Offsets = NDArray[np.int64]
ROWS_AT_ONCE = 65_536


class Engine(ABC):
    """An engine over the pages of a collection, which have the numbers 0, 1, 2, ...

    Attributes
    ----------
    name : in tables
    package, module : what pip and Python call it; "" for what needs numpy alone
    light : installs in seconds, without torch
    ways : 2 where it scores both halves of S, 1 where only the first
    depth : most pages that it is meant to return
    memory_factor : most memory while it is built, in bytes a byte of the float16 rows
    kept : in the folder that it is given; else it is built anew in every process
    folder : where it may write
    threads : that it may use
    lib : the module
    settings : numbers that were chosen for it, to be told with its figures
    """

    name: str
    package: str = ""
    module: str = "numpy"
    light: bool = True
    ways: int = 1
    depth: int | None = None
    memory_factor: float = 4.0
    kept: bool = False

    @property
    def device(self) -> str:
        """``cpu``, or ``cuda:N``."""
        return "cpu"

    def __init__(self, folder: Path, threads: int) -> None:
        self.folder, self.threads = folder, threads
        self.settings: dict[str, float] = {}
        self.lib: Any = importlib.import_module(self.module)

    @abstractmethod
    def build(self, rows: Halves, offsets: Offsets) -> None:
        """Take in all pages: float16 of shape (rows, 128), mapped into memory, and int64 of shape (pages + 1,)."""

    def open(self, rows: Halves, offsets: Offsets) -> None:
        """Make ready what :meth:`build` left in the folder, in another process."""

    @abstractmethod
    def search(self, query: Floats, k: int) -> NDArray[np.int64]:
        """Numbers of the best ``k`` pages, best first; fewer where it found fewer."""

    @property
    @abstractmethod
    def bytes(self) -> int:
        """What it keeps, in memory or on disk."""

    def must_read(self, m: int) -> int:
        """Bytes that a search with ``m`` rows cannot do without; all that it keeps, where pages are scanned.

        0 where it cannot be told.
        """
        return self.bytes


def page_arrays(rows: Halves, offsets: Offsets) -> Iterator[Floats]:
    """Pages one by one, float32."""
    for first, end in row_blocks(offsets):
        block = rows[offsets[first] : offsets[end]].astype(np.float32)
        for page in range(first, end):
            yield block[offsets[page] - offsets[first] : offsets[page + 1] - offsets[first]]


def row_blocks(offsets: Offsets) -> Iterator[tuple[int, int]]:
    """Runs of whole pages, each of about :data:`ROWS_AT_ONCE` rows.

    >>> list(row_blocks(np.array([0, 40_000, 60_000, 80_000])))
    [(0, 2), (2, 3)]
    """
    pages, first = len(offsets) - 1, 0
    while first < pages:
        end = int(np.searchsorted(offsets, offsets[first] + ROWS_AT_ONCE, side="right")) - 1
        end = min(max(end, first + 1), pages)
        yield first, end
        first = end


def both_halves(query: Floats, rows: NDArray[Any], offsets: Offsets) -> tuple[Floats, Floats]:
    """The two halves of S of every page in float32 (paper section 3.2), each of shape (pages,).

    This is what all engines are measured against, so it shares no code with any of them.

    >>> query, rows = np.eye(2, dtype=np.float32), np.array([[1, 0], [0.6, 0.8], [0, -1]], dtype=np.float32)
    >>> [half.round(2).tolist() for half in both_halves(query, rows, np.array([0, 2, 3]))]
    [[0.9, -0.5], [0.9, 0.0]]
    """
    forward, backward = (np.empty(len(offsets) - 1, dtype=np.float32) for _ in range(2))
    for first, end in row_blocks(offsets):
        block = rows[offsets[first] : offsets[end]].astype(np.float32, copy=False)
        starts = offsets[first:end] - offsets[first]
        similarity = query @ block.T
        forward[first:end] = np.maximum.reduceat(similarity, starts, axis=1).mean(axis=0)
        backward[first:end] = np.add.reduceat(similarity.max(axis=0), starts) / np.diff(offsets[first : end + 1])
    return forward, backward


def best(scores: Floats, k: int) -> NDArray[np.int64]:
    """Numbers of the ``k`` best, best first, equal scores in order of number.

    >>> best(np.array([1, 3, 3, 2], dtype=np.float32), 3).tolist()
    [1, 2, 3]
    """
    if k >= len(scores):
        return np.argsort(-scores, kind="stable").astype(np.int64)
    least = np.partition(scores, len(scores) - k)[len(scores) - k]
    found = np.flatnonzero(scores >= least)
    return found[np.argsort(-scores[found], kind="stable")][:k].astype(np.int64)


class Numpy(Engine):
    """Brute force by BLAS, float32 in memory."""

    name, ways = "numpy float32", 2
    memory_factor = 2.2

    def build(self, rows: Halves, offsets: Offsets) -> None:
        """See :class:`Engine`."""
        self._rows: NDArray[Any] = np.asarray(rows).astype(np.float32)
        self._offsets = offsets

    def search(self, query: Floats, k: int) -> NDArray[np.int64]:
        """See :class:`Engine`."""
        forward, backward = both_halves(query, self._rows, self._offsets)
        return best(forward + backward, k)

    @property
    def bytes(self) -> int:
        """See :class:`Engine`."""
        return self._rows.nbytes + self._offsets.nbytes


class NumpyBlocks(Numpy):
    """The same on float16 rows that stay in their file, made float32 a block at a time; fits where others do not."""

    name, memory_factor = "numpy by blocks", 0.1

    def build(self, rows: Halves, offsets: Offsets) -> None:
        """See :class:`Engine`."""
        self._rows, self._offsets = rows, offsets


class Torch(Engine):
    """What most projects do: pages padded to the longest, one einsum a batch, padding masked out; float32.

    128 pages a batch, as in colpali-engine; a batch fits into the caches, one for all pages is slower.
    """

    name, package, module, light, ways = "torch float32", "torch", "torch", False, 2
    memory_factor = 3.2
    _pages_at_once = 128

    def build(self, rows: Halves, offsets: Offsets) -> None:
        """See :class:`Engine`."""
        torch = self.lib
        torch.set_num_threads(self.threads)
        lengths = np.diff(offsets)
        self._batches = []
        for first in range(0, len(lengths), self._pages_at_once):
            some = lengths[first : first + self._pages_at_once]
            there = np.arange(some.max()) < some[:, None]
            padded = np.zeros((*there.shape, rows.shape[1]), dtype=np.float32)
            padded[there] = rows[offsets[first] : offsets[first + len(some)]]
            self._batches.append((torch.from_numpy(padded), torch.from_numpy(there), torch.from_numpy(some)))

    def search(self, query: Floats, k: int) -> NDArray[np.int64]:
        """See :class:`Engine`."""
        torch, scores = self.lib, []
        with torch.inference_mode():
            rows = torch.from_numpy(query)
            for padded, there, lengths in self._batches:
                similarity = torch.einsum("md,pnd->pmn", rows, padded)
                forward = similarity.masked_fill(~there[:, None], -torch.inf).amax(dim=2).mean(dim=1)
                backward = (similarity.amax(dim=1) * there).sum(dim=1) / lengths
                scores.append(forward + backward)
            every = torch.cat(scores)
            found: NDArray[np.int64] = torch.topk(every, min(k, len(every))).indices.numpy()
        return found

    @property
    def bytes(self) -> int:
        """See :class:`Engine`."""
        return sum(int(part.nbytes) for batch in self._batches for part in batch)


class MaxsimCpu(Engine):
    """maxsim-cpu: Rust and BLAS, float32."""

    name, package, module, memory_factor = "maxsim-cpu", "maxsim-cpu", "maxsim_cpu", 2.5

    def build(self, rows: Halves, offsets: Offsets) -> None:
        """See :class:`Engine`."""
        self._pages = list(page_arrays(rows, offsets))

    def search(self, query: Floats, k: int) -> NDArray[np.int64]:
        """See :class:`Engine`."""
        return best(np.asarray(self.lib.maxsim_scores_variable(query, self._pages), dtype=np.float32), k)

    @property
    def bytes(self) -> int:
        """See :class:`Engine`."""
        return sum(int(page.nbytes) for page in self._pages)


class ColbanditFull(Engine):
    """colbandit, exhaustive: int8 codes and exact rows side by side, in C."""

    name, package, module, memory_factor = "colbandit full", "colbandit", "colbandit", 4.0

    def build(self, rows: Halves, offsets: Offsets) -> None:
        """See :class:`Engine`."""
        self._pages = [self.lib.maxsim_pack(page, dtype="f32") for page in page_arrays(rows, offsets)]

    def search(self, query: Floats, k: int) -> NDArray[np.int64]:
        """See :class:`Engine`."""
        found, _, _ = self.lib.full_maxsim(query, self._pages, K=min(k, len(self._pages)), n_threads=self.threads)
        return np.asarray(found, dtype=np.int64)

    @property
    def bytes(self) -> int:
        """See :class:`Engine`."""
        return sum(int(page.nbytes) for page in self._pages)


class ColbanditBandit(Engine):
    """colbandit as it is meant: query rows revealed one by one, pages dropped early. Threads share queries, not one."""

    name, package, module, depth, memory_factor = "colbandit bandit", "colbandit", "colbandit", 100, 9.0

    def build(self, rows: Halves, offsets: Offsets) -> None:
        """See :class:`Engine`."""
        self._bandit = self.lib.ColBandit(n_threads=self.threads)
        self._bandit.index(list(page_arrays(rows, offsets)))
        self._rows: tuple[int, int] = (rows.shape[0], rows.shape[1])

    def search(self, query: Floats, k: int) -> NDArray[np.int64]:
        """See :class:`Engine`."""
        found, _ = self._bandit.search(query, k=min(k, self._bandit.n_docs))
        return np.asarray(found, dtype=np.int64)

    @property
    def bytes(self) -> int:
        """See :class:`Engine`: int8 and float32 rows, two numbers a row, and the packed form."""
        rows, dim = self._rows
        return rows * (5 * dim + 8) + sum(int(page.nbytes) for page in self._bandit._packed)

    def must_read(self, m: int) -> int:
        """See :class:`Engine`: the int8 rows."""
        rows, dim = self._rows
        return rows * dim


class Numkong(Engine):
    """numkong: one call a page from Python, on one thread."""

    name, package, module, memory_factor = "numkong", "numkong", "numkong", 4.0

    def build(self, rows: Halves, offsets: Offsets) -> None:
        """See :class:`Engine`."""
        self._pages = [self.lib.maxsim_pack(page, dtype="f32") for page in page_arrays(rows, offsets)]

    def search(self, query: Floats, k: int) -> NDArray[np.int64]:
        """See :class:`Engine`; numkong sums angular distances, so less is better."""
        packed, score = self.lib.maxsim_pack(query, dtype="f32"), self.lib.maxsim_packed
        return best(-np.array([score(packed, page) for page in self._pages], dtype=np.float32), k)

    @property
    def bytes(self) -> int:
        """See :class:`Engine`."""
        return sum(int(page.nbytes) for page in self._pages)


def folder_bytes(folder: Path) -> int:
    """Size of all files below."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def emptied(folder: Path) -> Path:
    """The folder, there and empty."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


ENGINES: tuple[type[Engine], ...] = (Numpy, NumpyBlocks, Torch, MaxsimCpu, ColbanditFull, ColbanditBandit, Numkong)
