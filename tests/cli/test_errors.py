"""`medvrag errors` through the entry point."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from medvrag_core.evaluation.errors.by_hand import ErrorLabel, SuspectGold
from medvrag_core.evaluation.labels.relevance import RelevanceLabel, write_labels
from medvrag_core.records import FilterDecision, Hit, MemoryBank, ParsedReply, Question, ReaderReply, Round, Trace
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.answering import trace_path

Run = Callable[..., SimpleNamespace]


def _write(workspace: Workspace, id: str, label: str, found: tuple[str, ...], kept: tuple[str, ...]) -> None:
    question = Question(id=id, question=id, options={"A": "x", "B": "y"}, answer="A", gold_pages=("g#p1",))
    done = Round(
        number=1, query=id, stage1=tuple(Hit(page_id=p, score=1.0, rank=k) for k, p in enumerate(found, 1)),
        filter=FilterDecision(kept=kept), shown=kept, bank_before=MemoryBank(), reply=ReaderReply(text="as g#p1 says"),
        parsed=ParsedReply(label=label), times=(),
    )  # fmt: skip
    trace = Trace(
        system="loop", profile="test", fingerprint="f", question=question, rounds=(done,), outcome="answered",
        label=label, correct=label == "A", seconds=1.0,
    )  # fmt: skip
    path = trace_path(workspace, "loop", id)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(trace.to_json(), encoding="utf-8")


@pytest.fixture
def told(tmp_path: Path) -> Path:
    """One right answer, one misread, one lost by the filter and one in retrieval."""
    workspace = Workspace(tmp_path / "told")
    _write(workspace, "right", "A", ("g#p1",), ("g#p1",))
    _write(workspace, "read", "B", ("g#p1", "x#p1"), ("g#p1",))
    _write(workspace, "dropped", "B", ("g#p1", "x#p1"), ("x#p1",))
    _write(workspace, "lost", "B", ("x#p1",), ("x#p1",))
    return workspace.root


def test_both_taxonomies_and_citations_are_told(medvrag: Run, told: Path) -> None:
    ended = medvrag("errors", "--run", told, "--system", "loop", "--json")
    report = json.loads(ended.out)
    ours = {row["error_class"]: row["count"] for row in report["taxonomies"]["ours"]["rows"]}
    assert (ours["retrieval_miss"], ours["filter_miss"], ours["misread"]) == (1, 1, 1)
    assert report["taxonomies"]["paper"]["several"]["count"] == 1
    assert [row["foreign"]["count"] for row in report["grounding"]["rows"]] == [2, 0, 2]
    text = medvrag("errors", "--run", told, "--system", "loop").out
    assert "loop, profile test: 3 of 4 questions wrong" in text
    assert "in several classes 1 (33.3%" in text
    assert "shown in the last round            2 questions, 1 right, 1 wrong" in text


def test_doubts_labels_by_hand_and_relevance_labels_come_from_files(medvrag: Run, told: Path, tmp_path: Path) -> None:
    doubts, by_hand, pages = (tmp_path / name for name in ("doubts.jsonl", "hand.jsonl", "pages.jsonl"))
    doubts.write_text(SuspectGold(id="lost", reason="relabeled: B").to_json(), encoding="utf-8")
    lines = [ErrorLabel(id="read", error_class=c, rater=r).to_json() for r, c in (("a", "misread"), ("b", "not_shown"))]
    by_hand.write_text("\n".join(lines), encoding="utf-8")
    write_labels(
        pages,
        [RelevanceLabel(question_id=i, page_id="x#p1", label=g, rater="judge") for i, g in
         (("dropped", "relevant"), ("read", "not_relevant"))],
    )  # fmt: skip
    known = ("errors", "--run", told, "--system", "loop", "--suspect", doubts)
    text = medvrag(*known, "--labels", by_hand, "--rater", "a").out
    assert "suspect gold: relabeled 1" in text
    assert "1 (+" not in text and "0 (+1 suspect)" in text
    assert "by hand (a): 1 labeled, agreement 100.0%" in text
    ended = medvrag(*known, "--labels", by_hand)
    assert ended.code != 0
    assert "labels of a, b" in ended.err
    ours = json.loads(medvrag(*known, "--relevant", pages, "--json").out)["taxonomies"]["ours"]["rows"]
    # Of 'read' a page was judged and none is relevant; of 'lost' the gold option is in doubt.
    assert {row["error_class"]: row["count"] for row in ours if row["count"]} == {
        "misread": 1,
        "retrieval_miss": 1,
        "suspect_gold": 1,
    }


def test_a_run_without_the_system_says_what_to_do(medvrag: Run, tmp_path: Path) -> None:
    ended = medvrag("errors", "--run", tmp_path, "--system", "loop")
    assert ended.code != 0
    assert "medvrag run --system loop" in ended.err
