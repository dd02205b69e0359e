"""``medvrag benchmarks``, through the console script's own entry point, down to a run on converted questions."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from medvrag_core.evaluation.questions import read_questions
from medvrag_core.runs.workspace import Workspace

Run = Callable[..., SimpleNamespace]
CHOICE = {"options": {"A": "25 mg", "B": "100 mg", "C": "300 mg", "D": "600 mg"}, "answer": "B"}
SMALL: dict[str, Any] = {
    "medqa": {"0000": {"question": "At which daily dose is allopurinol started?", **CHOICE}},
    "bioasq": {"5c9f": {"question": "Is gout treated?", "options": {"A": "yes", "B": "no"}, "answer": "A"}},
}
LABELLED = {
    "777": {
        "QUESTION": "Does otoferlin rise in zebrafish larvae?",
        "CONTEXTS": ["Otoferlin rose in zebrafish larvae that were treated at dawn."],
        "LONG_ANSWER": "It does.",
        "final_decision": "yes",
    }
}


def fails(done: SimpleNamespace, *words: str) -> None:
    assert done.code == 2, (done.out, done.err)
    assert all(word in done.err for word in words), done.err
    assert "Traceback" not in done.err and len(done.err.strip().splitlines()) == 1


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "benchmark.json"
    path.write_text(json.dumps(SMALL))
    return path


def test_list_tells_size_licence_and_origin(medvrag: Run) -> None:
    done = medvrag("benchmarks", "list")
    assert done.code == 0
    assert "mirage: MIRAGE: all five sets in one file" in done.out
    assert "questions: medqa 1,273, medmcqa 4,183, pubmedqa 500, bioasq 618, mmlu 1,089" in done.out
    assert "licence: MIT (rawdata/medqa/LICENSE" in done.out
    told = {entry["name"]: entry for entry in json.loads(medvrag("benchmarks", "list", "--json").out)}
    assert len(told["bioasq"]["files"]) == 25 and told["pubmedqa"]["sets"]["pubmedqa_abstract"] == 500


def test_fetch_from_a_folder_under_a_registry_of_ones_own(medvrag: Run, tmp_path: Path) -> None:
    content = json.dumps(SMALL).encode()
    registry = tmp_path / "registry.yaml"
    registry.write_text(
        json.dumps(
            [
                {
                    "name": "mine",
                    "title": "t",
                    "sets": {},
                    "licence": "CC0 \u0007",
                    "origin": "https://x.invalid/",
                    "files": [
                        {"file": "mine/b.json", "path": "b.json", "bytes": len(content)}
                        | {"sha256": hashlib.sha256(content).hexdigest()}
                    ],
                }
            ]
        )
    )
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "b.json.gz").write_bytes(gzip.compress(content))
    command = ("benchmarks", "fetch", "mine", "--to", tmp_path / "to", "--registry", registry, "--from", tmp_path)
    done = medvrag(*command)
    assert done.code == 0 and f"copied, {len(content)} bytes" in done.out and "licence as found: CC0" in done.out
    assert "\x07" not in done.out + medvrag("benchmarks", "list", "--registry", registry).out
    assert (tmp_path / "to" / "mine" / "b.json").read_bytes() == content
    assert "there already" in medvrag(*command).out
    (tmp_path / "to" / "mine" / "b.json").write_text("mine")
    fails(medvrag(*command), "is there with another content", "delete it")
    fails(medvrag("benchmarks", "fetch", "other", "--to", tmp_path), "'other' is not in the registry", "mirage, medqa")


def test_a_real_set_from_file_to_questions(medvrag: Run, shared_data: Path, tmp_path: Path) -> None:
    source = shared_data / "benchmarks"
    assert medvrag("benchmarks", "fetch", "mmlu", "pubmedqa", "--to", tmp_path, "--from", source).code == 0
    out = tmp_path / "q.jsonl"
    done = medvrag("benchmarks", "convert", "mmlu", "pubmedqa", "--data", tmp_path, "--out", out)
    assert done.code == 0 and "1,589 questions of mmlu, pubmedqa" in done.out
    done = medvrag("benchmarks", "check", out)
    assert "mmlu: 1,089 questions; four options 1,089" in done.out and "yes/no/maybe 500" in done.out
    assert "always one label is right in 55.2%" in done.out
    assert "repeated_question: 78 (" in done.out and "and 73 more (--all)" in done.out
    assert "more (--all)" not in medvrag("benchmarks", "check", out, "--all").out


def test_the_four_sets_of_the_main_table_are_the_default(medvrag: Run, shared_data: Path, tmp_path: Path) -> None:
    data, out = shared_data / "benchmarks" / "mirage" / "benchmark.json.gz", tmp_path / "q.jsonl"
    done = medvrag("benchmarks", "convert", "--data", data, "--out", out)
    assert "7,045 questions of medqa, medmcqa, pubmedqa, mmlu" in done.out
    told = json.loads(medvrag("benchmarks", "check", out, "--json").out)
    assert [facts["questions"] for facts in told["sets"]] == [1_273, 4_183, 500, 1_089]


def test_another_size_needs_a_word(medvrag: Run, small: Path, tmp_path: Path) -> None:
    out = tmp_path / "q.jsonl"
    command = ("benchmarks", "convert", "medqa", "bioasq", "--data", small, "--out", out)
    fails(medvrag(*command), "medqa: 1,273 questions expected, 1 found", "--any-size")
    assert not out.exists()
    assert medvrag(*command, "--any-size").code == 0
    assert [(q.id, q.dataset) for q in read_questions(out)] == [("0000", "medqa"), ("5c9f", "bioasq")]
    fails(medvrag("benchmarks", "convert", "medxqa", "--data", small, "--out", out), "'medxqa' is no question set")
    fails(medvrag("benchmarks", "convert", "mmlu", "--data", small, "--out", out), "holds no set 'mmlu'")
    fails(medvrag("benchmarks", "convert", "mmlu", "--data", tmp_path, "--out", out), "benchmarks fetch mmlu --to")


def test_check_finds_what_a_run_would_refuse_and_writes_the_rest(medvrag: Run, tmp_path: Path) -> None:
    rows = [
        {"id": "good", "question": "Which?", **CHOICE},
        {"id": "bare", "question": "Which one?", "options": CHOICE["options"]},
        {"id": "off", "question": "Which two?", **CHOICE, "answer": "E\u0007"},
        {"id": "blank", "question": " ", **CHOICE},
    ]
    path, keep = tmp_path / "q.jsonl", tmp_path / "kept.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = medvrag("benchmarks", "check", path, "--keep", keep)
    assert done.code == 0 and "\x07" not in done.out
    for kind in ("no_gold: 1 (", "gold_no_option: 1 [gold suspect] (", "blank_question: 1 ("):
        assert kind in done.out
    assert "(no set named): 4 questions" in done.out and "1 of 4 questions" in done.out
    assert [question.id for question in read_questions(keep)] == ["good"]
    assert "no fault found" in medvrag("benchmarks", "check", keep).out
    told = medvrag("benchmarks", "check", path, "--keep", keep, "--json")
    assert len(json.loads(told.out)["faults"]) == 3 and "1 of 4 questions" in told.err
    path.write_text(json.dumps(rows[2]) + "\n")
    fails(medvrag("benchmarks", "check", path, "--keep", keep), "no question is left", "leave out --keep")
    assert [question.id for question in read_questions(keep)] == ["good"]


def test_converted_questions_run_from_end_to_end(
    medvrag: Run, made_run: Workspace, small: Path, tmp_path: Path
) -> None:
    (tmp_path / "pubmedqa").mkdir()
    (tmp_path / "pubmedqa" / "test_set.json").write_text(json.dumps(LABELLED))
    for number, (sets, data) in enumerate(
        [(["medqa", "bioasq"], small), (["pubmedqa"], tmp_path), (["pubmedqa_abstract"], tmp_path)]
    ):
        questions, run = tmp_path / f"{number}.jsonl", shutil.copytree(made_run.root, tmp_path / f"run{number}")
        medvrag("benchmarks", "convert", *sets, "--data", data, "--out", questions, "--any-size")
        done = medvrag("run", "--questions", questions, "--out", run, "--profile", "test", "--json")
        assert done.code == 0, done.err
        assert json.loads(done.out)["n"] == len(sets)
        traces = [json.loads(path.read_bytes()) for path in (run / "systems" / "medvrag" / "traces").glob("*.json")]
        assert {trace["question"]["dataset"] for trace in traces} == set(sets)
        searched = [round_["query"] for trace in traces for round_ in trace["rounds"]]
        assert searched and not any("dawn" in query for query in searched)
        replies = [round_["reply"]["text"] for trace in traces for round_ in trace["rounds"]]
        assert any("(page context)" in reply for reply in replies) == (sets == ["pubmedqa_abstract"])
