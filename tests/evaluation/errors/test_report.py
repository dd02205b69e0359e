from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from medvrag_core.evaluation.errors.by_hand import ErrorLabel
from medvrag_core.evaluation.errors.report import error_report
from medvrag_core.evaluation.errors.taxonomy import without_other_candidates
from medvrag_core.records import Trace
from medvrag_core.settings import EvaluationSettings

G, H, X = "g#p1", "h#p1", "x#p1"


pages = st.lists(st.sampled_from([G, H, X, f"{G}#c1", f"{G}2"]), unique=True)
stages = st.tuples(pages, pages, pages).map(
    lambda s: (s[0], [p for p in s[0] if p in s[1]], [p for p in s[1] if p in s[2]])
)


@settings(deadline=None, max_examples=40)
@given(
    st.lists(
        st.tuples(st.lists(stages, max_size=3), st.sampled_from(["A", "B", None]), st.sampled_from([(), (G,), (G, H)])),
        min_size=1,
        max_size=5,
    ),
    st.sampled_from([None, {"q0": {G}, "q1": frozenset()}]),
)
def test_nothing_depends_on_other_candidates(
    make_trace: Callable[..., Trace], drawn: list, relevant: dict | None
) -> None:
    traces = [
        make_trace(f"q{i}", label, rounds=rounds, gold_pages=gold) for i, (rounds, label, gold) in enumerate(drawn)
    ]
    small = [without_other_candidates(trace, relevant) for trace in traces]
    few = EvaluationSettings(bootstrap_samples=20)
    assert error_report(small, relevant, settings=few) == error_report(traces, relevant, settings=few)
    kept = {hit.page_id for trace in small for r in trace.rounds for hit in r.stage1[1:]}
    assert X not in kept


def test_one_report_holds_every_view_of_the_same_errors(make_trace: Callable[..., Trace]) -> None:
    traces = [
        make_trace("both", "B", rounds=[([G, X], [G], [G])], gold_pages=[G, H]),
        make_trace("doubted", "B", rounds=[([G], [G], [G])], gold_pages=[G]),
        make_trace("right", "A", rounds=[([X], [X], [X])], gold_pages=[G]),
    ]
    report = error_report(
        traces,
        suspect={"doubted": "relabeled"},
        labels=[ErrorLabel(id="both", error_class="misread", rater="ana")],
        settings=EvaluationSettings(confidence=0.8),
    )
    furthest, first = (
        {row.error_class: row.count for row in taxonomy.rows if row.count}
        for taxonomy in (report.taxonomies.ours, report.lost_first)
    )
    assert furthest == {"misread": 1, "suspect_gold": 1}
    assert first == {"retrieval_miss": 1, "suspect_gold": 1}  # the second gold page was never found
    assert {row.place: row.right.n for row in report.flow.rows if row.right.n} == {"shown": 2, "not_found": 1}
    assert report.grounding.rows[0].answers == 3
    assert report.checked is not None
    assert (report.checked.agree.count, report.checked.not_labeled) == (1, 1)
    wide = error_report(traces)
    assert wide.checked is None
    assert wide.flow.rows[0].right.high > report.flow.rows[0].right.high  # 95% instead of 80%
