from __future__ import annotations

from collections.abc import Callable

from medvrag_core.evaluation.error_labels import ErrorLabel
from medvrag_core.evaluation.error_report import error_report
from medvrag_core.records import Trace
from medvrag_core.settings import EvaluationSettings

G, H, X = "g#p1", "h#p1", "x#p1"


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
