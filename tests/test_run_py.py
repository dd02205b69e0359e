"""run.py: what it says, what it installs and when, what it removes."""

from __future__ import annotations

import argparse
import ast
import importlib.util
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

REPO = Path(__file__).resolve().parents[1]
SOURCE = REPO / "run.py"


@pytest.fixture
def run_py(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A fresh copy of the module whose checkout is an empty folder with a lock and a project file."""
    spec = importlib.util.spec_from_file_location("run_py", SOURCE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (tmp_path / "requirements.lock").write_text("a==1\n")
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    (tmp_path / ".venv").mkdir()
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(module, "PYTHON", tmp_path / ".venv" / "bin" / "python")
    monkeypatch.setattr(module, "STAMP", tmp_path / ".venv" / "medvrag-setup.json")
    return module


@pytest.fixture
def commands(run_py: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Commands that would have run; all succeed."""
    seen: list[list[str]] = []

    def call(command: list[str]) -> int:
        seen.append(command)
        return 0

    monkeypatch.setattr(run_py, "call", call)
    monkeypatch.setattr(run_py.shutil, "which", lambda name: None)
    return seen


def test_it_parses_on_python_3_8_and_needs_the_standard_library_alone() -> None:
    tree = ast.parse(SOURCE.read_text(encoding="utf-8"), feature_version=(3, 8))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.split(".")[0] for name in imported} <= sys.stdlib_module_names


def test_a_python_out_of_range_is_told_in_plain_words(run_py: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_py, "OLDEST", (3, 98))
    monkeypatch.setattr(run_py, "NEWEST", (3, 99))
    monkeypatch.setattr(run_py.shutil, "which", lambda name: None)
    with pytest.raises(run_py.RunError, match=r"needs Python 3\.11 to 3\.13, this is 3\.\d+ .*install one of these"):
        run_py.check_python()
    monkeypatch.setattr(run_py.shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(sys, "argv", ["run.py", "test", "--fast"])
    with pytest.raises(run_py.RunError, match=r"try: python3\.99 run\.py test --fast"):
        run_py.check_python()


def test_missing_ensurepip_is_told_with_the_way_out(
    run_py: ModuleType, commands: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_py.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(run_py.RunError, match="apt install python3-venv"):
        run_py.make_venv()
    assert commands == []


def test_the_lock_is_installed_only_when_it_changed(run_py: ModuleType, commands: list[list[str]]) -> None:
    run_py.install([])
    assert [command[-1] for command in commands] == [str(run_py.ROOT / "requirements.lock"), str(run_py.ROOT)]
    assert "--require-hashes" in commands[0]
    commands.clear()

    run_py.install([])
    assert commands == []

    (run_py.ROOT / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    run_py.install([])
    assert [command[-1] for command in commands] == [str(run_py.ROOT)]
    commands.clear()

    (run_py.ROOT / "requirements.lock").write_text("a==2\n")
    run_py.install([])
    assert len(commands) == 2


def test_a_failed_install_is_tried_again_next_time(run_py: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_py, "call", lambda command: 1)
    monkeypatch.setattr(run_py.shutil, "which", lambda name: None)
    with pytest.raises(run_py.RunError, match=r"install requirements\.lock .*exit code 1"):
        run_py.install([])
    assert not run_py.STAMP.exists()


def test_uv_is_preferred_and_pip_is_the_second_way(
    run_py: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[str] = []
    monkeypatch.setattr(run_py.shutil, "which", lambda name: "/bin/uv")
    monkeypatch.setattr(run_py, "call", lambda command: seen.append(command[0]) or int(command[0] == "uv"))
    run_py.step("install", *run_py.installers(["x"]))
    assert seen == ["uv", str(run_py.PYTHON)]
    assert "trying another way" in capsys.readouterr().out


def test_all_checks_run_even_if_one_fails(
    run_py: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[list[str]] = []

    def call(command: list[str]) -> int:
        seen.append(command)
        if "pytest" in command:
            report = Path(command[command.index("--junitxml") + 1])
            report.write_text('<testsuites><testsuite tests="9" failures="1" errors="1" skipped="2"/></testsuites>')
            return 1
        return int("mypy" in command)

    monkeypatch.setattr(run_py, "call", call)
    assert run_py.test(argparse.Namespace(fast=True), ["-k", "maxsim"]) == 1
    assert len(seen) == 4
    assert seen[-1][-4:] == ["-k", "maxsim", "-m", "not slow and not notebook and not browser"]
    summary = capsys.readouterr().out.strip().splitlines()[-1]
    assert summary.startswith(
        "test summary: 2 of 4 checks passed; failed: mypy, pytest; 5 tests passed, 2 failed, 2 skipped"
    )


def test_only_test_takes_further_arguments(run_py: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_py.parse(["test", "-k", "x"])[1] == ["-k", "x"]
    with pytest.raises(SystemExit):
        run_py.parse(["book", "-k", "x"])
    assert "unknown argument: -k x" in capsys.readouterr().err


def test_clean_keeps_runs_and_environment_unless_asked(run_py: ModuleType) -> None:
    for name in ("book/_build/html", "book/chapters", "runs/mine", "runs/demo", "data/demo/built"):
        (run_py.ROOT / name).mkdir(parents=True)
    (run_py.ROOT / "book" / "index.md").write_text("kept")
    assert run_py.clean(False) == 0
    left = {path.relative_to(run_py.ROOT).as_posix() for path in run_py.ROOT.rglob("*")}
    assert {"book/index.md", "runs/mine", "runs/demo", "data/demo/built", ".venv"} <= left
    assert "book/_build" not in left
    run_py.clean(True)
    assert (run_py.ROOT / "runs" / "mine").is_dir()
    assert not any((run_py.ROOT / name).exists() for name in ("runs/demo", "data/demo/built", ".venv"))


def test_ctrl_c_lets_the_command_finish_its_cleaning(tmp_path: Path) -> None:
    child = f"""
import signal, sys, time
def stop(*_):
    time.sleep(1)
    open({str(tmp_path / "cleaned")!r}, "w").close()
    sys.exit(1)
signal.signal(signal.SIGINT, stop)
open({str(tmp_path / "ready")!r}, "w").close()
time.sleep(30)
"""
    parent = f"""
import sys
sys.path.insert(0, {str(REPO)!r})
import run
try:
    run.call([sys.executable, "-c", {child!r}])
except KeyboardInterrupt:
    sys.exit(130)
"""
    process = subprocess.Popen([sys.executable, "-c", parent], start_new_session=True)
    for _ in range(200):
        if (tmp_path / "ready").exists():
            break
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(timeout=20) == 130
    assert (tmp_path / "cleaned").exists()
