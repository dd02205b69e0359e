from __future__ import annotations

import json

import pytest

from medvrag_core.evaluation.errors.by_hand import HumanCheck
from medvrag_core.evaluation.errors.evidence_flow import EvidenceFlow, FlowRow
from medvrag_core.evaluation.errors.paper_taxonomy import (
    PAPER_CLASSES,
    BothTaxonomies,
    ErrorCase,
    PaperRow,
    PaperTaxonomy,
    SideRow,
    page_fates,
)
from medvrag_core.evaluation.errors.taxonomy import ERROR_CLASSES, ErrorRow, ErrorTaxonomy
from medvrag_core.evaluation.statistics.means import Estimate
from medvrag_core.evaluation.statistics.shares import share_of
from medvrag_core.records import Outcome, Question, Trace
from medvrag_core.views.error_view import (
    ERROR_LABELS,
    both_taxonomies_figure,
    both_taxonomies_table,
    cases_table,
    fates_table,
    flow_figure,
    flow_table,
    human_check_table,
    overlap_table,
    taxonomy_table,
)

NONE = dict.fromkeys(PAPER_CLASSES, 0)
BOTH = BothTaxonomies(
    ours=ErrorTaxonomy(
        system="<b>arm</b>", profile="cpu", n=20, wrong=10, need="any", suspect_reasons={"<i>disputed</i>": 2},
        rows=(
            ErrorRow(error_class="retrieval_miss", count=0, share=0.0, low=0.0, high=0.28),
            ErrorRow(error_class="filter_miss", count=7, share=0.7, low=0.4, high=0.9, suspect=2),
            ErrorRow(error_class="round_drift", count=0, share=0.0, low=0.0, high=0.28),
            ErrorRow(error_class="misread", count=1, share=0.1, low=0.02, high=0.4),
            ErrorRow(error_class="suspect_gold", count=2, share=0.2, low=0.06, high=0.5),
        ),
    ),
    paper=PaperTaxonomy(
        system="<b>arm</b>", profile="cpu", n=20, wrong=10, unjudged=1, several=share_of(6, 9), none=share_of(2, 9),
        rows=tuple(
            PaperRow(paper_class=c, found=share_of(k, 9), alone=alone, overlap=NONE | {c: k}, printed=f"~{k}.5")
            for c, k, alone in zip(PAPER_CLASSES, (6, 7, 1, 0), (0, 1, 0, 0), strict=True)
        ),
    ),
    rows=(
        SideRow(error_class="retrieval_miss", count=0, found=NONE, several=0, none=0),
        SideRow(error_class="filter_miss", count=7, found=NONE | {"filter_miss": 7, "misread": 1}, several=6, none=0),
        SideRow(error_class="round_drift", count=0, found=NONE, several=0, none=0),
        SideRow(error_class="misread", count=1, found=NONE, several=0, none=1),
        SideRow(error_class="suspect_gold", count=2, found=NONE, several=0, none=1),
    ),
)  # fmt: skip
FLOW = EvidenceFlow(
    system="arm", profile="cpu", n=7, left_out=3, need="any",
    rows=(
        FlowRow(place="shown", right=share_of(3, 5), wrong=1, unanswered=1),
        FlowRow(place="drifted", right=share_of(0, 0), wrong=0, unanswered=0),
        FlowRow(place="not_found", right=share_of(1, 2), wrong=1, unanswered=0),
    ),
)  # fmt: skip


def test_both_taxonomies_stand_in_one_table_with_counts_intervals_and_the_printed_shares() -> None:
    html = both_taxonomies_table(BOTH, caption="profile cpu").html
    for part in ("7 (+2 suspect)", "70.0% [40.0, 90.0]", "~6.5%", "~0.5%", "66.7% [35.4, 87.9]", "share of 9 judged",
                 "10 of 20 questions wrong", "1 cannot be judged", "&lt;i&gt;disputed&lt;/i&gt; 2"):  # fmt: skip
        assert part in html
    assert "<b>arm" not in html
    # Those to which no definition can be applied are told in the caption, not counted as meeting none.
    assert ">6</td><td" in html and ">2</td></tr>" in html
    assert html.count("<tr>") == 1 + 5 + 4


def test_the_classes_alone() -> None:
    html = taxonomy_table(BOTH.ours).html
    for part in ("share of 10 wrong", "Filter miss: dropped by the filter", ">7 (+2 suspect)<", ">70.0% [40.0, 90.0]<"):
        assert part in html


def test_every_class_has_a_name() -> None:
    assert set(ERROR_LABELS) == set(ERROR_CLASSES)


def test_overlap_and_fates() -> None:
    assert overlap_table(BOTH.paper).html.count("<td") == 4 * 5
    html = fates_table(page_fates()).html
    assert html.count("<tr>") == 1 + 4 + 16
    assert ">(ii) filter miss and (iii) misinterpretation and (iv) round drift</td>" in html
    assert ">none</td>" in html


