"""Whole systems side by side: every number of the main table by hand, and chapter 09 on a handful of questions."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from medvrag_core.evaluation.cost.bill import CostReport, cost_report
from medvrag_core.evaluation.main_results import MAIN_RESULTS, REFERENCE, Compared, over_reference
from medvrag_core.evaluation.questions import write_questions
from medvrag_core.evaluation.retrieval.shown import Shown, shown_pages, shown_report
from medvrag_core.evaluation.scoring import AccuracyReport, accuracy_report
from medvrag_core.evaluation.statistics.contrasts import Contrast, compare_arms
from medvrag_core.profiles.load import load_profile
from medvrag_core.records import (
    EvidenceItem,
    FilterDecision,
    MemoryBank,
    ParsedReply,
    Question,
    ReaderReply,
    Round,
    StageTime,
    Step,
    Trace,
)
from medvrag_core.runs.stage import begin_stage, read_stage
from medvrag_core.runs.workspace import Workspace
from medvrag_core.settings import EvaluationSettings
from medvrag_core.views.publishing.runner import run_chapters
from medvrag_core.views.systems_view import (
    composition_chart,
    cost_accuracy_figure,
    results_table,
    sources_table,
    stage_costs_table,
)
from medvrag_core.views.tables import HtmlTable

NAME = "09_systems"
NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
SETTINGS = EvaluationSettings(bootstrap_samples=300)


def traces(
    system: str, labels: str, *, shown: Sequence[str] = ("g#p1",), tokens: int = 0, sets: str = ""
) -> list[Trace]:
    """One trace a label; a dot is an unparsed reply. With tokens, a helper was asked and a document written."""
    made = []
    for place, label in enumerate(labels):
        found = None if label == "." else label
        steps = (Step(kind="explore", call="k", prompt_tokens=tokens), Step(kind="generate", completion_tokens=7))
        document = EvidenceItem(evidence_id="w", page_id="w", text=f"{place}", written_by="m")
        seconds = [StageTime(step="read", seconds=0.5), *([StageTime(step="explore", seconds=0.25)] if tokens else [])]
        round_ = Round(
            number=1, query="?", stage1=(), filter=FilterDecision(kept=()), shown=tuple(shown),
            bank_before=MemoryBank(), reply=ReaderReply(text=""), parsed=ParsedReply(label=found), times=tuple(seconds),
            steps=steps if tokens else (), written=(document,) if tokens else (),
        )  # fmt: skip
        question = Question(
            id=f"q{place}", question="?", options={"A": "x", "B": "y"}, answer="A", gold_pages=("g#p1", "g#p2"),
            dataset=sets[place] if sets else "",
        )  # fmt: skip
        made.append(
            Trace(
                system=system,
                profile="test",
                fingerprint=system,
                question=question,
                rounds=(round_,),
                outcome="answered" if found else "unparsed",
                label=found,
                correct=found == "A",
                seconds=1.0 + place + 10 * (place > 2),
            )
        )
    return made


Made = tuple[list[AccuracyReport], list[Contrast], dict[str, CostReport], dict[str, Shown]]


def made_of(arms: dict[str, list[Trace]]) -> Made:
    pairs = over_reference(list(arms))
    return (
        [accuracy_report(found) for found in arms.values()],
        compare_arms(arms, pairs, SETTINGS, family="f"),
        {name: cost_report(found, questions_at_once=1) for name, found in arms.items()},
        {name: shown_report(shown_pages(found), SETTINGS) for name, found in arms.items()},
    )


def cells(table: HtmlTable, row: int) -> dict[str, str]:
    return dict(zip(table.columns, map(str, table.rows[row]), strict=True))


ARMS = {
    REFERENCE: traces(REFERENCE, "AAAB"),
    "<b>": traces("<b>", "AB.A", shown=("g#p1", "g#p2", "h#p1"), tokens=100),
    "none": traces("none", "BBBB", shown=()),
}


def test_a_row_of_the_main_table_holds_all_that_is_needed_to_judge_a_system() -> None:
    table = results_table(*made_of(ARMS), caption="profile test")
    assert [str(row[0]) for row in table.rows] == list(ARMS)
    row = cells(table, 1)
    assert row["n"] == "4" and row["accuracy (%) [95% interval]"].startswith("50.0 [")
    assert row["points over medvrag [interval]"].startswith("-25.0 [")
    assert (row["won / lost"], row["adjusted p"]) == ("1 / 2", "1.0000")
    assert [row[c] for c in ("right", "wrong", "unparsed", "cut or refused", "errors")] == ["2", "1", "1", "0", "0"]
    assert row["gold pages shown [interval]"].startswith("1.000 [")
    assert (row["pages shown"], row["documents written"]) == ("3.0", "1.0")
    # Questions take 1, 2, 3 and 14 seconds.
    assert row["seconds a question, median"] == "2.5 s"
    assert (row["model calls a question, mean"], row["prompt tokens a question, mean"]) == ("2", "100")
    assert row["tokens written a question, mean"] == "7"
    assert "Holm over family 'f' of 2 contrast" in table.caption and "<b>" not in table.html


def test_the_reference_has_no_difference_and_a_system_without_pages_no_recall() -> None:
    table = results_table(*made_of(ARMS))
    first, last = cells(table, 0), cells(table, 2)
    assert {first[c] for c in ("points over medvrag [interval]", "won / lost", "adjusted p")} == {"–"}
    assert first["verdict"] == "the others are compared with it"
    assert first["gold pages shown [interval]"].startswith("0.500 [") and first["documents written"] == "–"
    assert {last[c] for c in ("gold pages shown [interval]", "pages shown", "model calls a question, mean")} == {"–"}
    assert last["accuracy (%) [95% interval]"].startswith("0.0 [")


def test_of_several_sets_both_means_stand_in_rows_of_their_own() -> None:
    arms = {REFERENCE: traces(REFERENCE, "BAABB", sets="12222"), "b": traces("b", "AAABB", sets="12222")}
    table = results_table(*made_of(arms))
    places = [table.columns.index(c) for c in ("system", "mean over", "accuracy (%) [95% interval]")]
    rows = [[str(row[place]).split(" [")[0] for place in places] for row in table.rows]
    assert rows == [[REFERENCE, "questions", "40.0"], ["b", "sets", "75.0"], ["b", "questions", "60.0"]]
    points = table.columns.index("points over medvrag [interval]")
    assert [str(row[points]).split(" [")[0] for row in table.rows] == ["–", "+50.0", "+20.0"]
    assert {len(row) for row in table.rows} == {len(table.columns)}


def test_costs_stand_stage_by_stage_helper_and_writer_apart() -> None:
    costs = made_of(ARMS)[2]
    table = stage_costs_table(costs)
    assert list(table.columns) == [
        *("system", "a question", "Reader", "Tasks beside the reader's", "Documents written for the question"),
        *("Outside of the timed steps", "Total"),
    ]
    told = {(str(row[0]), str(row[1])): list(map(str, row[2:])) for row in table.rows}
    assert told["<b>", "seconds, median"] == ["500 ms", "250 ms", "–", "1.8 s", "2.5 s"]
    assert told["<b>", "prompt tokens, mean"] == ["–", "100", "–", "–", "100"]
    assert told["<b>", "tokens written, mean"] == ["–", "–", "7", "–", "7"]
    assert told["<b>", "model calls, mean"] == ["–", "1", "1", "–", "2"]
    assert (REFERENCE, "model calls, mean") not in told and "no model was asked" not in table.caption
    assert "no model was asked" in stage_costs_table({REFERENCE: costs[REFERENCE]}).caption
    assert "<b>" not in table.html


def test_the_figure_puts_the_cheapest_first_and_draws_what_the_reports_say() -> None:
    arms = {**ARMS, "none": [t.model_copy(update={"seconds": 0.75}) for t in ARMS["none"]]}
    reports, _, costs, _ = made_of(arms)
    cost, accuracy = cost_accuracy_figure(reports, costs).data
    assert list(cost.y) == list(accuracy.y) == ["none", "&lt;b&gt;", REFERENCE]
    assert list(cost.x) == [0.75, 2.5, 2.5] and list(accuracy.x) == [0, 50, 75]
    axis = cost_accuracy_figure(reports, costs).layout.xaxis
    assert dict(zip(axis.ticktext, axis.tickvals, strict=True)) == {"100 ms": 0.1, "1.0 s": 1, "10.0 s": 10}
    low = [x - minus for x, minus in zip(accuracy.x, accuracy.error_x.arrayminus, strict=True)]
    assert low[2] == pytest.approx(100 * reports[0].low)
    tokens = cost_accuracy_figure(reports, costs, quantity="prompt_tokens").data[0]
    assert dict(zip(tokens.y, tokens.x, strict=True))["&lt;b&gt;"] == 100
    assert list(tokens.x).count(None) == 2, "nothing spent has no place on a log axis"


class Boxes(HTMLParser):
    """Texts of a page by the tag that holds them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.told: list[tuple[str, str]] = []
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1] != "style":
            self.told.append((self.open[-1], data))


