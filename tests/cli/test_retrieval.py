"""`medvrag retrieval`, `judge` and `agreement` through the entry point, on a run that a model server answered."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from medvrag_core.evaluation.labels.relevance import RelevanceLabel, read_labels, write_labels
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.answering import asked_path, read_asked

Run = Callable[..., SimpleNamespace]
JUDGE = ("--set", "judge_model.model=m", "--set", "calls.pause_s=0.0", "--set")


def labeled(path: Path, rater: str, *relevant: str) -> Path:
    """A label file over the pages of the question ``gout-1``."""
    write_labels(
        path,
        [
            RelevanceLabel(
                question_id="gout-1", page_id=p, rater=rater, label="relevant" if p in relevant else "not_relevant"
            )
            for p in ("gout#p1", "gout#p2", "asthma#p1", "anemia#p1")
        ],
    )
    return path


def test_recall_of_stages_as_text_and_json(medvrag: Run, paid_run: Workspace) -> None:
    told = medvrag("retrieval", "--run", paid_run.root)
    assert told.code == 0
    assert "3 questions with 3 relevant pages" in told.out and "shown to the reader" in told.out
    found = json.loads(medvrag("retrieval", "--run", paid_run.root, "--at", "1", "--exact", "--json").out)
    assert [(row["stage"], row["k"]) for row in found["recall"]["rows"]] == [
        ("candidates", 1),
        ("candidates", 2_000),
        ("kept", 1),
        ("kept", 100),
        ("shown", 1),
        ("shown", 10),
    ]
    modes = {way["mode"]: way for way in found["exact"]["searched"]}
    assert found["exact"]["queries"] == 3 and list(modes) == ["exact", "fast", "paper"]
    assert all(row["overlap"]["value"] == 1.0 for way in modes.values() for row in way["rows"])
    assert [row["k"] for row in modes["fast"]["rows"]] == [1]  # 2,000 are beyond the shortlist.
    assert [row["k"] for row in modes["exact"]["rows"]] == [1, 2_000]
    assert "mode fast, shortlist 40" in medvrag("retrieval", "--run", paid_run.root, "--at", "1", "--exact").out
    assert found["filter_loss"]["gold"] == 3 and found["corrected"] == []


def test_answers_to_earlier_question_files_are_left_out(medvrag: Run, paid_copy: Workspace) -> None:
    run = ("retrieval", "--run", paid_copy.root, "--json")
    whole = json.loads(medvrag(*run).out)["recall"]
    (asked, *_) = read_asked(paid_copy, "medvrag")
    asked_path(paid_copy, "medvrag").write_text(json.dumps([asked]), encoding="utf-8")
    last = json.loads(medvrag(*run).out)["recall"]
    assert whole["questions"] + whole["without_gold"] == 3
    assert last["questions"] + last["without_gold"] == 1


def test_labels_stand_in_for_gold_pages_and_people_correct_them(
    medvrag: Run, paid_run: Workspace, tmp_path: Path
) -> None:
    judge = labeled(tmp_path / "judge.jsonl", "m", "gout#p1", "gout#p2")
    people = labeled(tmp_path / "people.jsonl", "ann", "gout#p1")
    run = ("retrieval", "--run", paid_run.root, "--labels", judge)
    found = json.loads(medvrag(*run, "--people", people, "--json").out)
    assert (found["recall"]["gold"], found["recall"]["questions"], found["recall"]["gold_pages"]) == ("labels", 1, 2)
    assert found["recall"]["without_gold"] == 2
    assert found["recall"]["rows"][2]["judged"] == pytest.approx(4 / 5)
    first = next(row for row in found["corrected"] if (row["stage"], row["k"]) == ("candidates", 2_000))
    assert first["recall"]["apparent"]["value"] == 1.0
    assert "corrected by people" in medvrag(*run, "--people", people).out
    assert medvrag(*run, "--rater", "eve").code == 2
    refused = medvrag("retrieval", "--run", paid_run.root, "--people", people)
    assert refused.code == 2 and "--labels" in refused.err


def test_a_judge_is_asked_once_and_its_file_can_be_read(
    medvrag: Run, paid_copy: Workspace, chaos: Any, tmp_path: Path
) -> None:
    out = tmp_path / "labels.jsonl"
    run = ("judge", "--run", paid_copy.root, "--out", out, *JUDGE, f"judge_model.base_url={chaos.url}")
    told = medvrag(*run, "--json")
    # This server knows no verdicts: every reply is counted, none becomes a label.
    report = json.loads(told.out)
    assert (told.code, report["unread"], report["failed"]) == (0, {"no_json": report["pairs"]}, {})
    assert {x.label for x in read_labels(out)} == {None}
    first = out.read_bytes()
    asked = sum(chaos.log()["started"].values())
    assert asked == report["pairs"]
    again = medvrag(*run)
    assert "0 asked" in again.out and out.read_bytes() == first
    assert sum(chaos.log()["started"].values()) == asked
    smaller = medvrag(*run, "--pool", "stage1", "--depth", "1", "--json")
    assert json.loads(smaller.out)["pairs"] == 3


def test_failed_calls_of_a_judge_exit_with_3(medvrag: Run, paid_copy: Workspace, chaos: Any, tmp_path: Path) -> None:
    run = ("judge", "--run", paid_copy.root, "--out", tmp_path / "l.jsonl", *JUDGE)
    attempts = ("--set", "calls.attempts=1")
    chaos.control(faults=["close"])
    failed = medvrag(*run, f"judge_model.base_url={chaos.url}", *attempts)
    assert failed.code == 3 and "transport 1" in failed.out
    assert medvrag(*run, f"judge_model.base_url={chaos.url}", *attempts).code == 0


def test_a_run_without_a_judge_says_how_to_name_one(medvrag: Run, paid_run: Workspace, tmp_path: Path) -> None:
    told = medvrag("judge", "--run", paid_run.root, "--out", tmp_path / "l.jsonl")
    assert told.code == 2 and "judge_model.model" in told.err


def test_two_raters_are_compared(medvrag: Run, tmp_path: Path) -> None:
    a = labeled(tmp_path / "a.jsonl", "m\x1b[2J", "gout#p1", "gout#p2")
    b = labeled(tmp_path / "b.jsonl", "ann", "gout#p1")
    told = medvrag("agreement", a, b, "--correct")
    assert told.code == 0
    assert "both relevant 1, only A 1, only B 0, neither 2" in told.out
    assert "kappa 0.500" in told.out and "corrected by B" in told.out and "\x1b" not in told.out
    found = json.loads(medvrag("agreement", a, b, "--json").out)
    assert found["agreement"]["kappa"]["value"] == 0.5 and found["correction"] is None
    same = medvrag("agreement", labeled(tmp_path / "c.jsonl", "c"), labeled(tmp_path / "d.jsonl", "d"))
    assert same.code == 0 and "both raters call no page relevant" in same.out
    assert medvrag("agreement", a, tmp_path / "none.jsonl").code == 2