def _trace(id: str, label: str | None, outcome: Outcome) -> Trace:
    question = Question(id=id, question="?", options={"A": "a", "B": "b"}, answer="A")
    known = {"system": "arm", "profile": "cpu", "fingerprint": "f", "rounds": (), "seconds": 1.0}
    return Trace(question=question, outcome=outcome, label=label, **known)


def test_every_wrong_answer_is_listed_with_both_its_classes() -> None:
    traces = [_trace("right", "A", "answered"), _trace("<q1>", "B", "answered"), _trace("q2", None, "truncated")]
    cases = [
        ErrorCase(question_id="<q1>", error_class="misread", paper=("filter_miss", "misread")),
        ErrorCase(question_id="q2", error_class="truncated", paper=None),
    ]
    html = cases_table(cases, traces).html
    for part in ("&lt;q1&gt;", ">(ii) filter miss and (iii) misinterpretation<", ">(truncated)<", ">cannot be judged<"):
        assert part in html
    assert html.count("<tr>") == 3


def test_classes_given_by_hand_stand_across_the_computed_ones() -> None:
    found = HumanCheck(
        rater="<ana>", n=5, not_labeled=7, agree=share_of(3, 5), kappa=Estimate(value=0.41, low=-0.2, high=0.93),
        confusion={"filter_miss": {"filter_miss": 1, "misread": 2}, "misread": {"misread": 2}},
        computed={"filter_miss": share_of(3, 5), "misread": share_of(2, 5)},
        by_hand={"filter_miss": share_of(1, 5), "misread": share_of(4, 5)},
    )  # fmt: skip
    html = human_check_table(found).html
    for part in ("&lt;ana&gt;", "5 of 12 wrong answers", "kappa 0.41 [-0.20, 0.93]", "agreement 3 of 5: 60.0%",
                 ">80.0% [37.6, 96.4]<", ">60.0% [23.1, 88.2]<"):  # fmt: skip
        assert part in html
    assert html.count("<tr>") == 1 + 2 + 2
    undefined = human_check_table(found.model_copy(update={"kappa": None})).html
    assert "kappa undefined: one class alone" in undefined
    assert "no labels by hand" in human_check_table(None).html


def test_the_figure_draws_ours_and_the_range_of_the_papers_definitions_on_the_line_of_the_class() -> None:
    figure = both_taxonomies_figure(BOTH, caption="profile cpu")
    *ranges, none, ours, printed = figure.data
    filter_miss = ranges[1]
    assert list(filter_miss.x) == pytest.approx([100 / 9, 700 / 9])
    assert {round(y) for y in filter_miss.y} == {1} == {round(ours.y[1])}  # the second line, though ours has five
    assert {round(y) for y in ranges[2].y} == {3}
    assert list(ours.x) == [0.0, 70.0, 0.0, 10.0, 20.0]
    assert ours.error_x.array[1] == pytest.approx(20.0)
    assert list(printed.x) == [6.5, 7.5, 1.5, 0.5]
    assert none.x[0] == pytest.approx(200 / 9)
    ticks = figure.layout.yaxis.ticktext
    assert (len(ticks), ticks[1]) == (6, "Filter miss<br>7 of 10")


def test_the_flow_keeps_every_question_on_its_way() -> None:
    figure = flow_figure(FLOW)
    link, labels = figure.data[0].link, list(figure.data[0].node.label)
    places, ends = (
        ["shown in the last round: 5", "not among the candidates: 2"],
        ["right: 4", "wrong: 2", "no answer: 1"],
    )
    assert labels == ["7 questions", *places, *ends]
    for node, label in enumerate(labels):
        into = sum(v for t, v in zip(link.target, link.value, strict=True) if t == node)
        out = sum(v for s, v in zip(link.source, link.value, strict=True) if s == node)
        assert {into, out} - {0} == {int(label.split()[-1]) if node else 7}
    html = flow_table(FLOW).html
    assert "60.0% [23.1, 88.2]" in html
    assert "7 questions, 3 without gold page or retrieval left out" in html
    assert ">–</td></tr>" in html


def test_figures_name_the_profile_and_draw_the_same_every_time() -> None:
    for figure in (both_taxonomies_figure(BOTH, caption="profile cpu"), flow_figure(FLOW, caption="profile cpu")):
        assert json.loads(figure.to_json())["layout"]["title"]["subtitle"]["text"] == "profile cpu"
    assert both_taxonomies_figure(BOTH).to_json() == both_taxonomies_figure(BOTH).to_json()


def test_a_run_without_errors_can_be_drawn() -> None:
    empty = BOTH.model_copy(
        update={"paper": BOTH.paper.model_copy(update={"none": share_of(0, 0), "several": share_of(0, 0), "rows": tuple(
            row.model_copy(update={"found": share_of(0, 0), "alone": 0}) for row in BOTH.paper.rows)})}
    )  # fmt: skip
    assert list(both_taxonomies_figure(empty).data[0].x) == [0.0, 0.0]
    assert "–" in both_taxonomies_table(empty).html
