"""Keys come from the environment and go nowhere else: no file of a run, no notebook, no output (promise S12)."""

from __future__ import annotations

import lzma
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from medvrag_core.cli import app, given
from medvrag_core.errors import SettingsError
from medvrag_core.evaluation.questions import write_questions
from medvrag_core.models.faults import call_errors
from medvrag_core.models.outcomes import CallError
from medvrag_core.models.store import CallStore
from medvrag_core.profiles.load import load_profile
from medvrag_core.records import Question
from medvrag_core.runs.workspace import Workspace
from medvrag_core.settings import Profile
from medvrag_core.systems.answering import answer_all, read_traces
from medvrag_core.systems.archive import export_calls
from medvrag_core.systems.resources import Resources
from medvrag_core.views.publishing.errors import ChapterFailed
from medvrag_core.views.publishing.runner import run_chapters

REPO = Path(__file__).resolve().parents[1]
CANARY = "sk-canary-0123456789abcdefghijklmnopqrstuvwxyz"
OTHER = "zq9-no-prefix-that-anyone-knows-77"
TOKEN = "plain words that are the value of a variable"
PIECES = [CANARY.encode(), OTHER.encode(), CANARY[3:30].encode(), OTHER[4:24].encode()]
ECHOES = ["400", "500", "503", "error200", "sse_error", "sse_400", "parrot"]
KEY_ENV = "LLM_ACCESS"
Settings = Callable[..., dict[str, Any]]


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    monkeypatch.setenv(KEY_ENV, OTHER)
    monkeypatch.setenv("SITE_TOKEN", TOKEN)


@pytest.fixture
def run(made_run: Workspace, tmp_path: Path) -> Workspace:
    return Workspace(shutil.copytree(made_run.root, tmp_path / "runs" / "demo"))


def settings_for(model_settings: Settings, url: str, **more: Any) -> dict[str, Any]:
    # The reader's key lies in a variable whose name tells nothing.
    return model_settings(url, **({"reader_model.key_env": KEY_ENV, "calls.give_up_after": 99} | more))


def require_no_key(*places: Path | str | bytes) -> None:
    """Look at every byte of texts, files and folders."""
    looked = 0
    for place in places:
        paths = [place] if isinstance(place, str | bytes) else [p for p in place.rglob("*") if p.is_file()]
        for item in paths:
            data = item if isinstance(item, bytes) else item.encode() if isinstance(item, str) else item.read_bytes()
            looked += len(data)
            assert not [piece for piece in PIECES if piece in data], item
    assert looked > 100


def unpacked(run: Workspace, out: Path) -> bytes:
    """What lies compressed in the call store."""
    export_calls(run, out)
    return lzma.decompress(out.read_bytes())


def seen(chaos: Any) -> set[str]:
    return {request["authorization"] for request in chaos.log()["requests"]}


# --- a run ------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [*ECHOES, "401"])
def test_no_error_of_a_server_brings_a_key_into_a_run(
    run: Workspace,
    made_questions: list[Question],
    model_settings: Settings,
    chaos: Any,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    fault: str,
) -> None:
    resources = Resources(run, load_profile("test", settings_for(model_settings, chaos.url, **{"calls.attempts": 1})))
    chaos.control(faults=[fault] * 60)
    told = ""
    try:
        answer_all("medvrag", resources, made_questions, progress=False)
    except Exception as error:
        told = str(error)
    assert {f"Bearer {CANARY}"} <= seen(chaos), "the server did get the key"
    assert (run.root / "calls.sqlite-wal").stat().st_size > 0, "the log of the open store is looked at too"
    require_no_key(run.root, told + "x" * 101)
    if fault not in {"401", "parrot"}:
        assert f"Bearer {OTHER}" in seen(chaos)
        reasons = {t.reason for t in read_traces(run, "medvrag", made_by="the run")}
        assert all("[key removed]" in reason for reason in reasons), "the message itself is kept"
    resources.close()
    with CallStore(run.calls) as store:
        # A call that stops the run is not kept; its message goes to the user alone.
        stored = {call.reply.text if fault == "parrot" else call.problem for call in store.calls()} or {told}
    assert any("[key removed]" in text for text in stored)
    captured = capfd.readouterr()
    require_no_key(run.root, unpacked(run, tmp_path / "calls.xz"), captured.out + captured.err + "x" * 101)


