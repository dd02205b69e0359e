"""Tuning of a mode: what is measured and which setting is chosen, on made-up searches and on real ones."""

from __future__ import annotations

import gc
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from made_index import flat, made_pages, made_store, page_ids

from medvrag_core.encoders.vectors import VectorStore
from medvrag_core.errors import InputError
from medvrag_core.index import build
from medvrag_core.index import tune as tuning
from medvrag_core.index.build import delete_pages, open_index, write_index
from medvrag_core.index.exact import ExactIndex
from medvrag_core.index.manifest import read_manifest
from medvrag_core.index.tune import TunedPoint, Tuning, tune
from medvrag_core.settings import IndexSettings

FAST = (*((size, 256) for size in (10, 20, 50, 100, 200)), *((size, 13) for size in (20, 50, 100, 200)))
"""Shortlists that are tried over 1,000 pages for the best 10, and how many of them are scored by their vectors."""


Setting = tuple[int, int]


class StandIn:
    """Finds ``found[n]`` of the best pages of query ``n``, and takes ``cost[n]`` seconds of a clock that it turns."""

    def __init__(self, clock: list[float], found: list[int], cost: list[float], warm_up: float = 0.0) -> None:
        self.clock, self.found, self.cost, self.first = clock, found, cost, warm_up

    def search(self, query: np.ndarray, k: int) -> Any:
        number = int(query[0, 0])
        self.clock[0] += self.cost[number] + self.first
        self.first = 0.0
        hits = [SimpleNamespace(page_id=f"p{j}" if j < self.found[number] else f"other{j}") for j in range(k)]
        return SimpleNamespace(hits=hits)


