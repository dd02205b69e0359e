"""Near-duplicate pages by the cosine of their mean vectors (paper section 3.1).

The paper says "cosine similarity > 0.97" of a multi-vector encoder without saying which single
cosine is meant; the mean of a page's vectors is our reading. Every pair is reported, since two
pages that differ in one dose look alike to an encoder.
"""

from __future__ import annotations

import numpy as np

from medvrag_core.encoders.vectors import VectorStore
from medvrag_core.records import Record

_ROWS_AT_ONCE = 2_048


class DuplicatePair(Record):
    """``left_out`` lies closer to the earlier page ``kept`` than the threshold."""

    kept: str
    left_out: str
    cosine: float


def near_duplicates(store: VectorStore, threshold: float) -> list[DuplicatePair]:
    """Pairs above ``threshold``; the earlier page stays, a page left out drops no other page.

    A threshold of 1.0 or more leaves nothing out.
    """
    if threshold >= 1.0:
        return []
    sums = np.add.reduceat(store.vectors, store.offsets[:-1].astype(np.intp), axis=0)
    means = sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12)
    pairs: list[DuplicatePair] = []
    gone: set[int] = set()
    for start in range(0, len(store), _ROWS_AT_ONCE):
        cosine = means[start : start + _ROWS_AT_ONCE] @ means.T
        for later, earlier in zip(*np.nonzero(cosine > threshold), strict=True):
            page, other = int(later) + start, int(earlier)
            if other >= page or other in gone or page in gone:
                continue
            gone.add(page)
            pairs.append(
                DuplicatePair(
                    kept=store.page_ids[other], left_out=store.page_ids[page], cosine=float(cosine[later, earlier])
                )
            )
    return pairs
