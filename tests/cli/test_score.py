"""``medvrag score``, through the console script's own entry point."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from medvrag_core.evaluation.questions import write_questions
from medvrag_core.records import Question
from medvrag_core.runs.workspace import Workspace

Run = Callable[..., SimpleNamespace]


def fails(done: SimpleNamespace, *words: str) -> None:
    assert done.code == 2, (done.out, done.err)
    assert all(word in done.err for word in words), done.err
    assert "Traceback" not in done.err and len(done.err.strip().splitlines()) == 1
    assert done.out == ""


@pytest.fixture
def replies(tmp_path: Path) -> Path:
    options = {"A": "retinal toxicity", "B": "hearing loss"}
    texts = ["<answer>A</answer>", "<answer>B</answer>", "I cannot tell.", "The answer is A."]
    lines = [{"id": f"q{i}", "reply": text, "options": options, "gold": "A"} for i, text in enumerate(texts)]
    path = tmp_path / "replies.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.mark.parametrize(
    ("scorer", "labels", "right", "unparsed"),
    [
        ("strict", ["A", "B", None, None], 1, 2),
        ("mirage", ["A", "B", "A", "A"], 3, 2),
        ("lenient", ["A", "B", None, "A"], 2, 1),
    ],
)
def test_each_scorer(
    medvrag: Run, replies: Path, scorer: str, labels: list[str | None], right: int, unparsed: int
) -> None:
    out = replies.with_name("out.jsonl")
    done = medvrag("score", "--replies", replies, "--scorer", scorer, "--out", out)
    assert (done.code, done.err) == (0, "")
    assert [json.loads(line)["label"] for line in out.read_text().splitlines()] == labels
    assert f"4 replies, scorer {scorer}" in done.out and f"{right} of 4 ({right / 4:.2%})" in done.out
    told = json.loads(medvrag("score", "--replies", replies, "--scorer", scorer, "--out", out, "--json").out)
    assert (told["correct"], told["unparsed"], told["accuracy"]) == (right, unparsed, right / 4)


def test_strict_is_what_one_gets_without_asking(medvrag: Run, replies: Path) -> None:
    done = medvrag("score", "--replies", replies, "--out", replies.with_name("out.jsonl"))
    assert "scorer strict" in done.out


def test_what_is_refused(medvrag: Run, replies: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    fails(medvrag("score", "--out", out), "--replies FILE", "--out FILE")
    fails(medvrag("score", "--replies", replies), "--replies FILE", "--out FILE")
    fails(medvrag("score", "--replies", replies, "--out", out, "--run", tmp_path), "--run does not go with")
    fails(medvrag("score", "--replies", replies, "--out", out, "--scorer", "kind"), "strict, mirage, lenient")
    fails(medvrag("score", "--replies", tmp_path / "no", "--out", out), "no: no such file")
    fails(medvrag("score", "--replies", replies, "--out", replies), "is the file of replies itself")
    fails(medvrag("score", "--run", tmp_path), "no trace of system 'medvrag'", "medvrag run")
    with replies.open("a") as target:
        target.write('{"id": "q9", "reply": "x", "options": {"A": "x", "B": "y"}, "gold": "\\u001b[2JC"}\n')
    done = medvrag("score", "--replies", replies, "--out", out)
    fails(done, "line 5: field 'gold'")
    assert "\x1b" not in done.err
    assert not out.exists()


def test_a_run_under_three_scorers(
    medvrag: Run, made_run: Workspace, made_questions: list[Question], tmp_path: Path
) -> None:
    write_questions(tmp_path / "q.jsonl", made_questions)
    run = shutil.copytree(made_run.root, tmp_path / "run")
    assert medvrag("run", "--questions", tmp_path / "q.jsonl", "--out", run, "--profile", "test").code == 0
    report = json.loads(medvrag("report", "--run", run, "--json").out)
    told = json.loads(medvrag("score", "--run", run, "--json").out)
    assert told["strict"]["accuracy"] == report["accuracy"]
    assert told["strict"]["unparsed_rate"] == report["unparsed_rate"]
    assert told["read_anew_differently"] == []
    assert told["mirage_gap"] == pytest.approx(told["mirage"]["accuracy"] - told["strict"]["accuracy"])
    text = medvrag("score", "--run", run).out
    assert all(f"  {name}" in text for name in ("strict", "mirage", "lenient"))
    assert text.count(" points") == 2 and "INCOMPLETE" not in text
    fails(medvrag("score", "--run", run, "--system", "no_rag"), "no trace of system 'no_rag'")


def test_all_published_replies_of_a_model_from_the_shell(shared_data: Path, tmp_path: Path) -> None:
    folder = shared_data / "benchmarks" / "mirage"
    questions = json.loads(gzip.decompress((folder / "benchmark.json.gz").read_bytes()))
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    with gzip.open(folder / "predictions" / "gpt-4-32k.cot.jsonl.gz", "rt") as rows, source.open("w") as target:
        for row in map(json.loads, rows):
            asked = questions[row["dataset"]][row["id"]]
            reply = {"id": f"{row['dataset']}/{row['id']}", "reply": row["outputs"][0]}
            target.write(json.dumps(reply | {"options": asked["options"], "gold": asked["answer"]}) + "\n")
    command = ["score", "--replies", str(source), "--scorer", "mirage", "--out", str(out)]
    subprocess.run([sys.executable, "-m", "medvrag_core.cli", *command], check=True, capture_output=True)
    scored = [json.loads(line) for line in out.read_text().splitlines()]
    medqa = [line["correct"] for line in scored if line["id"].startswith("medqa/")]
    assert (len(scored), len(medqa)) == (7_663, 1_273)
    assert round(100 * sum(medqa) / len(medqa), 2) == 83.97
