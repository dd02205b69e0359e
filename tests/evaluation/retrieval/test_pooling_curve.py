from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from medvrag_core.encoders.minilm import unit_rows
from medvrag_core.encoders.storage import bytes_a_vector
from medvrag_core.errors import InputError
from medvrag_core.evaluation.retrieval.pooling_curve import (
    PoolingCurve,
    exact_rankings,
    pooled,
    pooled_maps,
    pooling_curve,
    unpooled_pages,
)
from medvrag_core.evaluation.retrieval.retrievers import as_queries, gold_pages
from medvrag_core.index.maxsim import patch_scores, two_way_score
from medvrag_core.profiles.load import load_profile
from medvrag_core.records import PageVectors, Question
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.resources import Resources


def made_page(patches: int, seed: int = 0, width: int = 8) -> PageVectors:
    vectors = unit_rows(np.random.default_rng(seed).standard_normal((patches, width)).astype(np.float32))
    return PageVectors("a#p1", vectors, np.zeros((patches, 4), np.float32), np.arange(patches))


@settings(deadline=None)
@given(patches=st.integers(1, 50), at_most=st.integers(1, 60), seed=st.integers(0, 99))
@pytest.mark.parametrize("way", ["similarity", "position"])
def test_both_ways_keep_the_patches_and_give_unit_means(way: str, patches: int, at_most: int, seed: int) -> None:
    page = made_page(patches, seed)
    made = pooled(page, way, at_most)  # type: ignore[arg-type]
    assert made.boxes is page.boxes and len(made.vector_of) == patches
    assert 1 <= len(made.vectors) <= min(patches, at_most)
    for row, vector in enumerate(made.vectors):
        members = page.vectors[made.vector_of == row]
        assert len(members)
        assert np.allclose(vector, members.sum(axis=0) / np.linalg.norm(members.sum(axis=0)), atol=1e-3)
    if at_most >= patches:
        assert np.allclose(made.vectors, page.vectors, atol=1e-6)


def test_position_merges_neighbors_into_runs_of_about_one_length() -> None:
    made = pooled(made_page(50), "position", 12)
    assert (np.diff(made.vector_of) >= 0).all()
    assert set(np.bincount(made.vector_of)) == {4, 5}


def test_patches_that_were_pooled_before_follow_their_vector() -> None:
    page = made_page(4)
    page = PageVectors("a#p1", page.vectors, np.zeros((6, 4), np.float32), np.array([0, 0, 1, 2, 3, 3]))
    assert pooled(page, "position", 2).vector_of.tolist() == [0, 0, 0, 1, 1, 1]


def test_maps_of_one_page_start_without_pooling_and_agree_by_rank() -> None:
    page, query = made_page(60), made_page(5, seed=9).vectors
    first, *others = pooled_maps(query, page, (20, 3), backward=0.25)
    assert (first.name, first.vectors, first.agreement) == ("unpooled", 60, pytest.approx(1.0))
    assert [made.name for made in others] == ["similarity 20", "similarity 3", "position 20", "position 3"]
    for made in others:
        way, at_most = made.name.split()
        after = pooled(page, way, int(at_most))  # type: ignore[arg-type]
        assert made.vectors == len(after.vectors)
        assert np.allclose(made.values, patch_scores(query, after.vectors)[after.vector_of])
        assert made.score == pytest.approx(two_way_score(query, after.vectors, backward=0.25))
        assert made.agreement == pytest.approx(spearmanr(first.values, made.values).statistic)
    assert others[0].agreement > others[1].agreement


def test_a_map_without_contrast_agrees_with_nothing_but_its_like() -> None:
    page, query = made_page(10), made_page(2, seed=9).vectors
    assert pooled_maps(query, page, (1,))[1].agreement == 0.0
    assert pooled_maps(query, made_page(1), (1,))[1].agreement == 1.0


@pytest.mark.parametrize("backward", [0.0, 1.0, 5.0])
def test_pages_are_ranked_by_their_exact_scores(backward: float) -> None:
    pages = [replace(made_page(4 + k, seed=k), page_id=f"p{k:02}") for k in range(15)]
    rows = {q: made_page(3, seed=50 + q).vectors for q in range(5)}
    found = exact_rankings(pages, {str(q): query for q, query in rows.items()}, backward=backward)
    for q, query in rows.items():
        scores = {page.page_id: two_way_score(query, page.vectors, backward=backward) for page in pages}
        assert [hit.page_id for hit in found[str(q)]] == sorted(scores, key=lambda page: -scores[page])[:10]


@pytest.fixture(scope="module")
def resources(made_run: Workspace) -> Resources:
    return Resources(made_run, load_profile("test"))


