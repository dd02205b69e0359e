"""Near-duplicate pages by the cosine of their mean vectors (paper section 3.1).

The paper says "cosine similarity > 0.97" of a multi-vector encoder without saying which single
cosine is meant; the mean of a page's vectors is our reading. Every pair is reported, since two
pages that differ in one dose look alike to an encoder.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from medvrag_core.encoders.minilm import unit_rows
from medvrag_core.encoders.vectors import ShardVectors, VectorStore
from medvrag_core.records import Record

_PAGES_AT_ONCE = 2_048


class DuplicatePair(Record):
    """``left_out`` lies closer to the earlier page ``kept`` than the threshold."""

    kept: str
    left_out: str
    cosine: float


def near_duplicates(store: VectorStore, threshold: float, *, without: Collection[str] = ()) -> list[DuplicatePair]:
    """Pairs above ``threshold``; the earliest page stays, a page left out drops no other page.

    A threshold of 1.0 or more leaves nothing out. Memory holds one mean vector a page and a block of cosines.
    Pages ``without`` are passed over, as if they were not there.
    """
    if threshold >= 1.0:
        return []
    means = np.concatenate([_means(shard) for shard in store.each_shard()])
    passed_over = {*without}
    kept: list[int] = []
    pairs: list[DuplicatePair] = []
    for start in range(0, len(store), _PAGES_AT_ONCE):
        block = means[start : start + _PAGES_AT_ONCE]
        twins = _first_above(block, means, kept, threshold)
        within = block @ block.T > threshold
        before = len(kept)
        for row, twin in enumerate(twins):
            page = start + row
            if store.page_ids[page] in passed_over:
                continue
            if twin < 0:
                twin = next((other for other in kept[before:] if within[row, other - start]), -1)
            if twin < 0:
                kept.append(page)
            else:
                cosine = float(means[page] @ means[twin])
                pairs.append(DuplicatePair(kept=store.page_ids[twin], left_out=store.page_ids[page], cosine=cosine))
    return pairs


def _means(shard: ShardVectors) -> NDArray[np.float32]:
    """Mean direction of each page, float32, shape (P, dim), unit rows."""
    return unit_rows(np.add.reduceat(shard.vectors, shard.offsets[:-1].astype(np.intp), axis=0))


def _first_above(
    block: NDArray[np.float32], means: NDArray[np.float32], kept: list[int], threshold: float
) -> list[int]:
    """For each row of ``block`` the first of the ``kept`` pages that is closer than the threshold, or -1."""
    found = np.full(len(block), -1, dtype=np.int64)
    for first in range(0, len(kept), _PAGES_AT_ONCE):
        some = np.array(kept[first : first + _PAGES_AT_ONCE])
        close = block @ means[some].T > threshold
        fresh = close.any(axis=1) & (found < 0)
        found[fresh] = some[close[fresh].argmax(axis=1)]
    twins: list[int] = found.tolist()
    return twins
