"""The three modes beside exhaustive search over vectors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_index import flat, indexed, made_pages, page_ids, paper_index

from medvrag_core.errors import MismatchError
from medvrag_core.index.base import PageIndex
from medvrag_core.index.coarse_to_fine import set_effort
from medvrag_core.index.coded_index import CodedIndex
from medvrag_core.index.exact import ExactIndex
from medvrag_core.index.fast import FastIndex
from medvrag_core.index.ranking import best_places, ranked_hits
from medvrag_core.records import SearchResult
from medvrag_core.settings import IndexSettings

WIDE = {"ann_neighbors": 100_000, "shortlist": 10_000}


def reference(pages: list[np.ndarray], backward: float = 1.0) -> ExactIndex:
    return ExactIndex(page_ids(len(pages)), *flat(pages), backward=backward)


def assert_same(found: SearchResult, wanted: SearchResult) -> None:
    """The same pages in the same order; sums of float32 in another order give other last bits."""
    assert [hit.page_id for hit in found.hits] == [hit.page_id for hit in wanted.hits]
    assert [hit.score for hit in found.hits] == pytest.approx([hit.score for hit in wanted.hits], abs=2e-6)


def modes(pages: list[np.ndarray], folder: Path, **changed: object) -> dict[str, PageIndex]:
    given = IndexSettings(ann="flat", threads=1).model_copy(update=changed)
    return {
        "exact": CodedIndex(indexed(pages, folder / "exact", given)),
        "fast": FastIndex(indexed(pages, folder / "fast", given), given.shortlist),
        "paper": paper_index(pages, folder / "paper", given)[0],
    }


@pytest.mark.parametrize("mode", ["exact", "fast", "paper"])
def test_a_mode_that_looks_at_everything_equals_exhaustive_search(mode: str, tmp_path: Path) -> None:
    pages = made_pages(90)
    index = modes(pages, tmp_path, **WIDE)[mode]
    for seed in range(3):
        query = made_pages(1, seed=seed + 7)[0][:9]
        assert_same(index.search(query, 90), reference(pages).search(query, 90))


@pytest.mark.parametrize("mode", ["exact", "fast", "paper"])
def test_a_page_finds_itself_in_every_mode(mode: str, tmp_path: Path) -> None:
    pages = made_pages(120)
    narrow = {"ann_neighbors": 50, "shortlist": 30, "rescore": 5}
    index = modes(pages, tmp_path, **narrow)[mode]
    for k in (0, 17, 119):
        assert index.search(pages[k], 1).hits[0].page_id == page_ids(120)[k]


@pytest.mark.parametrize(("mode", "setting"), [("fast", "shortlist"), ("paper", "shortlist")])
def test_recall_grows_with_what_is_looked_at(mode: str, setting: str, tmp_path: Path) -> None:
    pages = made_pages(150)
    queries = [made_pages(1, seed=seed)[0][:6] for seed in range(20, 32)]
    truth = [{h.page_id for h in reference(pages).search(query, 20).hits} for query in queries]
    found = []
    for size in (20, 60, 150):
        index = modes(pages, tmp_path / str(size), **WIDE | {setting: size})[mode]
        found.append(
            sum(
                len(wanted & {h.page_id for h in index.search(q, 20).hits})
                for q, wanted in zip(queries, truth, strict=True)
            )
        )
    assert found[0] < found[1] <= found[2] == 20 * len(queries)


def test_the_steps_are_timed(tmp_path: Path) -> None:
    query = made_pages(1)[0][:3]
    steps = {
        mode: [t.step for t in index.search(query, 5).times] for mode, index in modes(made_pages(20), tmp_path).items()
    }
    assert steps == {"exact": ["exact"], "fast": ["coarse", "exact"], "paper": ["ann", "coarse", "exact"]}


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 999), st.integers(2, 60), st.sampled_from([0.0, 0.4, 1.0]), st.integers(1, 70))
def test_the_order_of_codes_is_that_of_vectors_but_for_what_codes_leave_out(
    tmp_path_factory: pytest.TempPathFactory, seed: int, count: int, backward: float, k: int
) -> None:
    pages = made_pages(count, seed)
    query = made_pages(1, seed + 1)[0][:7]
    given = IndexSettings(rescore=0, backward_weight=backward, threads=1)
    index = CodedIndex(indexed(pages, tmp_path_factory.mktemp("i"), given))
    hits = index.search(query, k).hits
    true = {h.page_id: h.score for h in reference(pages, backward).search(query, count).hits}
    assert len(hits) == min(k, count)
    assert all(abs(h.score - true[h.page_id]) < 0.05 for h in hits)
    assert [h.rank for h in hits] == list(range(1, len(hits) + 1))
    assert [h.score for h in hits] == sorted((h.score for h in hits), reverse=True)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 999), st.integers(20, 80), st.integers(1, 10), st.integers(1, 40))
def test_what_is_proved_is_so(
    tmp_path_factory: pytest.TempPathFactory, seed: int, count: int, k: int, rescore: int
) -> None:
    pages = made_pages(count, seed)
    query = made_pages(1, seed + 1)[0][:7]
    given = IndexSettings(rescore=rescore, threads=1)
    found = CodedIndex(indexed(pages, tmp_path_factory.mktemp("i"), given)).search(query, k)
    if found.proved:
        assert_same(found, reference(pages).search(query, k))
    assert not found.proved or k <= max(rescore, count if rescore >= count else 0)


def test_proof_is_given_where_pages_lie_apart_and_refused_where_they_do_not(tmp_path: Path) -> None:
    near, far = np.eye(2, dtype=np.float32)
    apart = [near[None], *[far[None] + 0.01 * k for k in range(30)]]
    query = near[None]
    given = IndexSettings(rescore=1, threads=1)
    assert CodedIndex(indexed(apart, tmp_path / "apart", given)).search(query, 1).proved
    angles = 0.01 * np.arange(31, dtype=np.float32)
    alike = [np.array([[np.cos(angle), np.sin(angle)]]) for angle in angles]
    assert not CodedIndex(indexed(alike, tmp_path / "alike", given)).search(query, 1).proved
    fast = FastIndex(indexed(apart, tmp_path / "fast", given), 5)
    assert not fast.search(query, 1).proved, "pages that were never scored prove nothing"


def test_threads_and_segments_change_no_bit(tmp_path: Path) -> None:
    pages = made_pages(100, dim=24)
    query = made_pages(1, seed=4, dim=24)[0][:11]
    narrow = {"rescore": 4, "shortlist": 25}
    found = set()
    for number, (cut, threads) in enumerate([(0, 1), (0, 3), (37, 1), (50, 2), (99, 5)]):
        given = IndexSettings(threads=threads).model_copy(update=narrow)
        exact = CodedIndex(indexed(pages, tmp_path / f"e{number}", given, cut=cut))
        fast = FastIndex(indexed(pages, tmp_path / f"f{number}", given, cut=cut), given.shortlist)
        found.add((exact.search(query, 100).hits, fast.search(query, 100).hits))
    assert len(found) == 1


def test_equal_scores_are_ranked_by_page_id_also_at_the_end_of_the_list(tmp_path: Path) -> None:
    pages = [np.array([[1.0, 0.0]], dtype=np.float32)] * 30
    ids = sorted(page_ids(30))
    for index in (*modes(pages, tmp_path, rescore=3).values(), reference(pages)):
        assert [h.page_id for h in index.search(pages[0], 7).hits] == ids[:7]


@pytest.mark.parametrize("rows", [np.ones((2, 3)), np.ones((0, 16)), np.ones(16)])
def test_a_query_of_another_shape_is_refused(rows: np.ndarray, tmp_path: Path) -> None:
    for index in (*modes(made_pages(3), tmp_path).values(), reference(made_pages(3))):
        with pytest.raises(MismatchError, match="width 16"):
            index.search(rows.astype(np.float32), 1)


def test_a_query_that_is_not_finite_is_refused(tmp_path: Path) -> None:
    query = made_pages(1)[0].copy()
    query[0, 3] = np.nan
    for index in modes(made_pages(3), tmp_path).values():
        with pytest.raises(MismatchError, match="not finite"):
            index.search(query, 1)


def test_bc22_a_corpus_smaller_than_every_setting_works(tmp_path: Path) -> None:
    pages = made_pages(3)
    for index in modes(pages, tmp_path).values():
        hits = index.search(pages[0], 2_000).hits
        assert len({h.page_id for h in hits}) == len(hits) == 3


@pytest.mark.parametrize("kind", ["flat", "hnsw", "ivf"])
def test_an_ann_that_finds_fewer_neighbors_than_it_was_asked_for_gives_no_page_twice(kind: str, tmp_path: Path) -> None:
    """FAISS fills up with -1, which is no centroid."""
    pages = made_pages(60)
    given = IndexSettings(ann=kind, ann_neighbors=400, ann_effort=1)
    hits = paper_index(pages, tmp_path, given)[0].search(pages[5], 60).hits
    assert hits[0].page_id == page_ids(60)[5]
    assert len({h.page_id for h in hits}) == len(hits) <= 60


def test_effort_is_set_when_an_ann_is_opened(tmp_path: Path) -> None:
    pages = made_pages(60)
    hnsw = paper_index(pages, tmp_path / "h", IndexSettings(ann="hnsw", ann_effort=321))[1]
    assert hnsw.hnsw.efSearch == 321
    ivf = paper_index(pages, tmp_path / "i", IndexSettings(ann="ivf", ann_effort=3))[1]
    assert ivf.nprobe == 3
    set_effort(ivf, IndexSettings(ann_effort=10**6))
    assert ivf.nprobe == ivf.nlist


def test_bc27_pages_that_are_not_of_unit_length_are_scored_as_they_are(tmp_path: Path) -> None:
    """Encoders give unit rows; an index changes none, so S is what the paper writes for any."""
    pages = [np.array([[3.0, 0.0]], dtype=np.float32), np.array([[0.6, 0.8]], dtype=np.float32)]
    query = np.array([[0.6, 0.8]], dtype=np.float32)
    for index in (*modes(pages, tmp_path).values(), reference(pages)):
        assert [round(h.score, 4) for h in index.search(query, 2).hits] == [3.6, 2.0]


def test_explain_shows_both_scores_of_what_the_ann_reached(tmp_path: Path) -> None:
    pages = made_pages(40)
    index = paper_index(pages, tmp_path, IndexSettings(ann="flat", ann_neighbors=20))[0]
    query = pages[3][:4]
    shown = index.explain(query)
    assert (np.diff(shown.coarse) <= 0).all()
    true = {h.page_id: h.score for h in reference(pages).search(query, 40).hits}
    assert np.allclose(shown.exact, [true[page_id] for page_id in shown.page_ids], atol=1e-5)


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=40), st.integers(0, 45))
def test_the_best_places_are_those_of_a_full_sort(values: list[int], count: int) -> None:
    scores = np.array(values, dtype=np.float32)
    places = best_places(scores, count)
    assert (np.diff(places) > 0).all()
    wanted = sorted(values, reverse=True)[:count]
    assert sorted((values[p] for p in places), reverse=True)[:count] == wanted
    assert {values[p] for p in places} == set(wanted)


@given(st.lists(st.tuples(st.integers(-2, 2), st.text("ab", max_size=3)), min_size=1, max_size=30), st.integers(1, 31))
def test_ranked_hits_are_a_sort_by_score_and_page_id(rows: list[tuple[int, str]], k: int) -> None:
    ids = [f"{name}{number}" for number, (_, name) in enumerate(rows)]
    scores = np.array([score for score, _ in rows], dtype=np.float32)
    wanted = sorted(zip(-scores, ids, strict=True))[:k]
    assert [(-h.score, h.page_id) for h in ranked_hits(ids, scores, k)] == wanted
