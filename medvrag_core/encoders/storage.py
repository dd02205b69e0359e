"""How vectors are kept on disk: as they are, at half precision, or as whole numbers of one byte."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medvrag_core.settings import Storage

_LARGEST = 127


@dataclass(frozen=True)
class Stored:
    """Vectors in the form in which they are kept.

    Attributes
    ----------
    vectors : float32, float16 or int8, shape (n, d)
    scales : float32, shape (n,), what each row of int8 is multiplied with; None for the others
    """

    vectors: NDArray[Any]
    scales: NDArray[np.float32] | None = None


def pack(vectors: NDArray[np.float32], storage: Storage) -> Stored:
    """Vectors for the disk.

    An entry of float16 is off by at most 2^-11 of itself. For int8 each row is stretched so that its largest entry
    becomes 127 or -127 and rounded: an entry is off by at most half a step, ``max |row| / 254``, so the product with
    a unit vector by at most ``sqrt(d) * max |row| / 254``.

    Parameters
    ----------
    vectors : float32, shape (n, d)

    Examples
    --------
    >>> pack(np.array([[0.6, -0.8]], dtype=np.float32), "int8").vectors.tolist()
    [[95, -127]]
    """
    if storage != "int8":
        return Stored(vectors.astype(storage))
    peak = np.abs(vectors).max(axis=1)
    scales = np.where(peak > 0, peak / _LARGEST, 1.0).astype(np.float32)
    return Stored(np.rint(vectors / scales[:, None]).clip(-_LARGEST, _LARGEST).astype(np.int8), scales)


def unpack(stored: Stored) -> NDArray[np.float32]:
    """Vectors to compute with, float32, shape (n, d)."""
    vectors: NDArray[np.float32] = stored.vectors.astype(np.float32)
    if stored.scales is not None:
        vectors *= stored.scales[:, None]
    return vectors


def bytes_a_vector(dim: int, storage: Storage) -> int:
    """Bytes that one vector takes.

    >>> bytes_a_vector(128, "float16"), bytes_a_vector(128, "int8")
    (256, 132)
    """
    stored = pack(np.zeros((1, dim), dtype=np.float32), storage)
    return int(stored.vectors.nbytes + (0 if stored.scales is None else stored.scales.nbytes))
