"""The embedding of one page, the one record that holds arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class PageVectors:
    """Multi-vector embedding of one page.

    Attributes
    ----------
    page_id : the page
    vectors : float32, shape (n, d), rows of unit length, n >= 1
    boxes : float32, shape (p, 4), one a patch, p >= n (see ``Box``)
    vector_of : int64, shape (p,), the row of ``vectors`` that speaks for each patch; 0, 1, 2, ... where nothing was
        pooled
    """

    page_id: str
    vectors: NDArray[np.float32]
    boxes: NDArray[np.float32]
    vector_of: NDArray[np.int64]
