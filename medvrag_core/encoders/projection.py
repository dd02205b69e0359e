"""Fewer dimensions a vector: a projection learned from a sample of pages and applied to pages and queries alike.

The paper says that it reduces vectors "from 768 to 128 by PCA" (section 3.1). ColQwen2.5 has no output of 768: its own
width is 128, so that a PCA to 128 is a rotation, which changes no score. The setting ``encoder.pca_dim`` therefore is 0
(none) by default; smaller widths trade quality for space.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from medvrag_core.encoders.minilm import unit_rows
from medvrag_core.errors import InputError, NotBuiltError

_FILE = "projection.npy"


class Projection:
    """The directions in which a sample of vectors has most of its length.

    Scores are sums of dot products, so the vectors are not centered: of all projections to ``k`` dimensions this one
    loses least of the dot products within the sample, and none when ``k`` is the full width.

    Attributes
    ----------
    directions : float32, shape (d, k), orthonormal columns
    """

    def __init__(self, directions: NDArray[np.float32]) -> None:
        self.directions = directions

    @classmethod
    def fit(cls, sample: NDArray[np.float32], width: int) -> Projection:
        """Learn from ``sample``, float32, shape (n, d); InputError where it cannot tell ``width`` directions apart."""
        if not width <= min(sample.shape):
            raise InputError(
                f"{sample.shape[0]} vectors of {sample.shape[1]} dimensions cannot be projected to {width}",
                way_out="set encoder.pca_dim to a smaller number, or to 0 for none",
            )
        rows = sample.astype(np.float64)
        _, directions = np.linalg.eigh(rows.T @ rows)
        best = directions[:, ::-1][:, :width]
        # An eigenvector may come with either sign; the largest entry is made positive, so that a fit can be repeated.
        signs = np.sign(best[np.abs(best).argmax(axis=0), np.arange(width)])
        return cls((best * signs).astype(np.float32))

    def __call__(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Project rows, float32, shape (n, d) to (n, k), and give them unit length again."""
        return unit_rows(vectors @ self.directions)

    def save(self, folder: Path) -> None:
        """Write the directions as a plain array."""
        np.save(folder / _FILE, self.directions)

    @classmethod
    def load(cls, folder: Path, *, shape: tuple[int, int]) -> Projection:
        """Read what :meth:`save` wrote.

        Raises
        ------
        NotBuiltError : there is none
        InputError : the file is damaged, or of another shape
        """
        file = folder / _FILE
        if not file.is_file():
            raise NotBuiltError(f"{file}: no projection", way_out="delete the vectors and build them again")
        try:
            directions = np.load(file, allow_pickle=False)
        except ValueError as error:
            raise InputError(f"{file}: is damaged ({error})", way_out="build the vectors again") from None
        if directions.shape != shape or directions.dtype != np.float32 or not np.isfinite(directions).all():
            raise InputError(f"{file}: is no projection of shape {shape}", way_out="build the vectors again")
        return cls(directions)
