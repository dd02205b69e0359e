from __future__ import annotations

import pytest

from medvrag_core.evaluation.labels.relevance import RelevanceLabel
from medvrag_core.evaluation.retrieval.exact_overlap import ExactOverlap, OverlapRow, SearchedWay
from medvrag_core.evaluation.retrieval.paired import PairedRetrieval
from medvrag_core.evaluation.retrieval.report import stage_report
from medvrag_core.evaluation.retrieval.stages import STAGES, Stage, StageRank, StageRecall, StageRow
from medvrag_core.evaluation.statistics.means import Estimate
from medvrag_core.records import (
    FilterDecision,
    Hit,
    MemoryBank,
    ParsedReply,
    Question,
    ReaderReply,
    Round,
    Trace,
)
from medvrag_core.settings import Profile
from medvrag_core.views import retrieval_view as view
from medvrag_core.views.retrieval_text import stage_report_text

PAIR = PairedRetrieval(
    a="<stage1>",
    b="bm25",
    metric="nDCG@10",
    n=103,
    mean_a=0.873,
    mean_b=0.89,
    won=25,
    lost=18,
    difference=0.017,
    low=-0.019,
    high=0.052,
    confidence=0.95,
    p_value=0.376,
    p_adjusted=0.0004,
    family=6,
)


def estimate(value: float) -> Estimate:
    return Estimate(value=value, low=max(0.0, value - 0.1), high=min(1.0, value + 0.1))


def row(stage: Stage, k: int, value: float, judged: float | None = None) -> StageRow:
    shares = {name: estimate(value) for name in ("recall", "any_gold", "all_gold")}
    return StageRow(stage=stage, k=k, judged=judged, **shares)


def recall(**more: object) -> StageRecall:
    values = {
        "system": "<arm>",
        "profile": "cpu",
        "rounds": "first",
        "gold": "gold_pages",
        "questions": 8,
        "without_gold": 0,
        "unranked": 0,
        "gold_pages": 9,
        "confidence": 0.95,
        "rows": (row("candidates", 1, 0.5), row("candidates", 2, 1.0), row("kept", 2, 0.9), row("shown", 1, 0.4)),
        "ranks": tuple(StageRank(stage=s, ndcg_at_10=estimate(0.8), mrr=estimate(0.7)) for s in STAGES),
    }
    return StageRecall.model_validate(values | more)


def test_no_comparison_is_shown_without_counts_interval_and_adjusted_p() -> None:
    html = view.paired_retrieval_table([PAIR]).html
    for shown in ("103", "25 / 18", "+0.017", "[-0.019, +0.052]", "0.376", "0.0004", "&lt;stage1&gt;", "Holm p"):
        assert shown in html
    figure = view.paired_retrieval_figure([PAIR])
    text = figure.data[0].text[0]
    assert "won 25, lost 18" in text and "0.0004" in text
    assert figure.data[0].y[0].startswith("bm25<br>over &lt;stage1&gt;<br>")
    assert figure.data[0].error_x.array[0] == pytest.approx(0.035)
    assert "103 questions" in figure.layout.xaxis.title.text


def test_every_stage_and_depth_has_its_row_with_intervals() -> None:
    html = view.stage_recall_table(recall(), caption="c").html
    assert html.count("candidates of Stage 1") == 2
    assert "0.500 [0.400, 0.600]" in html and "&lt;arm&gt;" in html and "8 questions with 9 relevant pages" in html
    assert "pages labeled" not in html
    # The rank of gold pages belongs to a stage, not to a depth.
    assert (html.count("0.700 ["), html.count("–")) == (3, 2)
    figure = view.stage_funnel(recall())
    assert list(figure.data[0].x) == [50.0, 100.0, 90.0, 40.0]
    assert figure.layout.yaxis.ticktext[0] == "candidates of Stage 1, first 1"
    assert figure.data[0].error_x.arrayminus[0] == pytest.approx(10)


def test_labels_add_how_many_pages_were_labeled() -> None:
    labeled = recall(gold="labels", rows=(row("candidates", 10, 0.5, judged=0.25),), ranks=())
    html = view.stage_recall_table(labeled).html
    assert "pages labeled" in html and "25%" in html


