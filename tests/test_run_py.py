"""run.py: what it says, what it installs and when, what it removes."""

from __future__ import annotations

import ast
import importlib.util
import os
import signal
import subprocess
import sys
import sysconfig
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
    (tmp_path / "requirements-gpu-path.lock").write_text("b==1\n")
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    (tmp_path / ".venv").mkdir()
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(module, "PYTHON", tmp_path / ".venv" / "bin" / "python")
    monkeypatch.setattr(module, "STAMP", tmp_path / ".venv" / "medvrag-setup.json")
    monkeypatch.setattr(module, "GPU_VENV", tmp_path / ".venv-gpu")
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


def reporting(run_py: ModuleType, monkeypatch: pytest.MonkeyPatch, counts: str, code: int = 0) -> list[list[str]]:
    """Commands that would have run; pytest leaves a report and an exit code, mypy fails."""
    seen: list[list[str]] = []

    def call(command: list[str]) -> int:
        seen.append(command)
        if "pytest" in command:
            report = Path(command[command.index("--junitxml") + 1])
            report.write_text(f"<testsuites><testsuite {counts}/></testsuites>")
            return code
        return int("mypy" in command)

    monkeypatch.setattr(run_py, "call", call)
    return seen


def summary_of(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out.strip().splitlines()[-1]


def test_all_checks_run_even_if_one_fails(
    run_py: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = reporting(run_py, monkeypatch, 'tests="9" failures="1" errors="1" skipped="2"', code=1)
    assert run_py.test(*run_py.parse(["test", "--fast", "-k", "maxsim"])) == 1
    assert len(seen) == 4
    marks = "not gpu_path and not slow and not notebook and not browser"
    assert seen[-1][3:7] == ["-m", marks, "-k", "maxsim"]
    assert summary_of(capsys).startswith(
        "test summary: 2 of 4 checks passed; failed: mypy, pytest; 5 tests passed, 2 failed, 2 skipped"
    )


def test_the_gpu_path_runs_its_tests_alone_on_its_own_python(
    run_py: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run_py, "install_gpu_path", lambda: Path("its-own-python"))
    seen = reporting(run_py, monkeypatch, 'tests="9" failures="0" errors="0" skipped="2"')
    assert run_py.test(*run_py.parse(["test", "--gpu-path", "-k", "maxsim"])) == 0
    ((python, *arguments),) = seen
    assert python == "its-own-python"
    assert arguments[:4] == ["-m", "pytest", "-m", "gpu_path"]
    assert arguments[6:8] == ["-k", "maxsim"]
    assert summary_of(capsys).startswith("test summary: gpu path: 1 of 1 checks passed; 7 tests passed, 0 failed")


@pytest.mark.parametrize(
    ("counts", "code"),
    [
        pytest.param('tests="0" failures="0" errors="0" skipped="0"', 5, id="none was found"),
        pytest.param('tests="9" failures="0" errors="0" skipped="9"', 0, id="all were skipped"),
    ],
)
def test_a_run_in_which_no_test_passed_has_failed(
    run_py: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], counts: str, code: int
) -> None:
    monkeypatch.setattr(run_py, "install_gpu_path", lambda: Path("its-own-python"))
    reporting(run_py, monkeypatch, counts, code)
    assert run_py.test(*run_py.parse(["test", "--gpu-path"])) == 1
    assert summary_of(capsys).startswith("test summary: gpu path: 0 of 1 checks passed; failed: pytest; 0 tests passed")


def gpu_installs(
    run_py: ModuleType, monkeypatch: pytest.MonkeyPatch, *, torch_in: str = ""
) -> tuple[Path, list[list[str]]]:
    """The GPU path's Python and the commands that would have made it; torch is found by the Pythons named so."""
    seen: list[list[str]] = []
    packages = Path(sysconfig.get_paths()["purelib"]).relative_to(sys.prefix)

    def call(command: list[str]) -> int:
        seen.append(command)
        (run_py.GPU_VENV / packages).mkdir(parents=True, exist_ok=True)
        return 0

    monkeypatch.setattr(run_py, "call", call)
    monkeypatch.setattr(run_py.shutil, "which", lambda name: "/bin/uv")
    monkeypatch.setattr(run_py, "has_torch", lambda python: bool(torch_in) and torch_in in python)
    return run_py.install_gpu_path(), seen


def test_the_gpu_path_gets_an_environment_over_the_packages_of_the_default_one(
    run_py: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    python, (make, lock, torch) = gpu_installs(run_py, monkeypatch)
    assert python == run_py.GPU_VENV / "bin" / "python"
    assert make[-1] == str(run_py.GPU_VENV)
    assert "--system-site-packages" not in make
    assert lock[-4:] == [
        "--no-deps",
        "--require-hashes",
        "-r",
        str(run_py.ROOT / "requirements-gpu-path.lock"),
    ]
    assert torch[:3] == [str(python), "-m", "pip"], "uv does not know all places of pip's configuration"
    assert torch[-1] == run_py.TORCH
    (beside,) = run_py.GPU_VENV.rglob("*.pth")
    assert beside.read_text() == f"import site; site.addsitedir({sysconfig.get_paths()['purelib']!r})\n"

    assert gpu_installs(run_py, monkeypatch) == (python, []), "it is there already"
    (run_py.ROOT / "requirements-gpu-path.lock").write_text("b==2\n")
    assert len(gpu_installs(run_py, monkeypatch)[1]) == 3


def test_a_torch_that_is_there_is_used_as_it_is(run_py: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    _, (make, lock) = gpu_installs(run_py, monkeypatch, torch_in="python")
    assert "--system-site-packages" in make
    assert lock[-1].endswith("requirements-gpu-path.lock")


def test_a_failed_install_of_the_gpu_path_is_tried_again_next_time(
    run_py: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_py, "call", lambda command: 1)
    with pytest.raises(run_py.RunError, match=r"make \.venv-gpu: failed"):
        run_py.install_gpu_path()
    assert not (run_py.GPU_VENV / "medvrag-setup.json").exists()
    assert run_py.has_torch(sys.executable) is (importlib.util.find_spec("torch") is not None)


def test_only_test_takes_further_arguments(run_py: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_py.parse(["test", "-k", "x"])[1] == ["-k", "x"]
    with pytest.raises(SystemExit):
        run_py.parse(["book", "-k", "x"])
    assert "unknown argument: -k x" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        run_py.parse(["test", "--fast", "--gpu-path"])


def test_clean_keeps_runs_and_environment_unless_asked(run_py: ModuleType) -> None:
    for name in ("book/_build/html", "book/chapters", "runs/mine", "runs/demo", "data/demo/built", ".venv-gpu"):
        (run_py.ROOT / name).mkdir(parents=True)
    (run_py.ROOT / "book" / "index.md").write_text("kept")
    assert run_py.clean(False) == 0
    left = {path.relative_to(run_py.ROOT).as_posix() for path in run_py.ROOT.rglob("*")}
    assert {"book/index.md", "runs/mine", "runs/demo", "data/demo/built", ".venv", ".venv-gpu"} <= left
    assert "book/_build" not in left
    run_py.clean(True)
    assert (run_py.ROOT / "runs" / "mine").is_dir()
    assert not any((run_py.ROOT / name).exists() for name in ("runs/demo", "data/demo/built", ".venv", ".venv-gpu"))


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
