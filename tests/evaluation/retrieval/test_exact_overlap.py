from __future__ import annotations

import numpy as np
import pytest

from medvrag_core.errors import InputError
from medvrag_core.evaluation.retrieval.exact_overlap import exact_overlap
from medvrag_core.evaluation.retrieval.retrievers import as_queries
from medvrag_core.profiles.load import load_profile
from medvrag_core.records import Query, Question
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.resources import Resources
from medvrag_core.systems.retrievers import exact, stage1


def test_a_shortlist_of_all_pages_is_exact_search(made_run: Workspace, made_questions: list[Question]) -> None:
    resources = Resources(made_run, load_profile("test"))
    found = exact_overlap(resources, as_queries(made_questions), ks=(2, 5), progress=False)
    assert [(row.shortlist, row.k, row.overlap.value, row.identical) for row in found.rows] == [
        (40, 2, 1.0, 3),
        (40, 5, 1.0, 3),
    ]
    assert (found.queries, found.pages, found.exhaustive) == (3, 5, (40,))
    assert found.exact_seconds > 0 and found.seconds[40] > 0


def test_a_short_shortlist_is_measured_against_exact_search(
    made_run: Workspace, made_questions: list[Question]
) -> None:
    queries = as_queries(made_questions)
    found = exact_overlap(
        Resources(made_run, load_profile("test")), queries, shortlists=(1, 2, 5), ks=(1, 2, 3), progress=False
    )
    assert [(row.shortlist, row.k) for row in found.rows] == [(1, 1), (2, 1), (2, 2), (5, 1), (5, 2), (5, 3)]
    assert found.exhaustive == (5,)
    runs = {size: Resources(made_run, load_profile("test", {"index.shortlist": size})) for size in (1, 2, 5)}
    for row in found.rows:
        pairs = [
            tuple([h.page_id for h in search(runs[row.shortlist], q.text, row.k)] for search in (stage1, exact))
            for q in queries
        ]
        shared = [len(set(a) & set(b)) / len(b) for a, b in pairs]
        assert row.overlap.value == pytest.approx(np.mean(shared))
        assert row.identical == sum(a == b for a, b in pairs)


def test_nothing_to_compare_is_refused(made_run: Workspace) -> None:
    resources = Resources(made_run, load_profile("test"))
    with pytest.raises(InputError, match="no query"):
        exact_overlap(resources, [])
    with pytest.raises(InputError, match="beyond the shortlist 40"):
        exact_overlap(resources, [Query(id="q", text="gout")], ks=(41,))
