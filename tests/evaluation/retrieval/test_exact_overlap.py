from __future__ import annotations

from pathlib import Path
from shutil import copytree

import numpy as np
import pytest

from medvrag_core.errors import InputError, NotBuiltError
from medvrag_core.evaluation.retrieval.exact_overlap import SearchedWay, SearchWay, exact_overlap, search_ways
from medvrag_core.evaluation.retrieval.retrievers import as_queries
from medvrag_core.index.coded_pages import CodedPages
from medvrag_core.index.exact import ExactIndex
from medvrag_core.profiles.load import load_profile
from medvrag_core.records import Query, Question
from medvrag_core.runs.workspace import Workspace
from medvrag_core.settings import IndexSettings
from medvrag_core.systems.resources import Resources


def way_of(searched: SearchedWay) -> SearchWay:
    return SearchWay(**searched.model_dump(include=set(SearchWay.model_fields)))


def test_modes_that_look_at_everything_find_what_exact_search_finds(
    made_run: Workspace, made_questions: list[Question]
) -> None:
    resources = Resources(made_run, load_profile("test"))
    found = exact_overlap(resources, as_queries(made_questions), ks=(5, 2), progress=False)
    assert [searched.mode for searched in found.searched] == ["exact", "fast", "paper"]
    assert (found.queries, found.pages, found.backward_weight, found.left_out) == (3, 5, 0.0, {})
    for searched in found.searched:
        assert searched.own and searched.whole and found.shows_nothing(searched) and searched.seconds > 0
        rows = [(row.k, row.overlap.value, row.identical, row.proved) for row in searched.rows]
        assert rows == [(2, 1.0, 3, 3), (5, 1.0, 3, 3)]
    assert [step.step for step in found.searched[2].steps] == ["ann", "coarse", "exact"]


@pytest.mark.parametrize("backward", [0.0, 1.0])
def test_every_way_is_measured_against_scores_of_all_vectors(
    made_run: Workspace, made_questions: list[Question], backward: float
) -> None:
    profile = load_profile("test", {"index.backward_weight": backward})
    resources = Resources(made_run, profile)
    queries = as_queries(made_questions)
    ways = search_ways(profile.index, rescores=(1,), shortlists=(1, 3), ann_neighbors=(1,))
    found = exact_overlap(resources, queries, ways=ways, ks=(1, 3), progress=False)
    assert [way_of(searched) for searched in found.searched] == ways
    assert [searched.own for searched in found.searched] == [True, False, True, False, False, True, *[False] * 3]
    store = resources.vectors
    truth = ExactIndex(store.page_ids, *store.rows(np.arange(len(store))), backward=backward)
    for searched in found.searched:
        index = Resources(made_run, profile.model_copy(update={"index": way_of(searched).applied(profile.index)})).index
        assert [row.k for row in searched.rows] == ([1] if searched.shortlist == 1 else [1, 3])
        for row in searched.rows:
            pairs = []
            for query in queries:
                encoded = resources.encoder.encode_query(query.text)
                pairs.append([[h.page_id for h in one.search(encoded, row.k).hits] for one in (truth, index)])
            assert row.overlap.value == pytest.approx(np.mean([len({*a} & {*b}) / row.k for a, b in pairs]))
            assert row.identical == sum(a == b for a, b in pairs) >= row.proved
    short = found.searched[3]
    assert short.shortlist == 1 and short.rows[0].proved == 0


def test_what_is_proved_depends_on_the_cut_off_and_on_what_was_scored_anew(
    made_run: Workspace, made_questions: list[Question]
) -> None:
    profile = load_profile("test", {"index.rescore": 2})
    found = exact_overlap(
        Resources(made_run, profile),
        as_queries(made_questions),
        ways=search_ways(profile.index, rescores=(5,)),
        ks=(1, 4),
        progress=False,
    )
    few, all_ = found.searched[0], found.searched[1]
    assert (few.whole, found.shows_nothing(few), found.shows_nothing(all_)) == (True, False, True)
    assert [row.proved for row in few.rows] == [3, 0] and [row.proved for row in all_.rows] == [3, 3]


def test_exact_search_is_by_vectors_however_few_pages_the_profile_scores_anew(
    made_run: Workspace, made_questions: list[Question], monkeypatch: pytest.MonkeyPatch
) -> None:
    by_codes = CodedPages.scores
    monkeypatch.setattr(CodedPages, "scores", lambda *given: -by_codes(*given))
    for rescore, agree in ((0, False), (5, True)):
        profile = load_profile("test", {"index.rescore": rescore})
        found = exact_overlap(Resources(made_run, profile), as_queries(made_questions), ks=(2,), progress=False)
        for searched in found.searched:
            (row,) = searched.rows
            assert (row.overlap.value == 1.0 and row.identical == 3) == agree, searched.mode


def test_an_ann_that_fetches_too_little_loses_pages_though_the_shortlist_has_room(
    made_run: Workspace, made_questions: list[Question]
) -> None:
    profile = load_profile("test")
    (way,) = [w for w in search_ways(profile.index, ann_neighbors=(1,)) if w.ann_neighbors == 1]
    assert way.shortlist == 40
    found = exact_overlap(
        Resources(made_run, profile),
        [Query(id="q", text="gout")],
        ways=[way],
        ks=(5,),
        progress=False,
    )
    (lossy,) = found.searched[1:]
    assert not lossy.whole and lossy.rows[0].overlap.value < 1 and lossy.rows[0].proved == 0


def test_a_mode_that_the_index_was_not_made_for_is_left_out_by_name(
    made_run: Workspace, made_questions: list[Question], tmp_path: Path
) -> None:
    resources = Resources(made_run, load_profile("test", {"index.ann": "hnsw"}))
    found = exact_overlap(resources, as_queries(made_questions), ks=(2,), progress=False)
    assert [searched.mode for searched in found.searched] == ["exact", "fast"]
    assert "no ANN of kind 'hnsw'" in found.left_out["paper"]
    none = Workspace(tmp_path / "none")
    copytree(made_run.vectors, none.vectors)
    with pytest.raises(NotBuiltError):
        exact_overlap(Resources(none, load_profile("test")), as_queries(made_questions), progress=False)


def test_nothing_to_compare_is_refused(made_run: Workspace) -> None:
    resources = Resources(made_run, load_profile("test"))
    with pytest.raises(InputError, match="no query"):
        exact_overlap(resources, [])
    with pytest.raises(InputError, match="mode 'fast': every cut-off is beyond the shortlist of 40"):
        exact_overlap(resources, [Query(id="q", text="gout")], ks=(41, 50))


def test_one_setting_changes_at_a_time() -> None:
    ways = search_ways(IndexSettings(mode="fast", rescore=512), rescores=(8,), shortlists=(9,), ann_neighbors=(7,))
    assert ways == [
        SearchWay(mode="exact", rescore=512),
        SearchWay(mode="exact", rescore=8),
        SearchWay(mode="fast", shortlist=4_000, rescore=512),
        SearchWay(mode="fast", shortlist=9, rescore=512),
        SearchWay(mode="paper", ann_neighbors=1_000, shortlist=4_000, rescore=512),
        SearchWay(mode="paper", ann_neighbors=1_000, shortlist=9, rescore=512),
        SearchWay(mode="paper", ann_neighbors=7, shortlist=4_000, rescore=512),
    ]
    assert ways[3].applied(IndexSettings(seed=1)) == IndexSettings(mode="fast", shortlist=9, rescore=512, seed=1)
