from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvrag_core.evaluation.cost.latency import LatencyRow
from medvrag_core.evaluation.retrieval.metrics import RetrievalReport
from medvrag_core.evaluation.scoring import AccuracyReport
from medvrag_core.views.markup import escape
from medvrag_core.views.tables import (
    HtmlTable,
    arms_table,
    latency_table,
    retrieval_table,
    seconds,
)


@given(st.lists(st.lists(st.text() | st.integers() | st.none(), min_size=2, max_size=2), max_size=4), st.text())
def test_every_cell_is_escaped_and_kept(rows: list[list[object]], caption: str) -> None:
    html = HtmlTable(["<a>", "b"], rows, caption=caption).html
    assert html.count("<td") == 2 * len(rows)
    assert html.count("<th ") == 2
    assert html.count("<tr>") == len(rows) + 1
    assert all(escape(value) in html for row in rows for value in row)
    assert "<a>" not in html


def test_arms_show_counts_intervals_and_incompleteness() -> None:
    arm = AccuracyReport(
        system="x", profile="cpu", n=10, expected=12, missing=2, correct=5, wrong=2, unparsed=1, errors=2,
        accuracy=0.5, unparsed_rate=0.1, error_rate=0.2, low=0.237, high=0.763, complete=False,
    )  # fmt: skip
    html = arms_table([arm]).html
    for part in ("5 of 10", "50.0%", "[23.7%, 76.3%]", "10.0%", "20.0%", "no (10 of 12 questions, 2 errors)"):
        assert part in html


def test_latency_stands_beside_the_paper_and_unknown_times_are_dashes() -> None:
    rows = [
        LatencyRow(
            step="ann",
            label="ANN",
            n=3,
            mean=0.0025,
            median=0.002,
            p10=0.001,
            p25=0.001,
            p75=0.003,
            p90=0.004,
            paper=0.0021,
        ),
        LatencyRow(step="encode_query", label="Query encoding", n=0),
    ]
    html = latency_table(rows).html
    assert "2.1 ms</td></tr>" in html
    assert "1 ms to 4 ms" in html and ">2.5 ms</td>" in html
    assert html.count(">–</td>") == 5


def test_retrieval() -> None:
    report = RetrievalReport(
        n=50, unranked=0, recall={10: 0.61, 100: 0.9}, any_gold={}, ndcg_at_10=0.5, mrr=0.4, mrr_at_10=0.375
    )
    html = retrieval_table({"BM25": report}).html
    assert "recall@100" in html and "0.610" in html
    assert html.index("MRR<") < html.index("MRR@10<") and html.index("0.400") < html.index("0.375")


@pytest.mark.parametrize(("value", "text"), [(0.0, "0 ms"), (0.99949, "999 ms"), (59.96, "60.0 s")])
def test_seconds_in_the_unit_that_reads_best(value: float, text: str) -> None:
    assert seconds(value) == text
