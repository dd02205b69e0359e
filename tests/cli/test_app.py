from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from medvrag_core.evaluation.questions import write_questions
from medvrag_core.records import Question
from medvrag_core.runs.workspace import Workspace


def medvrag(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "medvrag_core.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture(scope="module")
def question_file(made_questions: list[Question], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("q") / "questions.jsonl"
    write_questions(path, made_questions)
    return path


@pytest.fixture(scope="module")
def finished(made_pdfs: Path, question_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("cli") / "run"
    done = medvrag("run", "--source", made_pdfs, "--questions", question_file, "--out", out, "--profile", "test")
    assert done.returncode == 0, done.stderr
    return out


def test_run_writes_the_report_and_one_trace_a_question(finished: Path) -> None:
    report = json.loads((finished / "report.json").read_text())
    assert report["n"] == 3
    assert report["accuracy"] == 1.0
    assert report["unparsed_rate"] == 0.0
    assert report["recall_at_10"] == 1.0
    assert {"recall_at_100", "seconds_per_question", "rounds"} <= report.keys()
    assert report["scorers"]["strict"]["accuracy"] == report["accuracy"] and "mirage_gap" in report["scorers"]
    assert len((finished / "systems/medvrag/outcomes.jsonl").read_text().splitlines()) == 3
    assert len(list((finished / "systems/medvrag/traces").glob("*.json"))) == 3


def test_run_again_changes_nothing(finished: Path, made_pdfs: Path, question_file: Path) -> None:
    traces = sorted((finished / "systems/medvrag/traces").glob("*.json"))
    before = [p.stat().st_mtime_ns for p in traces]
    again = medvrag("run", "--source", made_pdfs, "--questions", question_file, "--out", finished, "--json")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["n"] == 3
    assert [p.stat().st_mtime_ns for p in traces] == before


def test_retrieve_writes_a_trec_file(finished: Path, tmp_path: Path) -> None:
    queries = tmp_path / "queries.jsonl"
    queries.write_text('{"id": "q1", "text": "ferritin iron deficiency"}\n')
    out = tmp_path / "out.trec"
    done = medvrag("retrieve", "--run", finished, "--queries", queries, "-k", "2", "--out", out)
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in out.read_text().splitlines()]
    assert [row[3] for row in rows] == ["1", "2"]
    assert rows[0][:3] == ["q1", "Q0", "anemia#p1"]


def test_ask_shows_rounds_and_pages(finished: Path) -> None:
    done = medvrag(
        "ask", "At which daily dose is allopurinol started?",
        "--option", "A=25 mg", "--option", "B=100 mg", "--run", finished,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Round 1" in done.stdout
    assert "gout#p1" in done.stdout
    assert "Answer: B" in done.stdout


def test_lists(finished: Path) -> None:
    assert "medvrag" in medvrag("systems").stdout
    assert "a100" in medvrag("profiles").stdout
    assert json.loads(medvrag("report", "--run", finished, "--json").stdout)["n"] == 3


def fails(words: str, *arguments: str | Path) -> None:
    done = medvrag(*arguments)
    assert done.returncode == 2, (done.returncode, done.stderr)
    assert words in done.stderr
    assert "Traceback" not in done.stderr


class TestBadInput:
    def test_a_folder_without_pdf(self, question_file: Path, tmp_path: Path) -> None:
        (tmp_path / "empty").mkdir()
        fails("empty", "run", "--source", tmp_path / "empty", "--questions", question_file, "--out", tmp_path / "r")

    def test_only_unreadable_pdfs(self, question_file: Path, tmp_path: Path) -> None:
        (tmp_path / "pdfs").mkdir()
        (tmp_path / "pdfs" / "x.pdf").write_text("<html>404</html>")
        fails(
            "no usable page",
            "run",
            "--source",
            tmp_path / "pdfs",
            "--questions",
            question_file,
            "--out",
            tmp_path / "r",
        )

    def test_a_question_without_a_field(self, made_pdfs: Path, tmp_path: Path) -> None:
        path = tmp_path / "q.jsonl"
        path.write_text('{"id": "x", "question": "?", "options": {"A": "1", "B": "2"}, "answer": "A"}\n{"id": "y"}\n')
        fails("'answer' is missing", "run", "--source", made_pdfs, "--questions", path, "--out", tmp_path / "r")
        fails("line 2", "run", "--source", made_pdfs, "--questions", path, "--out", tmp_path / "r")
        assert not (tmp_path / "r").exists()

    def test_a_question_file_that_is_not_there(self, made_pdfs: Path, tmp_path: Path) -> None:
        fails("nowhere.jsonl", "run", "--source", made_pdfs, "--questions", "nowhere.jsonl", "--out", tmp_path / "r")

    def test_a_run_that_does_not_exist(self, tmp_path: Path) -> None:
        fails("medvrag run", "report", "--run", tmp_path / "nothing")
        fails(
            "medvrag run --source",
            "ask", "Which?", "--option", "A=x", "--option", "B=y", "--run", tmp_path / "nothing",
        )  # fmt: skip

    def test_an_unknown_system_profile_and_setting(self, made_pdfs: Path, question_file: Path, tmp_path: Path) -> None:
        base = ("run", "--source", made_pdfs, "--questions", question_file, "--out", tmp_path / "r")
        fails("there is no system 'medragg'", *base, "--system", "medragg")
        fails("did you mean 'cpu'", *base, "--profile", "cpuu")
        fails("did you mean 'max_rounds'", *base, "--set", "loop.max_round=1")
        fails("has no '='", *base, "--set", "loop")

    def test_other_settings_in_the_same_run(self, finished: Path, made_pdfs: Path, question_file: Path) -> None:
        report = (finished / "report.json").read_text()
        fails(
            "loop.max_rounds: 3 -> 1",
            "run", "--source", made_pdfs, "--questions", question_file, "--out", finished, "--set", "loop.max_rounds=1",
        )  # fmt: skip
        assert (finished / "report.json").read_text() == report

    def test_options_that_are_none(self, finished: Path) -> None:
        fails("at least two options", "ask", "Which?", "--option", "A=x", "--run", finished)
        fails("is not LABEL=text", "ask", "Which?", "--option", "x", "--option", "B=y", "--run", finished)

    def test_a_missing_option_of_the_command(self) -> None:
        assert medvrag("run").returncode == 2


def test_a_password_protected_pdf_is_named_and_the_rest_is_used(
    made_pdfs: Path, question_file: Path, tmp_path: Path
) -> None:
    import pymupdf

    folder = tmp_path / "pdfs"
    folder.mkdir()
    for pdf in made_pdfs.glob("*.pdf"):
        (folder / pdf.name).symlink_to(pdf)
    document = pymupdf.open()
    document.new_page()
    document.save(folder / "locked.pdf", encryption=pymupdf.PDF_ENCRYPT_AES_256, user_pw="x", owner_pw="y")
    done = medvrag(
        "run", "--source", folder, "--questions", question_file, "--out", tmp_path / "r", "--profile", "test"
    )
    assert done.returncode == 0, done.stderr
    assert "encrypted" in (Workspace(tmp_path / "r").corpus / "ledger.jsonl").read_text()
