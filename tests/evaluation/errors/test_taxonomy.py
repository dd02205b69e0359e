from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medvrag_core.errors import MedvragError
from medvrag_core.evaluation.errors.taxonomy import (
    ERROR_CLASSES,
    Reached,
    classify_error,
    error_classes,
    error_taxonomy,
    furthest,
    page_of,
)
from medvrag_core.evaluation.scoring import score
from medvrag_core.records import Outcome, Trace

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
    assert classify_error(make_trace("q", "B"), None) == "unlabeled"
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


@settings(deadline=None)
@given(st.lists(st.lists(stages, min_size=1, max_size=3), min_size=1, max_size=6), st.sampled_from(["any", "all"]))
def test_every_wrong_answer_has_exactly_one_class(make_trace: MakeTrace, cases: list, need: str) -> None:
    traces = [make_trace(f"q{i}", "B", rounds=rounds, gold_pages=[G, H]) for i, rounds in enumerate(cases)]
    table = error_taxonomy([*traces, make_trace("right")], need=need)
    assert sum(row.count for row in table.rows) == table.wrong == len(cases)
    assert sum(row.share for row in table.rows) == pytest.approx(1.0)
    assert all(row.low <= row.share <= row.high for row in table.rows)
    assert [r.error_class for r in table.rows][:5] == list(ERROR_CLASSES[:5])


ends = st.sampled_from(
    [("A", None), ("B", None), (None, "unparsed"), (None, "truncated"), (None, "refused"), (None, "error")]
)
wholes = st.tuples(st.lists(stages, max_size=3), ends, st.none() | st.sets(st.sampled_from([G, H])), st.booleans())


def _all_that_hold(trace: Trace, gold: set[str] | None, suspect: bool) -> set[str]:
    """Every class whose description holds, each written out by itself and in full; one gold page at most."""
    sets = [({h.page_id for h in r.stage1}, set(r.filter.kept), set(r.shown)) for r in trace.rounds]
    answered = trace.outcome == "answered"
    traced = answered and not suspect and gold is not None and any(found for found, _, _ in sets)
    found, kept, shown = ([bool((gold or set()) & s[stage]) for s in sets] for stage in range(3))
    seen_before = any(s or (k and not kept[-1]) for s, k in zip(shown[:-1], kept[:-1], strict=True))
    holds = {
        "suspect_gold": answered and suspect,
        "unlabeled": answered and not suspect and gold is None,
        "no_retrieval": answered and not suspect and gold is not None and not traced,
        "retrieval_miss": traced and not any(found),
        "filter_miss": traced and any(found) and not any(kept),
        "not_shown": traced and kept[-1] and not any(shown),
        "round_drift": traced and not shown[-1] and seen_before,
        "misread": traced and shown[-1],
        trace.outcome: not answered,
    }
    return {name for name, true in holds.items() if true}


@settings(deadline=None)
@given(wholes)
def test_the_classes_exclude_each_other_and_leave_nothing_out(make_trace: MakeTrace, whole: tuple) -> None:
    rounds, (label, outcome), gold, suspect = whole
    if label == "A":
        return
    gold = None if gold is None else set(sorted(gold)[:1])
    trace = make_trace("q", label, rounds=rounds, outcome=outcome)
    assert _all_that_hold(trace, gold, suspect) == {classify_error(trace, gold, suspect=suspect)}


@settings(deadline=None)
@given(st.lists(wholes, min_size=1, max_size=8), st.sampled_from(["any", "all"]))
def test_counts_are_those_of_the_wrong_answers_and_doubt_hides_nothing(
    make_trace: MakeTrace, cases: list, need: str
) -> None:
    traces, gold, suspect = [], {}, {"elsewhere": "no trace"}
    for i, (rounds, (label, outcome), pages_, doubt) in enumerate(cases):
        traces.append(make_trace(f"q{i}", label, rounds=rounds, outcome=outcome))
        gold |= {} if pages_ is None else {f"q{i}": pages_}
        suspect |= {f"q{i}": f"reason {i % 2}"} if doubt else {}
    classes = error_classes(traces, gold, need=need, suspect=suspect)
    assert list(classes) == [t.question.id for t in traces if not score(t)]
    told, plain = error_taxonomy(traces, gold, need=need, suspect=suspect), error_taxonomy(traces, gold, need=need)
    assert {r.error_class: r.count for r in told.rows if r.count} == {
        name: list(classes.values()).count(name) for name in set(classes.values())
    }
    assert sum(r.count for r in told.rows) == told.wrong == plain.wrong == len(classes)
    doubted = sum(r.count for r in told.rows if r.error_class == "suspect_gold")
    assert sum(told.suspect_reasons.values()) == sum(r.suspect for r in told.rows) == doubted
    restored = {r.error_class: r.count + r.suspect for r in told.rows if r.error_class != "suspect_gold"}
    assert {k: v for k, v in restored.items() if v} == {r.error_class: r.count for r in plain.rows if r.count}


@pytest.mark.parametrize("outcome", ["unparsed", "truncated", "refused", "error"])
def test_a_question_without_an_answer_failed_whatever_its_gold_is(make_trace: MakeTrace, outcome: Outcome) -> None:
    assert classify_error(make_trace("q", None, outcome=outcome), {G}, suspect=True) == outcome


def test_doubt_in_the_gold_comes_before_the_place_where_its_page_was_lost(make_trace: MakeTrace) -> None:
    lost = make_trace("q1", "B", rounds=[([X], [X], [X])], gold_pages=[G])
    table = error_taxonomy([lost, make_trace("q2")], suspect={"q1": "key disputed: A or B", "q2": "key disputed: C"})
    rows = {r.error_class: (r.count, r.suspect) for r in table.rows}
    assert (rows["suspect_gold"], rows["retrieval_miss"]) == ((1, 0), (0, 1))
    assert table.suspect_reasons == {"key disputed": 1}  # the right answer is no error, doubted or not


def test_evidence_of_right_answers_is_followed_too(make_trace: MakeTrace) -> None:
    assert furthest(make_trace("q", "A", rounds=[([X], [X], [X])]), {G}) is Reached.NOT_FOUND
    assert furthest(make_trace("q", "A", rounds=[([G], [G], [G])]), {G, H}) is Reached.SHOWN
    assert furthest(make_trace("q", "A", rounds=[([G], [G], [G])]), None) is None
    assert furthest(make_trace("q", "A"), {G}) is None


@settings(deadline=None)
@given(st.lists(stages, min_size=1, max_size=3))
def test_needing_all_pages_never_moves_an_error_downstream(make_trace: MakeTrace, rounds: list) -> None:
    trace = make_trace("q", "B", rounds=rounds)
    place = {need: ERROR_CLASSES.index(classify_error(trace, {G, H}, need=need)) for need in ("any", "all")}
    assert place["all"] <= place["any"]


def test_a_question_whose_judged_pages_are_all_irrelevant_lost_its_evidence_in_retrieval(make_trace: MakeTrace) -> None:
    traces = [make_trace("q", "B", rounds=[([X], [X], [X])])]
    for need in ("any", "all"):
        assert error_classes(traces, {"q": frozenset()}, need=need) == {"q": "retrieval_miss"}
        assert error_classes(traces, {}, need=need) == error_classes(traces, need=need) == {"q": "unlabeled"}


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
