from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medvrag_core.errors import MedvragError
from medvrag_core.evaluation.errors.paper_taxonomy import (
    PAPER_CLASSES,
    page_fates,
    paper_classes,
    printed_findings,
    taxonomies_side_by_side,
)
from medvrag_core.evaluation.errors.taxonomy import classify_error
from medvrag_core.records import Trace

MakeTrace = Callable[..., Trace]
G, H, X = "g#p1", "h#p1", "x#p1"
STAGES = {
    "not found": ([X], [X], [X]),
    "dropped": ([X, G], [X], [X]),
    "kept": ([X, G], [X, G], [X]),
    "shown": ([X, G], [X, G], [X, G]),
}

pages = st.lists(st.sampled_from([G, H, X]), unique=True)
stages = st.tuples(pages, pages, pages).map(
    lambda s: (s[0], [p for p in s[0] if p in s[1]], [p for p in s[0] if p in s[1] and p in s[2]])
)
cases = st.lists(
    st.tuples(
        st.lists(stages, max_size=3),
        st.sampled_from([("B", None), ("B", None), (None, "unparsed"), (None, "error"), ("A", None)]),
        st.sampled_from([(), (G,), (G, H)]),
    ),
    min_size=1,
    max_size=8,
)


def _as_printed(trace: Trace) -> set[str]:
    """The definitions once more, straight from the paper's words, on plain lists."""
    gold = set(trace.question.gold_pages)
    top_100 = [set(r.filter.kept) & gold for r in trace.rounds]
    top_2000 = [{h.page_id for h in r.stage1} & gold for r in trace.rounds]
    found = set()
    if all(not top for top in top_100):
        found.add("retrieval_miss")
    if any(page not in top_100[i] for i, top in enumerate(top_2000) for page in top):
        found.add("filter_miss")
    if trace.label is not None and any(set(r.shown) & gold for r in trace.rounds):
        found.add("misread")
    if any(top_100[i] and not top_100[j] for j in range(len(top_100)) for i in range(j)):
        found.add("round_drift")
    return found


def _traces(make_trace: MakeTrace, drawn: list) -> list[Trace]:
    return [
        make_trace(f"q{i}", label, rounds=rounds, outcome=outcome, gold_pages=gold)
        for i, (rounds, (label, outcome), gold) in enumerate(drawn)
    ]


@settings(deadline=None)
@given(cases)
def test_the_printed_definitions_are_applied_to_the_letter(make_trace: MakeTrace, drawn: list) -> None:
    for trace in _traces(make_trace, drawn):
        if trace.label == "A":
            with pytest.raises(MedvragError, match="answered right"):
                paper_classes(trace, {G})
            continue
        found = paper_classes(trace, set(trace.question.gold_pages) or None)
        if found is None:
            assert not trace.question.gold_pages or not any(r.stage1 for r in trace.rounds)
        else:
            assert set(found) == _as_printed(trace)
            assert list(found) == [name for name in PAPER_CLASSES if name in found]


@settings(deadline=None)
@given(cases, st.permutations(PAPER_CLASSES), st.sampled_from([{}, {"q0": "disputed", "q1": "disputed"}]))
def test_the_report_counts_every_error_and_both_taxonomies_cross(
    make_trace: MakeTrace, drawn: list, order: list, suspect: dict
) -> None:
    traces = _traces(make_trace, drawn)
    both = taxonomies_side_by_side(traces, suspect=suspect)
    paper = both.paper
    rows = {row.paper_class: row for row in paper.rows}
    wrong = [t for t in traces if not t.correct]
    judged = [f for t in wrong if (f := paper_classes(t, set(t.question.gold_pages) or None)) is not None]
    assert (paper.wrong, paper.unjudged) == (len(wrong), len(wrong) - len(judged))
    assert sum(r.alone for r in paper.rows) + paper.several.count + paper.none.count == len(judged)
    assert {r.found.n for r in paper.rows} == {paper.several.n} == {paper.none.n} == {len(judged)}
    for a in PAPER_CLASSES:
        assert rows[a].overlap[a] == rows[a].found.count
        assert all(rows[a].overlap[b] == rows[b].overlap[a] <= rows[b].found.count for b in PAPER_CLASSES)
    # Whichever definition is tried first, one class an error lands between the two counts of the row.
    first = [next(name for name in order if name in found) for found in judged if found]
    assert all(rows[name].alone <= first.count(name) <= rows[name].found.count for name in PAPER_CLASSES)
    assert [(r.error_class, r.count) for r in both.rows] == [(r.error_class, r.count) for r in both.ours.rows]
    assert sum(r.several for r in both.rows) == paper.several.count
    assert sum(r.none for r in both.rows) == paper.none.count
    assert all(sum(r.found[name] for r in both.rows) == rows[name].found.count for name in PAPER_CLASSES)


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_fates_are_those_of_traces(make_trace: MakeTrace, rounds: int) -> None:
    fates = page_fates(rounds)
    assert len({fate.stages for fate in fates}) == len(fates) == sum(4**k for k in range(1, rounds + 1))
    for fate in fates:
        trace = make_trace("q", "B", rounds=[STAGES[stage] for stage in fate.stages])
        assert (classify_error(trace, {G}), paper_classes(trace, {G})) == (fate.ours, fate.paper)


def test_the_definitions_neither_exclude_each_other_nor_cover_every_error() -> None:
    paper = {fate.stages: fate.paper for fate in page_fates()}
    assert paper["dropped",] == ("retrieval_miss", "filter_miss")  # one round: a filter miss is a retrieval miss
    assert paper["kept",] == ()  # rank 11 to 100: no class at all
    assert paper["shown", "dropped"] == ("filter_miss", "misread", "round_drift")


def test_no_relevant_page_at_all_is_none_in_the_top_100(make_trace: MakeTrace) -> None:
    assert paper_classes(make_trace("q", "B", rounds=[STAGES["shown"]]), set()) == ("retrieval_miss",)


def test_what_the_paper_prints_stands_beside(make_trace: MakeTrace) -> None:
    rows = taxonomies_side_by_side([make_trace("q", "B", rounds=[STAGES["kept"]], gold_pages=[G])]).paper.rows
    assert [row.printed for row in rows] == ["~35.9", "~19.7", "~29.5", "~14.9"]
    assert {row.found.count for row in rows} == {0}
    assert {finding.id: finding.verdict for finding in printed_findings()} == {
        "taxonomy-sum": "holds",
        "taxonomy-counts": "fails",
    }