@pytest.fixture(scope="module")
def curve(resources: Resources, made_questions: list[Question]) -> PoolingCurve:
    return pooling_curve(resources, as_queries(made_questions), gold_pages(made_questions), (8, 2))


def test_the_curve_counts_vectors_and_bytes_of_what_was_pooled(resources: Resources, curve: PoolingCurve) -> None:
    names = ["unpooled", "as stored", "similarity 8", "similarity 2", "position 8", "position 2"]
    assert [row.name for row in curve.rows] == names
    rows = {row.name: row for row in curve.rows}
    words = [len(resources.store.layout(page_id).words) for page_id in resources.vectors.page_ids]
    assert rows["unpooled"].vectors_per_page == np.mean(words)
    assert rows["position 2"].vectors_per_page == rows["similarity 2"].vectors_per_page == 2
    assert rows["as stored"].vectors_per_page == len(resources.vectors.vectors) / len(resources.vectors)
    assert rows["position 8"].bytes_per_page == 8 * bytes_a_vector(
        resources.encoder.dim, resources.profile.encoder.storage
    )
    assert (curve.pages, curve.of_pages, curve.questions) == (5, 5, 3)


def test_maps_agree_fully_without_pooling_and_less_with_fewer_vectors(curve: PoolingCurve) -> None:
    rows = {row.name: row for row in curve.rows}
    unpooled = rows["unpooled"]
    assert unpooled.agreement is not None and unpooled.agreement.value == pytest.approx(1.0)
    assert unpooled.patches_behind_best == 1
    for way in ("similarity", "position"):
        many, few = rows[f"{way} 8"], rows[f"{way} 2"]
        assert many.agreement is not None and few.agreement is not None
        assert 1 > many.agreement.value > few.agreement.value
        assert many.agreement.low <= many.agreement.value <= many.agreement.high
        assert many.patches_behind_best is not None and few.patches_behind_best is not None
        assert 1 < many.patches_behind_best < few.patches_behind_best
    assert rows["as stored"].agreement is None, "its patches may be others"


def test_every_size_is_tested_against_unpooled_and_the_ways_against_each_other(curve: PoolingCurve) -> None:
    pairs = [(test.a, test.b) for test in curve.paired]
    assert pairs == [
        *(("unpooled", row.name) for row in curve.rows[1:]),
        ("position 8", "similarity 8"),
        ("position 2", "similarity 2"),
    ]
    assert {test.family for test in curve.paired} == {len(pairs)}
    assert [(test.a, test.b) for test in curve.paired_maps] == pairs[-2:]
    assert {(test.family, test.metric) for test in curve.paired_maps} == {(2, "agreement of maps")}
    assert {test.metric for test in curve.paired} == {"nDCG@10"}
    means = {row.name: row.ndcg_at_10.value for row in curve.rows}
    for test in curve.paired:
        assert (test.mean_a, test.mean_b) == pytest.approx((means[test.a], means[test.b]))
    maps = {row.name: row.agreement.value for row in curve.rows if row.agreement}
    for test in curve.paired_maps:
        assert (test.mean_a, test.mean_b) == pytest.approx((maps[test.a], maps[test.b]))


def test_a_large_corpus_is_cut_to_gold_pages_and_others(resources: Resources, made_questions: list[Question]) -> None:
    queries, gold = as_queries(made_questions), gold_pages(made_questions)
    cut = pooling_curve(resources, queries, gold, (4,), most_pages=4)
    assert (cut.pages, cut.of_pages, cut.questions) == (4, 5, 3)
    fewer = pooling_curve(resources, queries, gold, (4,), most_pages=2)
    assert (fewer.pages, fewer.questions) == (2, 2), "questions whose gold page was cut are left out"


def test_pages_judged_not_relevant_are_no_gold_pages(
    resources: Resources, made_questions: list[Question], curve: PoolingCurve
) -> None:
    gold = {q: pages | {"gout#p2": 0} if "asthma" in q else pages for q, pages in gold_pages(made_questions).items()}
    again = pooling_curve(resources, as_queries(made_questions), gold, (8, 2))
    assert again == curve


def test_without_gold_pages_there_is_nothing_to_measure(resources: Resources, made_questions: list[Question]) -> None:
    with pytest.raises(InputError, match="no query has a gold page"):
        pooling_curve(resources, as_queries(made_questions), {})


def test_unpooled_pages_are_those_of_the_run_before_any_pooling(resources: Resources) -> None:
    wanted = resources.vectors.page_ids[2]
    (page,) = unpooled_pages(resources, [wanted])
    assert page.page_id == wanted
    assert len(page.vectors) == len(page.boxes) == len(resources.store.layout(page.page_id).words)
