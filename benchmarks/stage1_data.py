"""The collection that the engines of ``stage1.py`` search, its queries, and the exact scores of both."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from page_vectors import DIM, PageMaker, difficulty, made_store
from stage1_engines import Floats, Offsets, both_halves, row_blocks

from medvrag_core.encoders.shards import starts
from medvrag_core.runs.publish import whole_file

PLACES = (10, 100, 2_000)
"""Recall is told at these."""
_TIE = 1e-6


@dataclass(frozen=True)
class Collection:
    """Pages and queries.

    Attributes
    ----------
    home : folder with ``rows.f16`` (the rows of all pages, one after another), ``offsets.npy``, and a store of the same
    queries, targets : rows of each query, and the page that it was made from
    seed : of the maker
    exact : number of ways to float32 scores of shape (queries, pages)
    """

    home: Path
    queries: tuple[Floats, ...]
    targets: tuple[int, ...]
    exact: dict[int, Floats]
    seed: int = 0

    @property
    def pages(self) -> int:
        """How many."""
        return int(self.exact[1].shape[1])

    @property
    def store(self) -> Path:
        """Folder of the same vectors as the package keeps them."""
        return self.home / "vectors"

    def recall(self, found: NDArray[np.int64], ways: int, at: int) -> float | None:
        """Mean share of the best ``at`` pages among the first ``at`` found, for the first queries; None: too few pages.

        ``found`` holds page numbers, shape (queries, k), -1 where nothing was found.
        """
        if at > min(self.pages, found.shape[1]):
            return None
        shares = []
        for pages, scores in zip(found[:, :at], self.exact[ways], strict=False):
            least = np.partition(scores, self.pages - at)[self.pages - at]
            there = np.unique(pages[pages >= 0])
            shares.append(float((scores[there] >= least - _TIE).sum()) / at)
        return float(np.mean(shares))

    def difficulty(self) -> dict[str, Any]:
        """See :func:`page_vectors.difficulty`."""
        lengths = np.diff(np.load(self.home / "offsets.npy"))
        return difficulty(self.exact[1], self.exact[2], self.targets, lengths)


def collect(work: Path, maker: PageMaker, pages: int, queries: int, query_rows: int | None = None) -> Collection:
    """Make a collection in a folder of its own, or what is missing of it; ``query_rows`` gives all queries as many."""
    home = work / f"pages-{pages}-seed-{maker.seed}"
    home.mkdir(parents=True, exist_ok=True)
    if not (home / "offsets.npy").is_file():
        lengths: list[NDArray[np.int64]] = []
        with whole_file(home / "rows.f16") as path, path.open("wb") as handle:
            for block in maker.blocks(pages):
                handle.write(block.rows.tobytes())
                lengths.append(np.diff(block.offsets))
        with whole_file(home / "offsets.npy") as path, path.open("wb") as handle:
            np.save(handle, starts(np.concatenate(lengths)))
    made_store(maker, pages, home / "vectors")
    asked = [maker.query(number, pages) for number in range(queries)]
    every = tuple(np.resize(query.rows, (query_rows or len(query.rows), DIM)) for query in asked)
    np.savez(home / "queries.npz", sizes=[len(rows) for rows in every], rows=np.concatenate(every))
    forward, both = _exact(home, every)
    with (home / "rows.f16").open("rb") as handle:
        # Engines of ours read the store; together with this copy it may be more than the memory holds.
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(handle.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return Collection(home, every, tuple(query.target for query in asked), {1: forward, 2: both}, maker.seed)


def _exact(home: Path, queries: tuple[Floats, ...]) -> tuple[Floats, Floats]:
    """Scores one way and both ways, each of shape (queries, pages), kept for the next run with the same queries."""
    kept, asked = home / "exact.npz", np.concatenate(queries)
    if kept.is_file():
        with np.load(kept) as found:
            if np.array_equal(found["queries"], asked):
                return found["forward"], found["both"]
    offsets: Offsets = np.load(home / "offsets.npy")
    rows = np.memmap(home / "rows.f16", dtype=np.float16, mode="r").reshape(-1, DIM)
    forward, both = (np.empty((len(queries), len(offsets) - 1), dtype=np.float32) for _ in range(2))
    for first, end in row_blocks(offsets):  # Each block of rows is made float32 once.
        block = rows[offsets[first] : offsets[end]].astype(np.float32)
        inner = offsets[first : end + 1] - offsets[first]
        for number, query in enumerate(queries):
            forward[number, first:end], backward = both_halves(query, block, inner)
            both[number, first:end] = forward[number, first:end] + backward
    with whole_file(kept) as path, path.open("wb") as handle:
        np.savez(handle, queries=asked, forward=forward, both=both)
    return forward, both