def test_a_run_that_fails_and_one_that_succeeds_leave_no_key(
    run: Workspace, made_questions: list[Question], model_settings: Settings, chaos: Any, tmp_path: Path
) -> None:
    write_questions(tmp_path / "questions.jsonl", made_questions)
    more = {"calls.attempts": 2, "calls.give_up_after": 3}
    sets = [f"--set={key}={value}" for key, value in settings_for(model_settings, chaos.url, **more).items()]
    command = [sys.executable, "-m", "medvrag_core.cli", "run", "--questions", str(tmp_path / "questions.jsonl")]
    command += ["--out", str(run.root), "--profile", "test", *sets]

    def start() -> subprocess.CompletedProcess[str]:
        loud = os.environ | {"MEDVRAG_LOG": "DEBUG", "OPENAI_LOG": "debug"}
        return subprocess.run(command, capture_output=True, text=True, check=False, env=loud)

    chaos.control(faults=["400", "500", "503", "error200", "sse_error", *["500"] * 40])
    failed = start()
    assert failed.returncode == 3 and "3 model calls failed one after another" in failed.stderr
    assert "try 1" in failed.stderr and "Traceback" not in failed.stderr
    require_no_key(run.root, failed.stdout + failed.stderr)
    chaos.control(faults=["500", "sse_400"])
    refused = start()
    assert refused.returncode == 3, "a filter call that the server refused leaves the run incomplete"
    done = start()
    assert done.returncode == 0, done.stderr
    assert seen(chaos) == {f"Bearer {CANARY}", f"Bearer {OTHER}"}
    require_no_key(
        tmp_path, refused.stdout + refused.stderr, done.stdout + done.stderr, unpacked(run, tmp_path / "calls.xz")
    )


def test_a_key_that_a_cut_would_halve_is_removed_whole() -> None:
    import httpx2
    import openai

    for padding in range(500, 620, 7):
        message = "x" * padding + f" Bearer {CANARY} " * 20
        response = httpx2.Response(400, request=httpx2.Request("POST", "http://h/v1"))
        with pytest.raises(CallError) as caught, call_errors("http://h/v1"):
            raise openai.BadRequestError(message, response=response, body=None)
        require_no_key(str(caught.value))
        message = f" {CANARY}" * 20
        with pytest.raises(CallError) as caught, call_errors("http://h/v1"):
            raise openai.BadRequestError(message, response=response, body=None)
        assert "[key removed]" in str(caught.value)
        assert CANARY[:9] not in str(caught.value)


# --- a chapter --------------------------------------------------------------------------


@pytest.mark.notebook
@pytest.mark.slow
def test_a_chapter_that_fails_and_one_that_passes_leave_no_key(
    run: Workspace,
    made_questions: list[Question],
    model_settings: Settings,
    chaos: Any,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    notebooks = tmp_path / "notebooks"
    notebooks.mkdir()
    shutil.copy(REPO / "notebooks" / "04_reasoning_loop.ipynb", notebooks)
    shutil.copytree(REPO / "data" / "demo" / "recorded", tmp_path / "data" / "demo" / "recorded")
    (tmp_path / "pyproject.toml").write_text("")
    write_questions(tmp_path / "questions.jsonl", made_questions)
    values = settings_for(model_settings, chaos.url, **{"calls.attempts": 1, "calls.give_up_after": 3})
    nested: dict[str, Any] = {"extends": "test"}
    for dotted, value in values.items():
        stage, field = dotted.split(".")
        nested.setdefault(stage, {})[field] = value
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(nested))
    given = {"questions_file": "questions.jsonl", "example_id": "gout-1"}

    def execute() -> None:
        run_chapters(notebooks, run.root, profile=str(tmp_path / "mine.yaml"), parameters=given)

    chaos.control(faults=["500"] * 50)
    with pytest.raises(ChapterFailed) as failed:
        execute()
    left = run.notebooks / "04_reasoning_loop.failed.ipynb"
    assert "model calls failed one after another" in left.read_text()
    require_no_key(tmp_path, str(failed.value))
    # With patience it passes, although one question ends in an error that quotes the server.
    nested["calls"]["give_up_after"] = 99
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(nested))
    chaos.control(faults=["400"] * 6)
    execute()
    executed = (run.notebooks / "04_reasoning_loop.ipynb").read_text()
    assert "[key removed]" in "".join(path.read_text() for path in run.traces("medvrag").glob("*.json"))
    assert '"output_type"' in executed and "papermill" in executed
    captured = capfd.readouterr()
    require_no_key(tmp_path, captured.out + captured.err)


