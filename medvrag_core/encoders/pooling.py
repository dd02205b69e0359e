"""Fewer vectors a page: patches that say the same thing become one.

The paper says "about 103 vectors a page" (section 3.1) and not how. ColQwen2.5 gives a letter or A4 page some 740
whatever its resolution; merging seven to one on average leaves 105 or 106. A cap of about 103 visual tokens would too,
but would leave the text unreadable, so pooling is taken for what was meant.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from medvrag_core.encoders.minilm import unit_rows


@dataclass(frozen=True)
class Pooled:
    """What is left after pooling n patches to k clusters.

    Attributes
    ----------
    vectors : float32, shape (k, d), unit rows, mean direction of each cluster
    vector_of : int64, shape (n,), the row of ``vectors`` that each patch went into
    """

    vectors: NDArray[np.float32]
    vector_of: NDArray[np.int64]


def pool_by_factor(vectors: NDArray[np.float32], factor: int) -> Pooled:
    """Merge the vectors of one page as colpali-engine's ``HierarchicalTokenPooler`` does, ``factor`` to one on average.

    That one clusters by Ward's method on the rows of the matrix of all similarities, which have as many entries as the
    page has patches. Their distances are those of the patches themselves under the metric ``V'V``, so that the same
    clusters are found on rows no wider than the vectors are, in a fraction of the time.

    Parameters
    ----------
    vectors : float32, shape (n, d), n >= 1, unit rows
    factor : at most ``n // factor`` vectors are left, and at least one; 1 merges nothing

    Examples
    --------
    >>> v = np.array([[1, 0], [0, 1], [1, 0], [0, 1]], dtype=np.float32)
    >>> pool_by_factor(v, 2).vector_of.tolist()
    [0, 1, 0, 1]
    """
    rows = vectors.astype(np.float64)
    squares, axes = np.linalg.eigh(rows.T @ rows)
    profiles = rows @ (axes * np.sqrt(np.maximum(squares, 0)))
    return _pool(vectors, max(1, len(vectors) // factor), profiles)


def pool_vectors(vectors: NDArray[np.float32], at_most: int) -> Pooled:
    """Merge the vectors of one page by Ward's method until ``at_most`` are left.

    Clusters are numbered by their first patch, so that the order of reading survives. With
    ``at_most`` patches or fewer nothing is merged.

    Parameters
    ----------
    vectors : float32, shape (n, d), n >= 1, unit rows
    at_most : k >= 1

    Examples
    --------
    >>> v = np.array([[1, 0], [0, 1], [1, 0]], dtype=np.float32)
    >>> pool_vectors(v, 2).vector_of.tolist()
    [0, 1, 0]
    """
    return _pool(vectors, at_most, vectors.astype(np.float64))


def _pool(vectors: NDArray[np.float32], at_most: int, points: NDArray[np.float64]) -> Pooled:
    """Merge the vectors whose ``points`` lie together, float64, shape (n, anything)."""
    if at_most < 1 or not len(vectors):
        raise ValueError(f"cannot pool {len(vectors)} vectors to {at_most}")
    labels = np.arange(len(vectors))
    if len(vectors) > at_most:
        from scipy.cluster.hierarchy import fcluster, ward

        labels = fcluster(ward(points), at_most, criterion="maxclust")
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    vector_of = rank[inverse].astype(np.int64)
    clusters = len(order)
    sums = np.zeros((clusters, vectors.shape[1]), dtype=np.float32)
    np.add.at(sums, vector_of, vectors)
    # Opposite vectors can cancel out; their cluster then speaks with its first patch.
    empty = np.linalg.norm(sums, axis=1) < 1e-6
    sums[empty] = vectors[first[order]][empty]
    return Pooled(unit_rows(sums), vector_of)
