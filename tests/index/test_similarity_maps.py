from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medvrag_core.encoders.base import PageEncoder
from medvrag_core.encoders.minilm import unit_rows
from medvrag_core.encoders.pooling import pool_vectors
from medvrag_core.index.maxsim import patch_scores, two_way_score
from medvrag_core.index.similarity_maps import score_parts
from medvrag_core.profiles.load import load_profile
from medvrag_core.records import PageVectors
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.resources import Resources


def rows(count: int, seed: int, width: int = 8) -> np.ndarray:
    return unit_rows(np.random.default_rng(seed).standard_normal((count, width)).astype(np.float32))


def made_page(patches: int, at_most: int, seed: int) -> PageVectors:
    pooled = pool_vectors(rows(patches, seed), at_most)
    return PageVectors("a#p1", pooled.vectors, np.zeros((patches, 4), np.float32), pooled.vector_of)


@settings(deadline=None)
@given(words=st.integers(1, 12), patches=st.integers(1, 40), at_most=st.integers(1, 45), seed=st.integers(0, 999))
def test_parts_by_word_and_by_patch_add_up_to_the_score(words: int, patches: int, at_most: int, seed: int) -> None:
    query, page = rows(words, seed), made_page(patches, at_most, seed + 1)
    parts = score_parts(query, page)
    score = pytest.approx(two_way_score(query, page.vectors), abs=1e-5)
    assert [parts.score, parts.of_rows.sum(), parts.of_patches.sum()] == [score] * 3
    weighted = query * np.arange(1, words + 1, dtype=np.float32)[:, None]
    part = score_parts(weighted, page, backward_weight=0.3)
    score = pytest.approx(two_way_score(weighted, page.vectors, backward=0.3), abs=1e-5)
    assert [part.score, part.of_rows.sum(), part.of_patches.sum()] == [score] * 3
    assert np.allclose(part.page_map, patch_scores(weighted, page.vectors)[page.vector_of], atol=1e-6)
    assert parts.forward.sum() == pytest.approx(np.mean([max(q @ v for v in page.vectors) for q in query]), abs=1e-5)
    assert parts.backward.sum() == pytest.approx(np.mean([max(q @ v for q in query) for v in page.vectors]), abs=1e-5)
    assert parts.backward_of_rows.sum() == pytest.approx(parts.backward.sum())
    assert len(parts.of_patches) == parts.row_maps.shape[1] == patches
    assert np.allclose(parts.page_map, patch_scores(query, page.vectors)[page.vector_of], atol=1e-6)


@settings(deadline=None)
@given(words=st.integers(1, 6), patches=st.integers(1, 30), at_most=st.integers(1, 30), seed=st.integers(0, 999))
def test_the_best_patches_of_a_word_are_those_of_its_best_vector(
    words: int, patches: int, at_most: int, seed: int
) -> None:
    query, page = rows(words, seed), made_page(patches, at_most, seed + 1)
    parts = score_parts(query, page)
    for row in range(words):
        best = parts.best_patches(row)
        assert len(best) >= 1
        assert (parts.row_maps[row][best] == parts.row_maps[row].max()).all()
        assert len({int(page.vector_of[patch]) for patch in best}) == 1
        assert len(best) == (page.vector_of == page.vector_of[best[0]]).sum()


def test_a_patch_gets_what_its_vector_adds_shared_among_the_patches_of_the_vector() -> None:
    # Two words, two vectors; both words find vector 0 best, vector 1 is best answered by word 1.
    query = np.array([[1.0, 0.0], [0.8, 0.6]], dtype=np.float32)
    page = PageVectors("a#p1", np.eye(2, dtype=np.float32), np.zeros((3, 4), np.float32), np.array([0, 1, 0]))
    parts = score_parts(query, page)
    assert parts.forward == pytest.approx([0.5, 0.4])
    assert parts.backward == pytest.approx([0.5, 0.3])
    assert parts.of_rows == pytest.approx([0.5 + 0.5, 0.4 + 0.3])
    assert parts.of_patches == pytest.approx([(0.9 + 0.5) / 2, 0.3, (0.9 + 0.5) / 2])


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_on_a_real_run_the_parts_add_up_to_what_the_index_gives(made_run: Workspace, weight: float) -> None:
    resources = Resources(made_run, load_profile("test", {"index.backward_weight": weight}))
    encoder: PageEncoder = resources.encoder
    text = "At which daily dose is allopurinol started?"
    query, words = encoder.encode_query(text), encoder.query_words(text)
    assert len(words) == len(query)
    for search in (resources.index, resources.exact_index):
        hits = search.search(query, 5).hits
        assert len(hits) == 5
        for hit in hits:
            parts = score_parts(query, resources.vectors.page(hit.page_id), backward_weight=weight)
            assert parts.of_rows.sum() == pytest.approx(hit.score, abs=1e-5)
            assert parts.of_patches.sum() == pytest.approx(hit.score, abs=1e-5)
