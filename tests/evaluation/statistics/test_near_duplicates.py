from __future__ import annotations

import gzip
import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medvrag_core.evaluation.statistics.near_duplicates import near_duplicates, stem_clusters

WORDS = st.lists(st.sampled_from(["pain", "fever", "Drug", "drug", "of", "choice"]), max_size=7).map(" ".join)


def slowly(texts: list[str], threshold: float) -> set[frozenset[int]]:
    """Chains of similar pairs, pair by pair."""

    def triples(text: str) -> set[tuple[str, ...]]:
        words = text.lower().split()
        return {tuple(words[i : i + 3]) for i in range(len(words) - 2)} or {tuple(words)}

    groups = [{i} for i in range(len(texts))]
    for i, j in itertools.combinations(range(len(texts)), 2):
        a, b = triples(texts[i]), triples(texts[j])
        if len(a & b) / len(a | b) >= threshold:
            joined = next(g for g in groups if i in g) | next(g for g in groups if j in g)
            groups = [g for g in groups if not g & joined] + [joined]
    return {frozenset(g) for g in groups}


def groups_of(clusters: np.ndarray) -> set[frozenset[int]]:
    return {frozenset(np.flatnonzero(clusters == number).tolist()) for number in set(clusters.tolist())}


@settings(max_examples=60, deadline=None)
@given(st.lists(WORDS, min_size=1, max_size=12), st.sampled_from([0.5, 0.8, 1.0]))
def test_agrees_with_comparing_pair_by_pair(texts: list[str], threshold: float) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("medvrag_core.evaluation.statistics.near_duplicates._ROWS", 5)
        found = near_duplicates(texts, threshold=threshold)
    assert groups_of(found) == slowly(texts, threshold)
    turned = near_duplicates(texts[::-1], threshold=threshold)
    assert groups_of(turned[::-1]) == groups_of(found)


def test_case_and_punctuation_do_not_part_texts_and_numbers_do() -> None:
    texts = ["A 24-year-old man has fever.", "a 24 year old man has fever", "A 34-year-old man has fever."]
    assert near_duplicates(texts).tolist() == [0, 0, 1]
    counts = stem_clusters(near_duplicates(texts))
    assert (counts.questions, counts.clusters, counts.repeated, counts.largest) == (3, 2, 2, 2)
    assert near_duplicates([]).tolist() == []


def test_the_four_sets_of_mirage(shared_data: Path) -> None:
    packed = (shared_data / "benchmarks" / "mirage" / "benchmark.json.gz").read_bytes()
    sets = json.loads(gzip.decompress(packed))
    stems = [q["question"] for name in ("medqa", "medmcqa", "pubmedqa", "mmlu") for q in sets[name].values()]
    found = stem_clusters(near_duplicates(stems))
    assert found.questions == 7045
    # 197 questions repeat another's words exactly; a few dozen more are nearly the same, and no chain grows long.
    assert 197 <= found.repeated < 300 and 4 <= found.largest <= 6
    assert found.clusters == pytest.approx(6930, abs=25)
