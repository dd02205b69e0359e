"""Parts of a question set that depend on nothing but the ids, so that they are the same in every run and arm."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray


def folds_of(question_ids: Iterable[str], folds: int) -> NDArray[np.intp]:
    """Number of the part that every question is in, by the hash of its id; shape (n,), values from 0.

    >>> folds_of(["hcq-01", "hcq-02", "gout-01"], 2).tolist()
    [0, 1, 0]
    """
    digests = (hashlib.sha256(i.encode()).digest() for i in question_ids)
    return np.array([int.from_bytes(digest[:8], "big") % folds for digest in digests], dtype=np.intp)
