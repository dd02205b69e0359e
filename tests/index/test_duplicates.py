from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medvrag_core.encoders.minilm import unit_rows
from medvrag_core.encoders.shards import starts
from medvrag_core.encoders.vectors import ShardVectors
from medvrag_core.index import duplicates
from medvrag_core.index.duplicates import near_duplicates


class Shards(SimpleNamespace):
    """As much of a store as the search for near duplicates looks at."""

    def __len__(self) -> int:
        return len(self.page_ids)


def made_store(pages: list[Any], shard: int) -> Any:
    def each_shard() -> Any:
        for first in range(0, len(pages), shard):
            part = pages[first : first + shard]
            yield ShardVectors(first, np.concatenate(part), starts(np.array([len(page) for page in part])))

    return Shards(page_ids=tuple(f"p{k}" for k in range(len(pages))), each_shard=each_shard)


def slow_reference(pages: list[Any], threshold: float) -> list[tuple[str, str]]:
    means = [unit_rows(page.sum(axis=0, keepdims=True))[0] for page in pages]
    kept: list[int] = []
    pairs = []
    for page, mean in enumerate(means):
        twin = next((other for other in kept if float(means[other] @ mean) > threshold), None)
        if twin is None:
            kept.append(page)
        else:
            pairs.append((f"p{twin}", f"p{page}"))
    return pairs


@settings(max_examples=80, deadline=None)
@given(
    kinds=st.lists(st.integers(0, 4), min_size=1, max_size=30),
    shard=st.integers(1, 7),
    block=st.integers(1, 6),
    seed=st.integers(0, 2**32 - 1),
)
def test_pairs_are_those_of_the_slow_way_however_the_pages_are_cut(
    kinds: list[int], shard: int, block: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    bases = [unit_rows(rng.normal(size=(3, 6)).astype(np.float32)) for _ in range(5)]
    pages = [unit_rows(bases[kind] + rng.normal(scale=0.03, size=(3, 6)).astype(np.float32)) for kind in kinds]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duplicates, "_PAGES_AT_ONCE", block)
        found = near_duplicates(made_store(pages, shard), 0.97)
    assert [(pair.kept, pair.left_out) for pair in found] == slow_reference(pages, 0.97)
    assert all(pair.cosine > 0.97 - 1e-6 for pair in found)


def test_the_earliest_page_stays_and_a_threshold_of_one_leaves_nothing_out() -> None:
    page = unit_rows(np.ones((2, 4), dtype=np.float32))
    store = made_store([page, page, page], 2)
    assert [(pair.kept, pair.left_out) for pair in near_duplicates(store, 0.97)] == [("p0", "p1"), ("p0", "p2")]
    assert near_duplicates(store, 1.0) == []
