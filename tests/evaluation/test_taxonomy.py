from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvrag_core.errors import MedvragError
from medvrag_core.evaluation.taxonomy import ERROR_CLASSES, classify_error, error_taxonomy, page_of
from medvrag_core.records import Trace

MakeTrace = Callable[..., Trace]
G, H, X = "g#p1", "h#p1", "x#p1"


@pytest.mark.parametrize(
    ("rounds", "expected"),
    [
        ([([X], [X], [X])], "retrieval_miss"),
        ([([X, G], [X], [X])], "filter_miss"),
        ([([X, G], [X, G], [X])], "not_shown"),
        ([([X, G], [X, G], [X, G])], "misread"),
        ([([G], [G], [G]), ([X], [X], [X])], "round_drift"),
        ([([G, X], [G, X], [G]), ([X, G], [X, G], [X])], "round_drift"),
        ([([X, G], [X, G], [X]), ([X], [X], [X])], "round_drift"),
        ([([X], [X], [X]), ([G], [G], [G])], "misread"),
        ([([G, X], [X], [X]), ([X], [X], [X])], "filter_miss"),
        ([([X, G], [X, G], [X]), ([X, G], [X, G], [X])], "not_shown"),
        ([((), (), ())], "no_retrieval"),
        ([(["g#p1#c4"], ["g#p1#c4"], ["g#p1#c4"])], "misread"),
    ],
)
def test_the_class_is_the_place_where_the_page_was_lost(make_trace: MakeTrace, rounds: list, expected: str) -> None:
    assert classify_error(make_trace("q", "B", rounds=rounds), {G}) == expected


def test_other_wrong_outcomes(make_trace: MakeTrace) -> None:
    assert classify_error(make_trace("q", "B"), set()) == "unlabeled"
    assert classify_error(make_trace("q", None), {G}) == "unparsed"
    assert classify_error(make_trace("q", None, outcome="error"), {G}) == "error"
    with pytest.raises(MedvragError, match="answered right"):
        classify_error(make_trace("q", "A"), {G})


def test_questions_that_need_all_their_pages_are_judged_by_the_one_lost_first(make_trace: MakeTrace) -> None:
    trace = make_trace("q", "B", rounds=[([G, X], [G, X], [G])])
    assert classify_error(trace, {G, H}) == "misread"
    assert classify_error(trace, {G, H}, need="all") == "retrieval_miss"


pages = st.lists(st.sampled_from([G, H, X]), unique=True)
stages = st.tuples(pages, pages, pages).map(
    lambda s: (s[0], [p for p in s[0] if p in s[1]], [p for p in s[0] if p in s[1] and p in s[2]])
)


@given(st.lists(st.lists(stages, min_size=1, max_size=3), min_size=1, max_size=6), st.sampled_from(["any", "all"]))
def test_every_wrong_answer_has_exactly_one_class(make_trace: MakeTrace, cases: list, need: str) -> None:
    traces = [make_trace(f"q{i}", "B", rounds=rounds, gold_pages=[G, H]) for i, rounds in enumerate(cases)]
    table = error_taxonomy([*traces, make_trace("right")], need=need)
    assert sum(row.count for row in table.rows) == table.wrong == len(cases)
    assert sum(row.share for row in table.rows) == pytest.approx(1.0)
    assert all(row.low <= row.share <= row.high for row in table.rows)
    assert [r.error_class for r in table.rows][:5] == list(ERROR_CLASSES[:5])


@given(st.lists(stages, min_size=1, max_size=3))
def test_needing_all_pages_never_moves_an_error_downstream(make_trace: MakeTrace, rounds: list) -> None:
    trace = make_trace("q", "B", rounds=rounds)
    place = {need: ERROR_CLASSES.index(classify_error(trace, {G, H}, need=need)) for need in ("any", "all")}
    assert place["all"] <= place["any"]


def test_labels_from_outside_win_over_those_of_the_questions(make_trace: MakeTrace) -> None:
    traces = [make_trace("q", "B", rounds=[([X], [X], [X])], gold_pages=[G])]
    assert error_taxonomy(traces, {"q": {X}}).rows[4].count == 1
    assert {r.error_class: r.count for r in error_taxonomy(traces, {}).rows}["unlabeled"] == 1


def test_a_run_without_errors_has_an_empty_table(make_trace: MakeTrace) -> None:
    table = error_taxonomy([make_trace()])
    assert (table.wrong, {row.count for row in table.rows}) == (0, {0})


def test_page_of_stems_that_look_like_pages() -> None:
    assert page_of("a#p1#p12#c3") == "a#p1#p12"
    assert page_of("no page") == "no page"
