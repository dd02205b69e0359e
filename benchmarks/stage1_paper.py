"""The paper's stage 1 as it reads, in FAISS: a baseline of its own, beside our mode ``paper``."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from stage1_engines import Engine, Floats, Halves, Offsets, best, both_halves, page_arrays


class PaperInFaiss(Engine):
    """The paper's design as it reads: C = 8 k-means means a page, ANN for each query row, coarse rank, exact on R.

    The ANN is an IVF over all means. What it finds ranks pages by the mean over query rows of the best mean that
    was found for this row; a page that was not found for a row has there the least similarity that was. The R best
    are scored by both halves of S. The paper tells neither index type, neighbors nor R; these are ours.
    """

    name, package, module, ways = "paper in FAISS", "faiss-cpu", "faiss", 2
    memory_factor, kept = 0.7, True
    centroids, neighbors, shortlist, rounds = 8, 1_000, 4_000, 8

    def build(self, rows: Halves, offsets: Offsets) -> None:
        """See :class:`Engine`."""
        faiss = self.lib
        faiss.omp_set_num_threads(self.threads)
        means = np.concatenate([self._means(page) for page in page_arrays(rows, offsets)])
        cells = max(1, min(int(4 * math.sqrt(len(means))), len(means) // 39))
        index = faiss.index_factory(means.shape[1], f"IVF{cells},Flat", faiss.METRIC_INNER_PRODUCT)
        index.train(means[:: max(1, len(means) // (64 * cells))])
        index.add(means)
        faiss.write_index(index, str(self.folder / "ann.faiss"))
        self.open(rows, offsets)

    def open(self, rows: Halves, offsets: Offsets) -> None:
        """See :class:`Engine`."""
        self.lib.omp_set_num_threads(self.threads)
        self._index = self.lib.read_index(str(self.folder / "ann.faiss"))
        self._index.nprobe = max(1, self._index.nlist // 16)
        self._rows, self._offsets = rows, offsets
        counts = np.minimum(np.diff(offsets), self.centroids)
        self._page_of = np.repeat(np.arange(len(counts)), counts)

    def search(self, query: Floats, k: int) -> NDArray[np.int64]:
        """See :class:`Engine`."""
        near, found = self._index.search(query, min(self.neighbors, len(self._page_of)))
        pages, place = np.unique(self._page_of[np.maximum(found, 0)], return_inverse=True)
        # Of several means of a page that a row found, the first is the best.
        there = np.where(found >= 0, near, np.inf)
        scores = np.repeat(there.min(axis=1, keepdims=True), len(pages), axis=1)
        row, column = np.nonzero(found >= 0)
        np.maximum.at(scores, (row, place.reshape(found.shape)[row, column]), near[row, column])
        chosen = np.sort(pages[best(scores.mean(axis=0), self.shortlist)])
        lengths = np.diff(self._offsets)[chosen]
        inner = np.concatenate([[0], np.cumsum(lengths)])
        rows = np.repeat(self._offsets[chosen] - inner[:-1], lengths) + np.arange(inner[-1])
        forward, backward = both_halves(query, self._rows[rows], inner)
        return chosen[best(forward + backward, k)].astype(np.int64)

    @property
    def bytes(self) -> int:
        """See :class:`Engine`; the rows are needed for exact scores."""
        return (self.folder / "ann.faiss").stat().st_size + self._rows.nbytes

    def must_read(self, m: int) -> int:
        """See :class:`Engine`: the cells that one row searches, and the rows of the shortlist."""
        pages = len(self._offsets) - 1
        means = len(self._page_of) * self._index.nprobe / self._index.nlist * 4 * self._rows.shape[1]
        return int(means + self._rows.nbytes * min(1.0, self.shortlist / pages))

    def _means(self, page: Floats) -> Floats:
        """Means of Lloyd's clusters, not brought to unit length."""
        if len(page) <= self.centroids:
            return page
        centers: Floats = page[np.linspace(0, len(page) - 1, self.centroids).astype(int)]
        for _ in range(self.rounds):
            member = np.eye(self.centroids, dtype=np.float32)[(page @ centers.T).argmax(axis=1)]
            counts = member.sum(axis=0)
            means = member.T @ page / np.maximum(counts, 1)[:, None]
            centers = np.where(counts[:, None] > 0, means, centers).astype(np.float32)
        return centers