def tuned_on_stand_ins(
    found: dict[Setting, list[int]], cost: dict[Setting, list[float]], recall: float, warm_up: float = 0.0
) -> Tuning:
    """A tuning of mode fast, of the best 10 of 1,000 pages, by setting; the clock knows no other work."""
    clock = [0.0]
    queries = [np.full((2, 3), number, dtype=np.float32) for number in range(len(found[FAST[0]]))]

    def opened(store: object, settings: IndexSettings, folder: Path) -> StandIn:
        if settings.mode == "exact":
            return StandIn(clock, [10] * len(queries), [64.0] * len(queries), warm_up)
        setting = settings.shortlist, settings.rescore
        return StandIn(clock, found[setting], cost[setting], warm_up)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tuning, "open_index", opened)
        patch.setattr(tuning, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
        patch.setattr(
            tuning, "read_manifest", lambda folder: SimpleNamespace(pages=1_000, segments_digest=lambda: "digest")
        )
        unread: Any = None
        return tune(unread, IndexSettings(mode="fast"), Path(), queries, recall=recall, at=10, progress=False)


def table(values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[Setting, list[Any]]]:
    """A value for each of three queries at every setting."""
    return st.fixed_dictionaries({setting: st.lists(values, min_size=3, max_size=3) for setting in FAST})


def setting_of(point: TunedPoint) -> Setting:
    """What a point searched with; what it does not change is as set."""
    return point.changed["shortlist"], point.changed.get("rescore", 256)


@examples(max_examples=50, deadline=None)
@given(table(st.integers(0, 10)), table(st.integers(1, 32)), st.integers(0, 30))
def test_the_chosen_setting_is_the_fastest_that_reaches_the_recall(
    found: dict[Setting, list[int]], cost: dict[Setting, list[int]], wanted: int
) -> None:
    result = tuned_on_stand_ins(found, {setting: [float(c) for c in of] for setting, of in cost.items()}, wanted / 30)
    assert sorted(map(setting_of, result.points)) == sorted(FAST)
    for point in result.points:
        setting = setting_of(point)
        assert point.recall == sum(found[setting]) / 30
        assert point.lowest == pytest.approx(min(found[setting]) / 10)
        assert point.seconds == median(cost[setting])
    assert [p.seconds for p in result.points] == sorted(p.seconds for p in result.points)
    enough = [setting for setting in FAST if sum(found[setting]) >= wanted]
    if not enough:
        assert result.chosen is None
    else:
        assert result.chosen is not None
        chosen = result.points[result.chosen]
        assert setting_of(chosen) in enough
        assert chosen.seconds == min(median(cost[setting]) for setting in enough)


@examples(max_examples=40, deadline=None)
@given(st.integers(1, 100), st.integers(1, 9))
def test_a_recall_that_is_just_reached_is_reached(queries: int, of_ten: int) -> None:
    """A mean of shares such as 0.7 can come out below 0.7."""
    found = {setting: [of_ten] * queries for setting in FAST}
    result = tuned_on_stand_ins(found, {setting: [1.0] * queries for setting in FAST}, of_ten / 10)
    assert result.chosen is not None


def test_what_only_the_first_search_takes_is_not_counted() -> None:
    found, cost = {setting: [10] for setting in FAST}, {setting: [float(sum(setting))] for setting in FAST}
    result = tuned_on_stand_ins(found, cost, 0.5, warm_up=1_000.0)
    assert (result.exact_seconds, [p.seconds for p in result.points]) == (64.0, sorted(map(float, map(sum, FAST))))


# --- real searches -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> VectorStore:
    return made_store(tmp_path_factory.mktemp("v") / "v", made_pages(200))


@pytest.fixture(scope="module")
def folder(store: VectorStore, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("i") / "i"
    write_index(store, settings(), home, near_duplicate=1.0, progress=False)
    return home


@pytest.fixture(scope="module")
def queries() -> list[np.ndarray]:
    return [made_pages(1, seed=seed)[0][:6] for seed in range(40, 60)]


def settings(mode: Any = "fast", **changed: Any) -> IndexSettings:
    return IndexSettings(mode=mode, threads=1, rescore=20, ann="flat").model_copy(update=changed)


def recall_of(store: VectorStore, folder: Path, queries: list[np.ndarray], given: IndexSettings, at: int) -> float:
    exact = open_index(store, settings("exact"), folder)
    index = open_index(store, given, folder)
    both = [
        {hit.page_id for hit in exact.search(query, at).hits} & {hit.page_id for hit in index.search(query, at).hits}
        for query in queries
    ]
    return sum(map(len, both)) / (at * len(queries))


def test_recall_is_that_of_exact_search_and_grows_with_the_shortlist(
    store: VectorStore, folder: Path, queries: list[np.ndarray]
) -> None:
    found = tune(store, settings(), folder, queries, recall=0.5, at=3, progress=False)
    recalls = {p.changed["shortlist"]: p.recall for p in found.points if "rescore" not in p.changed}
    assert sorted(recalls) == [3, 4, 10, 20, 40]
    for size, recall in recalls.items():
        assert recall == pytest.approx(recall_of(store, folder, queries, settings(shortlist=size), 3))
    grown = [recalls[size] for size in sorted(recalls)]
    assert grown == sorted(grown)
    assert grown[0] < grown[-1]
    assert all(point.lowest <= point.recall <= 1 for point in found.points)
    assert (found.mode, found.at, found.queries, found.pages) == ("fast", 3, 20, 200)
    assert found.query_vectors == pytest.approx(np.mean([len(query) for query in queries]))
    assert Tuning.from_json(found.to_json(), source="here") == found


def test_fewer_pages_scored_by_their_vectors_are_tried_too(
    store: VectorStore, folder: Path, queries: list[np.ndarray]
) -> None:
    """Where that is fewer: not of a shortlist as short, not below what is asked for, not if fewer still are set."""
    found = tune(store, settings(), folder, queries, at=3, progress=False)
    fewer = {p.changed["shortlist"]: p for p in found.points if "rescore" in p.changed}
    assert {size: point.changed["rescore"] for size, point in fewer.items()} == {10: 4, 20: 4, 40: 4}
    for size, point in fewer.items():
        given = settings(shortlist=size, rescore=4)
        assert point.recall == pytest.approx(recall_of(store, folder, queries, given, 3))
    few = tune(store, settings(rescore=4), folder, queries[:1], at=3, progress=False)
    assert not any("rescore" in point.changed for point in few.points)


def test_recall_is_of_the_order_by_vectors_where_few_are_scored_anew(tmp_path: Path) -> None:
    """Pages so much alike that their codes are in another order than they."""
    rng = np.random.default_rng(3)
    base = made_pages(1, seed=1)[0][:8]
    pages = [base + rng.normal(scale=0.012, size=base.shape).astype(np.float32) for _ in range(100)]
    pages = [page / np.linalg.norm(page, axis=1, keepdims=True) for page in pages]
    store, queries = made_store(tmp_path / "v", pages), [base[:4], base[3:]]
    write_index(store, settings(), tmp_path / "i", near_duplicate=2.0, progress=False)
    (point,) = tune(store, settings(rescore=0), tmp_path / "i", queries, at=20, progress=False).points
    reference = ExactIndex(page_ids(100), *flat(pages))
    by_codes = open_index(store, settings(rescore=0, **point.changed), tmp_path / "i")
    shared = [
        {hit.page_id for hit in reference.search(query, 20).hits}
        & {hit.page_id for hit in by_codes.search(query, 20).hits}
        for query in queries
    ]
    assert point.recall == sum(map(len, shared)) / 40


def test_mode_paper_is_tuned_in_neighbors_and_shortlist(
    store: VectorStore, folder: Path, queries: list[np.ndarray]
) -> None:
    found = tune(store, settings("paper"), folder, queries[:5], recall=0.5, at=2, progress=False)
    tried = {(point.changed["ann_neighbors"], point.changed["shortlist"]): point.recall for point in found.points}
    assert {*tried} == {(near, size) for near in (2, 6, 32, 160) for size in (2, 6, 20)}
    assert len(found.points) == len(tried)
    for near, size in ((2, 2), (32, 6), (160, 20)):
        given = settings("paper", ann_neighbors=near, shortlist=size)
        assert tried[near, size] == pytest.approx(recall_of(store, folder, queries[:5], given, 2))
    for size in (2, 6, 20):
        assert tried[2, size] <= tried[160, size]


def test_a_shortlist_of_all_pages_reaches_all_and_nothing_reaches_more(
    store: VectorStore, folder: Path, queries: list[np.ndarray]
) -> None:
    """None keeps fewer pages than are asked for, also where that is more than a fifth of them."""
    found = tune(store, settings(), folder, queries[:3], recall=1.0, at=500, progress=False)
    assert [(point.changed, point.recall, point.lowest) for point in found.points] == [({"shortlist": 500}, 1.0, 1.0)]
    assert found.chosen == 0
    narrow = tune(store, settings(), folder, queries, recall=1.01, at=3, progress=False)
    assert narrow.chosen is None
    assert max(point.recall for point in narrow.points) <= 1


def test_pages_that_were_deleted_count_nowhere(store: VectorStore, queries: list[np.ndarray], tmp_path: Path) -> None:
    write_index(store, settings(), tmp_path / "i", near_duplicate=1.0, progress=False)
    before = tune(store, settings(), tmp_path / "i", queries[:1], at=3, progress=False)
    delete_pages(store, tmp_path / "i", page_ids(200)[:150])
    after = tune(store, settings(), tmp_path / "i", queries[:1], at=3, progress=False)
    assert (before.pages, after.pages) == (200, 50)
    assert max(point.changed["shortlist"] for point in after.points) == 10
    assert before.segments == after.segments == read_manifest(tmp_path / "i").segments_digest()


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="open files are counted in Linux's /proc")
def test_no_index_that_was_opened_stays_open(
    queries: list[np.ndarray], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mapped file holds a descriptor, and a curve takes many indexes."""
    monkeypatch.setattr(build, "SEGMENT_NUMBERS", 1)
    store = made_store(tmp_path / "v", made_pages(640, dim=4))
    write_index(store, settings(centroids=2), tmp_path / "i", near_duplicate=2.0, progress=False)
    assert len(read_manifest(tmp_path / "i").segments) == 10
    asked = [query[:, :4] / np.linalg.norm(query[:, :4], axis=1, keepdims=True) for query in queries[:1]]

    def files() -> int:
        gc.collect()
        return len([*Path("/proc/self/fd").iterdir()])

    before = files()
    one = open_index(store, settings(), tmp_path / "i")
    assert files() - before <= 2 * 10
    del one
    tune(store, settings(), tmp_path / "i", asked, at=1, progress=False)
    assert files() == before


def test_nothing_to_tune_is_refused(store: VectorStore, folder: Path, queries: list[np.ndarray]) -> None:
    with pytest.raises(InputError, match="mode 'exact' has nothing to tune; tune the mode fast or paper"):
        tune(store, settings("exact"), folder, queries)
    with pytest.raises(InputError, match="no query to tune with"):
        tune(store, settings(), folder, [])
