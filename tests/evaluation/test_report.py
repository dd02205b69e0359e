from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from medvrag_core.evaluation.report import RunReport, run_report, write_report
from medvrag_core.records import Trace

MakeTrace = Callable[..., Trace]
G = "g#p1"
OTHERS = [f"x#p{n}" for n in range(1, 40)]


def test_report_of_a_small_run(make_trace: MakeTrace, tmp_path: Path) -> None:
    seen = [([*OTHERS[:2], G], [G, *OTHERS[:2]], [G])]
    late = [([*OTHERS[:20], G], OTHERS[:9], OTHERS[:9])]
    traces = [
        make_trace("q1", "A", rounds=seen, gold_pages=[G], seconds=1.0),
        make_trace("q2", "B", rounds=late * 2, gold_pages=[G], seconds=2.0, options=2),
        make_trace("q3", None, rounds=seen, seconds=9.0),
    ]
    report = run_report(traces)
    assert (report.n, report.accuracy, report.unparsed_rate, report.complete) == (3, 1 / 3, 1 / 3, True)
    assert (report.recall_at_10, report.recall_at_100) == (0.5, 1.0)
    assert (report.filtered_recall_at_10, report.filtered_recall_at_100) == (0.5, 0.5)
    assert report.ndcg_at_10 == pytest.approx(0.25)
    assert (report.seconds_per_question, report.seconds_per_question_mean) == (2.0, 4.0)
    assert report.chance == pytest.approx((0.25 + 0.5 + 0.25) / 3)
    assert report.questions_with_gold_pages == 2
    path = tmp_path / "report.json"
    write_report(path, report)
    data = json.loads(path.read_text())
    assert data["rounds"] == {"1": 2, "2": 1}
    assert RunReport.from_json(path.read_text()) == report


def test_retrieval_is_null_without_gold_pages_or_without_retrieval(make_trace: MakeTrace) -> None:
    unlabeled = run_report([make_trace("q", rounds=[([G], [G], [G])])])
    no_rag = run_report([make_trace("q", gold_pages=[G])])
    for report in (unlabeled, no_rag):
        assert (report.recall_at_10, report.ndcg_at_10, report.filtered_recall_at_10) == (None, None, None)


def test_chunks_count_as_their_page_once(make_trace: MakeTrace) -> None:
    chunks = [f"x#p1#c{n}" for n in range(1, 11)] + ["g#p1#c2"]
    report = run_report([make_trace("q", rounds=[(chunks, chunks, chunks[:2])], gold_pages=[G])])
    assert report.recall_at_10 == 1.0


def test_an_error_before_retrieval_counts_against_recall(make_trace: MakeTrace) -> None:
    good = make_trace("q1", rounds=[([G], [G], [G])], gold_pages=[G])
    bad = make_trace("q2", None, outcome="error", rounds=[], gold_pages=[G])
    report = run_report([good, bad], expected=3)
    assert (report.recall_at_10, report.error_rate, report.complete) == (0.5, 0.5, False)
    assert report.rounds == {0: 1, 1: 1}
