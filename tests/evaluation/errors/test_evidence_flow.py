from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from medvrag_core.evaluation.errors.evidence_flow import evidence_flow
from medvrag_core.evaluation.errors.taxonomy import ERROR_CLASSES, error_classes
from medvrag_core.records import Trace

MakeTrace = Callable[..., Trace]
G, X = "g#p1", "x#p1"
CLASS_OF = dict(zip(("not_found", "dropped", "not_shown", "drifted", "shown"), ERROR_CLASSES[:5], strict=True))

pages = st.lists(st.sampled_from([G, X]), unique=True)
stages = st.tuples(pages, pages, pages).map(
    lambda s: (s[0], [p for p in s[0] if p in s[1]], [p for p in s[0] if p in s[1] and p in s[2]])
)
cases = st.tuples(st.lists(stages, max_size=3), st.sampled_from(["A", "B", None]), st.booleans())


@settings(deadline=None)
@given(st.lists(cases, min_size=1, max_size=10), st.sampled_from(["any", "all"]))
def test_every_question_is_at_one_place_and_wrong_ones_where_the_taxonomy_has_them(
    make_trace: MakeTrace, drawn: list, need: str
) -> None:
    traces = [
        make_trace(f"q{i}", label, rounds=rounds, gold_pages=[G] if labeled else [])
        for i, (rounds, label, labeled) in enumerate(drawn)
    ]
    flow = evidence_flow(traces, need=need)
    assert flow.n + flow.left_out == len(traces)
    assert sum(row.right.n for row in flow.rows) == flow.n
    assert all(row.right.count + row.wrong + row.unanswered == row.right.n for row in flow.rows)
    classes = list(error_classes(traces, need=need).values())
    assert {CLASS_OF[row.place]: row.wrong for row in flow.rows} == {c: classes.count(c) for c in ERROR_CLASSES[:5]}


def test_right_answers_without_evidence_are_seen(make_trace: MakeTrace) -> None:
    lucky = make_trace("q1", "A", rounds=[([X], [X], [X])], gold_pages=[G])
    cut = make_trace("q2", None, outcome="truncated", rounds=[([G], [G], [G])], gold_pages=[G])
    rows = {row.place: row for row in evidence_flow([lucky, cut, make_trace("q3", gold_pages=[G])]).rows}
    assert (rows["not_found"].right.count, rows["shown"].unanswered) == (1, 1)
    assert list(rows) == ["shown", "drifted", "not_shown", "dropped", "not_found"]
