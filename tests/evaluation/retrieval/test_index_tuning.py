"""Tuning the index of a run: its queries, and the curve that is kept for as long as it holds."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from medvrag_core.corpus.store import CorpusStore
from medvrag_core.encoders.growth import add_pages
from medvrag_core.encoders.vectors import VectorStore
from medvrag_core.errors import InputError, MedvragError, MismatchError, NotBuiltError
from medvrag_core.evaluation.retrieval.index_tuning import read_tuning, summary_queries, tune_run
from medvrag_core.index.build import delete_pages, write_index
from medvrag_core.index.tune import tuning_path
from medvrag_core.profiles.load import load_profile
from medvrag_core.records import PageVectors, Query, Summary
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.resources import Resources

ASKED = (Query(id="q1", text="dose of allopurinol"), Query(id="q2", text="ferritin"))


@pytest.fixture
def run(made_run: Workspace, tmp_path: Path) -> Workspace:
    """A copy of a run of five pages, for a test that changes it."""
    shutil.copytree(made_run.root, tmp_path / "run")
    return Workspace(tmp_path / "run")


def opened(run: Workspace) -> Resources:
    return Resources(run, load_profile("test"))


def with_summaries(run: Workspace, texts: list[str]) -> Resources:
    """A run whose pages have these summaries."""
    resources = opened(run)
    made = {
        f"doc#p{number}": Summary(page_id=f"doc#p{number}", text=text, method="made")
        for number, text in enumerate(texts)
    }
    vars(resources.store)["summaries"] = made
    return resources


def test_the_curve_is_kept_and_read_back(run: Workspace) -> None:
    kept = {mode: tune_run(opened(run), mode, ASKED, recall=0.9, at=2, progress=False) for mode in ("fast", "paper")}
    for mode, found in kept.items():
        assert (found.mode, found.queries, found.pages, found.at, found.wanted) == (mode, 2, 5, 2, 0.9)
        assert read_tuning(opened(run), mode) == found
    assert kept["fast"].points[0].changed.keys() == {"shortlist"}
    again = tune_run(opened(run), "fast", ASKED[:1], at=1, progress=False)
    assert read_tuning(opened(run), "fast") == again, "the last one counts"
    assert read_tuning(opened(run), "paper") == kept["paper"]


def test_vectors_of_the_queries_are_those_of_the_encoder(run: Workspace) -> None:
    found = tune_run(opened(run), "fast", ASKED, at=1, progress=False)
    encoder = opened(run).encoder
    assert found.query_vectors == pytest.approx(np.mean([len(encoder.encode_query(query.text)) for query in ASKED]))


def test_page_summaries_are_the_queries_where_none_are_given(run: Workspace) -> None:
    queries = summary_queries(opened(run), 50)
    summaries = CorpusStore.open(run.corpus).summaries
    assert {query.id: query.text for query in queries} == {page: told.text for page, told in summaries.items()}
    assert len(queries) == tune_run(opened(run), "fast", at=1, progress=False).queries == 5


@pytest.mark.parametrize(("pages", "count"), [(99, 50), (100, 50), (101, 50), (7, 3), (3, 3), (2, 3), (1_000, 7)])
def test_summaries_are_taken_evenly_over_all_pages_and_once_each(run: Workspace, pages: int, count: int) -> None:
    queries = summary_queries(with_summaries(run, [f"page {n}" for n in range(pages)]), count)
    places = [int(query.text.removeprefix("page ")) for query in queries]
    assert len(places) == min(count, pages)
    gaps = np.diff([*places, pages])
    assert places[0] == 0
    assert gaps.min() >= 1
    assert gaps.max() <= -(-pages // len(places))


def test_a_page_without_a_summary_is_no_query(run: Workspace) -> None:
    found = summary_queries(with_summaries(run, ["a", "", "b", " \n", "c", "d"]), 4)
    assert [query.text for query in found] == ["a", "b", "c", "d"]
    with pytest.raises(InputError, match="no query to tune with"):
        tune_run(with_summaries(run, ["", ""]), "fast", progress=False)


def test_a_mode_that_was_not_tuned_is_told(run: Workspace) -> None:
    tune_run(opened(run), "fast", ASKED, at=1, progress=False)
    with pytest.raises(NotBuiltError, match=r"tuning-paper\.json: mode 'paper' was not tuned; run `medvrag index"):
        read_tuning(opened(run), "paper")


def test_a_curve_that_was_damaged_is_told_with_its_file(run: Workspace) -> None:
    tune_run(opened(run), "fast", ASKED, at=1, progress=False)
    for damaged in ("{}", "no json", '{"mode": "exact"}'):
        tuning_path(run.index, "fast").write_text(damaged)
        with pytest.raises(MedvragError, match=r"tuning-fast\.json"):
            read_tuning(opened(run), "fast")


def test_a_curve_of_other_pages_is_refused(run: Workspace) -> None:
    tune_run(opened(run), "fast", ASKED, at=1, progress=False)
    store = opened(run).vectors
    first = store.page(store.page_ids[0])
    delete_pages(store, run.index, [store.page_ids[4]])
    with pytest.raises(MismatchError, match=r"on 5 pages \w+, the index holds 4 pages .*`medvrag index tune` again"):
        read_tuning(opened(run), "fast")
    # One page was taken out and one added: their number is the same again.
    more = PageVectors("more#p1", first.vectors[::-1].copy(), first.boxes, first.vector_of)
    grown = add_pages(run.vectors, [more], corpus_fingerprint="more")
    write_index(grown, load_profile("test").index, run.index, near_duplicate=1.0, progress=False)
    assert len(VectorStore.open(run.vectors)) == 6
    with pytest.raises(MismatchError, match="the index holds 5 pages"):
        read_tuning(opened(run), "fast")
    fresh = tune_run(opened(run), "fast", ASKED, at=1, progress=False)
    assert read_tuning(opened(run), "fast") == fresh