def test_stages_stand_in_boxes_one_after_another() -> None:
    html = composition_chart({"one": "A > B, 2 rounds at most", "<i>": "A, 3 rounds; then <script> > C"}).html
    assert Boxes(html).told == [
        *(("h5", "one"), ("li", "A"), ("li", "B"), ("p", "2 rounds at most")),
        *(("h5", "<i>"), ("li", "A"), ("p", "3 rounds"), ("li", "<script>"), ("li", "C")),
    ]


def test_sources_are_told_and_escaped() -> None:
    table = sources_table([Compared(system="s", source="<a>", idea="i", here="h")])
    assert [list(map(str, row)) for row in table.rows] == [["s", "i", "<a>", "h"]] and "<a>" not in table.html


@pytest.mark.notebook
def test_the_chapter_passes_on_a_handful_of_questions(
    made_run: Workspace, made_questions: list[Question], tmp_path: Path
) -> None:
    run = Workspace(shutil.copytree(made_run.root, tmp_path / "runs" / "small"))
    write_questions(tmp_path / "questions.jsonl", made_questions)
    begin_stage(run.root, "indexing", load_profile("test")).finish()
    (tmp_path / "notebooks").mkdir()
    shutil.copy(NOTEBOOKS / f"{NAME}.ipynb", tmp_path / "notebooks")
    (tmp_path / "pyproject.toml").write_text("")
    done = run_chapters(
        tmp_path / "notebooks",
        run.root,
        profile="test",
        parameters={"questions_file": "questions.jsonl"},
        progress=lambda _: None,
    )
    assert done == [NAME]
    metrics = read_stage(run.root, "systems", made_by="this test").metrics
    names = {compared.system for compared in MAIN_RESULTS}
    assert {report["system"] for report in metrics["arms"]} == names == metrics["costs"].keys()
    assert [(c["a"], c["n"], c["family_size"]) for c in metrics["contrasts"]] == [(REFERENCE, 3, len(names) - 1)] * (
        len(names) - 1
    )
    assert {shown["system"] for shown in metrics["shown"] if not shown["pages"]} >= {"no_rag", "medrgag_no_retrieval"}
    executed = (run.notebooks / f"{NAME}.ipynb").read_text(encoding="utf-8")
    assert "Tasks beside the reader's: " in executed and "Documents chosen" in executed, "steps are shown"
