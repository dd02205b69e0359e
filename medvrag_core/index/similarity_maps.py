"""Where the score of a page comes from: S(q, p) taken apart by query word and by patch, so that the parts add up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from medvrag_core.index.maxsim import row_weights
from medvrag_core.records import PageVectors

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ScoreParts:
    """The two halves of S(q, p) (paper section 3.2) of one query on one page.

    Attributes
    ----------
    similarity : float64, shape (m, n), direction of each query row with each vector of the page
    weights : shape (m,), lengths of the query rows, their weights in the forward half
    vector_of : int64, shape (p,), the vector that speaks for each patch
    backward_weight : of the backward half (paper: 1)
    """

    similarity: Floats
    weights: Floats
    vector_of: NDArray[np.int64]
    backward_weight: float = 1.0

    @property
    def forward(self) -> Floats:
        """Part that each query row adds by its best vector, shape (m,)."""
        return np.asarray(self.weights * self.similarity.max(axis=1) / self.similarity.shape[0])

    @property
    def backward(self) -> Floats:
        """Part that each vector adds by its best query row, shape (n,)."""
        return np.asarray(self.backward_weight * self.similarity.max(axis=0) / self.similarity.shape[1])

    @property
    def score(self) -> float:
        """S(q, p)."""
        return float(self.forward.sum() + self.backward.sum())

    @property
    def best_vectors(self) -> NDArray[np.intp]:
        """The vector that answers each query row best, shape (m,)."""
        return np.asarray(self.similarity.argmax(axis=1))

    @property
    def backward_of_rows(self) -> Floats:
        """The backward half by the query row that won each vector, shape (m,)."""
        rows = self.similarity.shape[0]
        return np.bincount(self.similarity.argmax(axis=0), weights=self.backward, minlength=rows).astype(np.float64)

    @property
    def of_rows(self) -> Floats:
        """All that each query row adds to the score, shape (m,), sum S."""
        return self.forward + self.backward_of_rows

    @property
    def of_patches(self) -> Floats:
        """All that each patch adds to the score, shape (p,), sum S; patches of one vector share its part evenly."""
        vectors = self.similarity.shape[1]
        parts = self.backward + np.bincount(self.best_vectors, weights=self.forward, minlength=vectors)
        return np.asarray((parts / np.bincount(self.vector_of, minlength=vectors))[self.vector_of])

    @property
    def row_maps(self) -> Floats:
        """Similarity of each query row with the vector of each patch, shape (m, p)."""
        return self.similarity[:, self.vector_of]

    @property
    def page_map(self) -> Floats:
        """Best similarity of each patch with any query row, shape (p,): the backward half before it is averaged."""
        return np.asarray(self.similarity.max(axis=0)[self.vector_of])

    def best_patches(self, row: int) -> NDArray[np.intp]:
        """The patches whose vector answers a query row best; several where vectors were pooled."""
        return np.flatnonzero(self.vector_of == self.best_vectors[row])


def score_parts(query: NDArray[np.float32], page: PageVectors, *, backward_weight: float = 1.0) -> ScoreParts:
    """Take S(q, p) apart; :func:`~medvrag_core.index.maxsim.two_way_score` is what the parts add up to.

    Parameters
    ----------
    query : float32, shape (m, d), m >= 1
    page : its vectors are of width d
    backward_weight : as in the settings of the index

    Examples
    --------
    >>> page = PageVectors("a#p1", np.eye(2, dtype=np.float32), np.zeros((3, 4), np.float32), np.array([0, 1, 1]))
    >>> parts = score_parts(np.array([[1.0, 0.0]], dtype=np.float32), page)
    >>> parts.score, parts.of_rows.tolist(), parts.of_patches.tolist()
    (1.5, [1.5], [1.5, 0.0, 0.0])
    """
    weights = row_weights(query).astype(np.float64)
    similarity = (query @ page.vectors.T).astype(np.float64) / weights[:, None]
    return ScoreParts(similarity, weights, page.vector_of, backward_weight)
