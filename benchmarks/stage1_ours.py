"""The modes of ``medvrag_core.index``, and its kernel alone, as engines of ``stage1.py``; needs the package."""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from page_vectors import DIM, PageMaker, page_id
from stage1_engines import Engine, Floats, Halves, Offsets, best

from medvrag_core.encoders.vectors import VectorStore
from medvrag_core.index.build import build_index, open_index
from medvrag_core.index.coded_pages import CodedPages
from medvrag_core.index.manifest import read_manifest
from medvrag_core.index.segments import open_segments
from medvrag_core.index.tune import Tuning, tune
from medvrag_core.settings import IndexSettings

_OTHERS, _TUNED_ON, _WANTED = 1_000_000, 40, 0.99
"""Number of the first query to tune on, how many there are, and the recall that is wanted."""


class Ours(Engine):
    """One mode. All modes share the folder of one index; near-duplicates stay in, so that all engines rank the same.

    Where the vectors lie, and which settings are not the default, is read from ``ours.json`` in the folder.
    """

    package, module, ways, kept, memory_factor = "medvrag-core", "medvrag_core", 2, True, 0.7
    mode: str
    files: tuple[str, ...] = ("codes.npy", "pages.npz")

    def __init__(self, folder: Path, threads: int) -> None:
        super().__init__(folder, threads)
        self._told = json.loads((folder / "ours.json").read_text(encoding="utf-8"))
        self._vectors = Path(self._told["store"])
        self._settings = IndexSettings(**{**self._told["changed"], "mode": self.mode, "threads": threads})
        self._home = folder / "index"

    def build(self, rows: Halves, offsets: Offsets) -> None:
        """See :class:`Engine`; the vectors come from the store, which holds the same."""
        self._offsets, store = offsets, VectorStore.open(self._vectors)
        self._index = build_index(store, self._settings, self._home, near_duplicate=1.0, progress=False)

    def open(self, rows: Halves, offsets: Offsets) -> None:
        """See :class:`Engine`."""
        self._offsets = offsets
        self._index = open_index(VectorStore.open(self._vectors), self._settings, self._home)

    def search(self, query: Floats, k: int) -> NDArray[np.int64]:
        """See :class:`Engine`."""
        hits = self._index.search(query, k).hits
        return np.array([self._number_of[hit.page_id] for hit in hits], dtype=np.int64)

    @property
    def device(self) -> str:
        """See :class:`Engine`: by the settings a GPU where there is one and torch or FAISS can use it."""
        return self._index.device

    @property
    def bytes(self) -> int:
        """See :class:`Engine`: the files that the mode reads; vectors for exact scores lie in the store besides."""
        return sum(self._file(name) for name in self.files)

    def must_read(self, m: int) -> int:
        """See :class:`Engine`: the codes of all pages, and the vectors of those that are scored anew."""
        return self._codes(self._pages)

    @cached_property
    def _number_of(self) -> dict[str, int]:
        """Made by the first query, which warms up: what numbers cost is no part of a search."""
        return {page_id(number): number for number in range(self._pages)}

    @property
    def _pages(self) -> int:
        return len(self._offsets) - 1

    def _codes(self, pages: int) -> int:
        """Bytes of the codes of ``pages`` pages, and of the vectors of the best of them."""
        anew = min(self._settings.rescore, pages)
        vectors = anew * int(self._offsets[-1]) * 2 * DIM
        return (min(pages, self._pages) * self._file("codes.npy") + vectors) // self._pages

    def _file(self, name: str) -> int:
        return sum(path.stat().st_size for path in self._home.rglob(name))


class OursExact(Ours):
    """Every page by its codes, the best anew by their vectors."""

    name, mode = "ours exact", "exact"


class OursFast(Ours):
    """Every page by its centroids, a shortlist by its codes, the best anew by their vectors."""

    name, mode = "ours fast", "fast"
    files = (*Ours.files, "centroids.npy")

    def must_read(self, m: int) -> int:
        """See :class:`Engine`; where the shortlist holds every page, centroids are not looked at."""
        some = self._settings.shortlist
        return self._codes(some) + (self._file("centroids.npy") if some < self._pages else 0)


class OursTuned(OursFast):
    """Mode ``fast`` as :func:`~medvrag_core.index.tune.tune` chooses for a recall of 0.99 of the best k.

    It is chosen on queries that nothing reports. What choosing takes is part of what building takes.
    """

    name = "ours fast, tuned"

    def build(self, rows: Halves, offsets: Offsets) -> None:
        """See :class:`Engine`."""
        super().build(rows, offsets)
        self.open(rows, offsets)

    def open(self, rows: Halves, offsets: Offsets) -> None:
        """See :class:`Engine`; another k is tuned for anew."""
        pages = len(offsets) - 1
        at = min(self._told["k"], pages)
        kept = self.folder / f"tuning-{at}.json"
        if not kept.is_file():
            maker = PageMaker(self._told["seed"])
            others = [maker.query(_OTHERS + number, pages).rows for number in range(_TUNED_ON)]
            store = VectorStore.open(self._vectors)
            made = tune(store, self._settings, self._home, others, recall=_WANTED, at=at, progress=False)
            kept.write_text(made.to_json(), encoding="utf-8")
        found = Tuning.from_json(kept.read_text(encoding="utf-8"))
        if found.chosen is None:
            raise RuntimeError(f"no R that was tried finds {_WANTED} of the best {at}")
        chosen = found.points[found.chosen]
        self._settings = self._settings.model_copy(update=chosen.changed)
        self.settings = {**chosen.changed, "recall on other queries": round(chosen.recall, 4)}
        super().open(rows, offsets)


class OursPaper(Ours):
    """ANN over C = 8 unit centroids, coarse rank, a shortlist by its codes, the best anew by their vectors."""

    name, mode = "ours paper", "paper"
    files = (*Ours.files, "centroids.npy", "ann.faiss")

    def must_read(self, m: int) -> int:
        """See :class:`Engine`; no ANN can do without the float32 centroids that it returns."""
        return self._codes(self._settings.shortlist) + m * self._settings.ann_neighbors * 4 * DIM


class OursKernel(OursExact):
    """The kernel for processors alone: codes of all pages, nothing scored anew."""

    name, device = "ours kernel", "cpu"

    def build(self, rows: Halves, offsets: Offsets) -> None:
        """See :class:`Engine`."""
        super().build(rows, offsets)
        self.open(rows, offsets)

    def open(self, rows: Halves, offsets: Offsets) -> None:
        """See :class:`Engine`."""
        segments = open_segments([self._home / entry.folder for entry in read_manifest(self._home).segments])
        self._coded = CodedPages(segments, threads=self.threads)
        self._offsets, self._every = offsets, np.arange(len(offsets) - 1)

    def search(self, query: Floats, k: int) -> NDArray[np.int64]:
        """See :class:`Engine`."""
        return best(self._coded.scores(query, self._every), k)

    def must_read(self, m: int) -> int:
        """See :class:`Engine`."""
        return self._file("codes.npy")


OURS: tuple[type[Ours], ...] = (OursExact, OursFast, OursTuned, OursPaper)


def write_ours(folder: Path, store: Path, changed: dict[str, Any], *, seed: int, k: int) -> None:
    """Tell engines in this folder where the vectors lie, how they were made, and what is asked for.

    Parameters
    ----------
    changed : settings that are not the default
    seed, k : of the vectors; pages asked for
    """
    told = {"store": str(store), "changed": changed, "seed": seed, "k": k}
    (folder / "ours.json").write_text(json.dumps(told), encoding="utf-8")