def trace() -> Trace:
    return Trace(
        system="arm\x1b[2J",
        profile="cpu",
        fingerprint="f",
        question=Question(id="q", question="?", options={"A": "x"}, gold_pages=("a#p1",)),
        rounds=(
            Round(
                number=1,
                query="?",
                stage1=(Hit(page_id="a#p2", score=1.0, rank=1), Hit(page_id="a#p1", score=0.5, rank=2)),
                filter=FilterDecision(kept=("a#p1",)),
                shown=("a#p1",),
                bank_before=MemoryBank(),
                reply=ReaderReply(text=""),
                parsed=ParsedReply(),
                times=(),
            ),
        ),
        outcome="unparsed",
        label=None,
        seconds=0.0,
    )


def test_the_report_reads_well_in_a_terminal() -> None:
    one = trace()
    labels = [RelevanceLabel(question_id="q", page_id="a#p1", rater="r", label="relevant")]
    told = stage_report_text(stage_report([one], Profile(name="p"), labels=labels, cuts=(1,)))
    assert view.CHUNKS_COUNT not in told
    assert "\x1b" not in told
    assert "1 question with 1 relevant pages" in told
    assert "0% of these pages labeled" in told and "100% of these pages labeled" in told
    assert "filter: 1 of 1 gold pages came in; kept 1" in told
    hits = tuple(Hit(page_id=f"a#p{n}#c{n}", score=1.0, rank=n) for n in (1, 2))
    round_ = one.rounds[0].model_copy(update={"stage1": hits})
    chunks = stage_report([one.model_copy(update={"rounds": (round_,)})], Profile(name="p"))
    assert view.CHUNKS_COUNT in stage_report_text(chunks)
    assert view.CHUNKS_COUNT in view.stage_recall_table(chunks.recall).html


def overlap(**more: object) -> ExactOverlap:
    def searched(mode: str, proved: int, **way: object) -> SearchedWay:
        found = OverlapRow(k=10, overlap=Estimate(value=0.8, low=0.7, high=0.9), identical=5, proved=proved)
        values = {"mode": mode, "own": True, "whole": False, "rescore": 20, "seconds": 0.002, "steps": ()}
        return SearchedWay.model_validate({**values, "rows": (found,), **way})

    ways = (
        searched("exact", 6, whole=True, steps=({"step": "exact", "seconds": 0.0015},)),
        searched("exact", 7, whole=True, rescore=52),
        searched("fast", 0, shortlist=25),
        searched("fast", 4, shortlist=4_000, whole=True),
        searched("paper", 0, shortlist=4_000, ann_neighbors=9),
    )
    values = {"queries": 7, "pages": 52, "backward_weight": 0.5, "searched": ways, "left_out": {}}
    return ExactOverlap.model_validate(values | more)


def test_agreement_that_shows_nothing_says_so() -> None:
    html = view.overlap_table(overlap()).html
    notes = (">no finding<", "the shortlist holds every page")
    assert [html.count(note) for note in notes] == [1, 1]
    rows = [row.split("</tr>")[0] for row in html.split("<tr>")[2:]]
    cells = [[cell.split(">")[-1] for cell in row.split("</td>")[:-1]] for row in rows]
    assert cells[0] == [
        *("exact", "–", "–", "20", "10", "0.800 [0.700, 0.900]", "5 of 7", "6 of 7", "2 ms", "exact 1.5 ms", ""),
    ]
    assert cells[4][:4] == ["paper", "9", "4,000", "20"] and cells[4][-1] == ""
    assert "second half of S weighted 0.5" in html and "the first row is mode exact as the profile has it" in html
    left = overlap(left_out={"paper": "no <ANN>"})
    assert "mode paper is left out: no &lt;ANN&gt;" in view.overlap_table(left).html


def test_the_modes_read_well_in_a_terminal() -> None:
    labels = [RelevanceLabel(question_id="q", page_id="a#p1", rater="r", label="relevant")]
    report = stage_report([trace()], Profile(name="p"), labels=labels, cuts=(1,))
    told = stage_report_text(report.model_copy(update={"exact": overlap(left_out={"paper": "none\x1b[2J"})}))
    lines = told.splitlines()
    assert "the modes of the index beside exact search: 7 queries, 52 pages; time is the median of one search" in told
    assert "  mode paper, 9 centroids a query vector, shortlist 4,000, 20 scored anew: 2 ms" in lines
    assert "    first 10: 0.800 [0.700, 0.900] found, 5 queries in the same order, 6 proved" in lines
    assert "52 scored anew: 2 ms; no finding" in told
    assert "  mode paper is left out: none" in told and "\x1b" not in told
