"""C spherical k-means centroids a page (paper section 3.2), seeded and page-local."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_ROUNDS = 12


def page_centroids(vectors: NDArray[np.float32], count: int, seed: int) -> NDArray[np.float32]:
    """Unit centroids of one page's vectors under cosine similarity.

    Parameters
    ----------
    vectors : float32, shape (n, d), unit rows
    count : C; a page with fewer vectors keeps them all as its centroids
    seed : together with the page alone decides the result, so pages can be added in any order

    Returns
    -------
    float32, shape (min(C, n), d), unit rows. Means of unit vectors are shorter than 1, and the more
    so the more diverse a region is; without re-normalizing, such regions would be ranked down.
    """
    n = len(vectors)
    if n <= count:
        return vectors.astype(np.float32, copy=True)
    rng = np.random.default_rng(seed)
    centers = vectors[_spread_out(vectors, count, rng)]
    for _ in range(_ROUNDS):
        nearest = (vectors @ centers.T).argmax(axis=1)
        sums = np.zeros_like(centers)
        np.add.at(sums, nearest, vectors)
        empty = np.bincount(nearest, minlength=count) == 0
        if empty.any():
            # An empty cell takes the vector that is served worst.
            worst = np.argsort((vectors * centers[nearest]).sum(axis=1))[: int(empty.sum())]
            sums[empty] = vectors[worst]
        fresh = _unit(sums)
        if np.allclose(fresh, centers, atol=1e-6):
            break
        centers = fresh
    return centers.astype(np.float32)


def _spread_out(vectors: NDArray[np.float32], count: int, rng: np.random.Generator) -> list[int]:
    """k-means++ seeding under cosine distance."""
    chosen = [int(rng.integers(len(vectors)))]
    distance = 1.0 - vectors @ vectors[chosen[0]]
    for _ in range(count - 1):
        weight = np.clip(distance, 0.0, None).astype(np.float64)
        total = weight.sum()
        pick = int(rng.choice(len(vectors), p=weight / total)) if total > 0 else int(rng.integers(len(vectors)))
        chosen.append(pick)
        distance = np.minimum(distance, 1.0 - vectors @ vectors[pick])
    return chosen


def _unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: NDArray[np.float32] = rows / np.maximum(length, 1e-12)
    return unit