# --- keys as values ---------------------------------------------------------------------

REFUSED = [
    CANARY,
    TOKEN,
    f"prefix {CANARY}",
    "hf_" + "aB3" * 9,
    "https://user:pw@example.org/v1",
    "http://token@example.org/v1",
]


def medvrag(monkeypatch: pytest.MonkeyPatch, *arguments: str | Path) -> int:
    monkeypatch.setattr(app.signal, "signal", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["medvrag", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        app.main()
    return int(str(ended.value.code))


@pytest.mark.parametrize("value", REFUSED)
def test_a_key_as_a_parameter_is_refused_before_anything_is_written(
    value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(REPO / "notebooks", tmp_path / "notebooks", ignore=shutil.ignore_patterns(".ipynb*"))
    before = sorted(tmp_path.rglob("*"))
    code = medvrag(monkeypatch, "book", "run", "--run", "runs/x", "-p", f"questions_file={value}")
    told = capsys.readouterr()
    assert code == 2 and "-p questions_file: holds what looks like a key or a password" in told.err
    assert value not in told.err + told.out and "key_env" in told.err
    assert sorted(tmp_path.rglob("*")) == before
    with pytest.raises(Exception, match="looks like a key"):
        run_chapters(tmp_path / "notebooks", tmp_path / "runs" / "x", parameters={"questions_file": value})
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("field", ["reader_model.base_url", "reader_model.key_env", "note", "filter_model.model"])
@pytest.mark.parametrize("value", REFUSED)
def test_a_key_as_a_setting_is_refused_before_anything_is_written(
    field: str,
    value: str,
    made_pdfs: Path,
    made_questions: list[Question],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_questions(tmp_path / "questions.jsonl", made_questions)
    arguments = ("run", "--source", made_pdfs, "--questions", tmp_path / "questions.jsonl", "--out", tmp_path / "run")
    code = medvrag(monkeypatch, *arguments, "--set", f"{field}={value}")
    told = capsys.readouterr()
    assert code == 2 and f"--set {field}: holds what looks like a key or a password" in told.err
    assert value not in told.err + told.out
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("stage", "field"), [("reader_model", "model"), ("reader_model", "tokenizer"), ("corpus", "ocr_engine")]
)
def test_a_key_in_a_profile_file_is_refused_without_repeating_it(tmp_path: Path, stage: str, field: str) -> None:
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump({"extends": "test", stage: {field: CANARY}}))
    with pytest.raises(SettingsError) as caught:
        load_profile(str(tmp_path / "mine.yaml"))
    assert CANARY not in str(caught.value)
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump({"extends": "test", "note": CANARY}))
    with pytest.raises(SettingsError, match="note looks like a key"):
        load_profile(str(tmp_path / "mine.yaml"))


def test_plain_values_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("data/task-2026-with-a-long-name.jsonl", "http://127.0.0.1:8000/v1", "a@b", "hf-internal-testing/x1"):
        assert Profile(name="x", note=value).note == value
        assert given.pairs([f"x={value}"], "-p") == {"x": value}
