#!/usr/bin/env python3
"""One door to the project: set up, run the book, run the checks. Needs Python 3.11 to 3.13 and pip, nothing else.

    python3 run.py book              set up, run all chapters on the embedded CPU default, build the book
    python3 run.py test [--fast]     set up, run every check; further arguments go to pytest
    python3 run.py test --gpu-path   the tests that need torch, on the CPU; makes .venv-gpu beside .venv for them
    python3 run.py lab               open the chapters in JupyterLab
    python3 run.py setup             set up only; --with local (SmolLM2 reader) or --with gpu
    python3 run.py clean [--all]     remove build products; --all also the demo run, .venv and .venv-gpu

Everything is installed into .venv beside this file, from requirements.lock, and only when that file changed.
This file uses the standard library alone and must parse on old Pythons, so that it can say that they are too old.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "medvrag-setup.json"
GPU_VENV = ROOT / ".venv-gpu"
TORCH = "torch==2.13.0"  # as in environment.yml; its build, and so its hash, depends on where pip takes it from
OLDEST, NEWEST = (3, 11), (3, 13)
BUILT = ["book/_build", "book/_vendor", "book/chapters", "book/_generated", "dist", "build"]
CACHES = [".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis"]


class RunError(Exception):
    """A problem told in one sentence; the exit code is 1."""


def main() -> int:
    """Read the command line and do one verb."""
    options, extra = parse(sys.argv[1:])
    try:
        if options.verb == "clean":
            return clean(options.all)
        if not inside_venv():
            check_python()
            make_venv()
            os.execv(str(PYTHON), [str(PYTHON), str(ROOT / "run.py"), *sys.argv[1:]])
        install(options.extras if options.verb == "setup" else [])
        verbs = {"book": book, "test": test, "lab": lab, "setup": lambda *_: 0}
        return verbs[options.verb](options, extra)
    except RunError as problem:
        print(f"run.py: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nrun.py: stopped; finished work is kept, the same command goes on from here", file=sys.stderr)
        return 130


def parse(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """Options of the verb, and what is left over (for pytest, else refused)."""
    parser = argparse.ArgumentParser(
        prog="run.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    verb = verbs.add_parser("book", help="run all chapters and build the book")
    verb.add_argument("--profile", default="cpu", help="profile of the chapters (default: cpu)")
    verb.add_argument("--run", default="runs/demo", help="run folder of the chapters (default: runs/demo)")
    verb.add_argument("--force", action="store_true", help="run chapters again even if nothing changed")
    verb = verbs.add_parser("test", help="run every check; further arguments go to pytest")
    kind = verb.add_mutually_exclusive_group()
    kind.add_argument("--fast", action="store_true", help="leave out tests marked slow, notebook or browser")
    kind.add_argument("--gpu-path", action="store_true", help="only tests marked gpu_path, with torch, in .venv-gpu")
    verbs.add_parser("lab", help="open the chapters in JupyterLab")
    verb = verbs.add_parser("setup", help="install only")
    verb.add_argument("--with", dest="extras", action="append", default=[], choices=["local", "ray", "gpu"])
    verb = verbs.add_parser("clean", help="remove build products")
    verb.add_argument("--all", action="store_true", help="also the demo run, the demo PDFs, .venv and .venv-gpu")
    options, extra = parser.parse_known_args(arguments)
    if extra and options.verb != "test":
        parser.error(f"unknown argument: {' '.join(extra)}")
    return options, extra


# --- setting up -------------------------------------------------------------------------


def inside_venv() -> bool:
    """Whether this very process runs on the project's own interpreter."""
    return Path(sys.prefix).resolve() == VENV.resolve()


def check_python() -> None:
    """Refuse interpreters that the lock was not made for, naming one on this machine that would do."""
    if os.name != "posix":
        raise RunError("works on Linux and macOS; on Windows use it inside WSL")
    if OLDEST <= sys.version_info[:2] <= NEWEST:
        return
    names = [f"python3.{minor}" for minor in range(NEWEST[1], OLDEST[1] - 1, -1)]
    found = [name for name in names if shutil.which(name)]
    way_out = (
        f"try: {found[0]} run.py {' '.join(sys.argv[1:])}" if found else "install one of these and start run.py with it"
    )
    version = ".".join(map(str, sys.version_info[:2]))
    raise RunError(f"needs Python 3.11 to 3.13, this is {version} ({sys.executable}); {way_out}")


def make_venv() -> None:
    """Make .venv, or make it anew where its interpreter no longer starts or is out of range."""
    if PYTHON.exists():
        probe = f"import sys; sys.exit(not ({OLDEST} <= sys.version_info[:2] <= {NEWEST}))"
        if subprocess.call([str(PYTHON), "-c", probe], stderr=subprocess.DEVNULL) == 0:
            return
        say("the interpreter in .venv does not start or is out of range; making .venv anew")
        shutil.rmtree(str(VENV))
    step(f"make .venv with {sys.executable}", venv_command(VENV))


def venv_command(folder: Path, *flags: str) -> list[str]:
    """Command that makes a virtual environment with pip in it."""
    if importlib.util.find_spec("ensurepip") is not None:
        return [sys.executable, "-m", "venv", *flags, str(folder)]
    if shutil.which("uv"):
        return ["uv", "venv", "--seed", "--python", sys.executable, *flags, str(folder)]
    raise RunError(
        "this Python cannot make virtual environments with pip (the module 'ensurepip' is missing); "
        "on Debian or Ubuntu: apt install python3-venv; or install uv; then start run.py again"
    )


def install(extras: list[str]) -> None:
    """Bring .venv to the state of the lock; does nothing when the stamp says it is there."""
    lock, package = ROOT / "requirements.lock", ROOT / "pyproject.toml"
    have = json.loads(STAMP.read_text()) if STAMP.is_file() else {}
    want = {"lock": digest(lock), "package": f"{digest(package)} {ROOT}"}
    if have.get("lock") != want["lock"]:
        step(
            "install requirements.lock (the first time this downloads some hundred megabytes)",
            *installers(["--require-hashes", "-r", str(lock)]),
        )
        have = {"lock": want["lock"]}
    if have.get("package") != want["package"]:
        step("install medvrag-core itself, editable", *installers(["--no-deps", "-e", str(ROOT)]))
        have["package"] = want["package"]
    for name, what in (("local", "the local language model"), ("ray", "Ray")):
        if name in extras:
            own = ROOT / f"requirements-{name}.lock"
            step(
                f"install {what} (extra '{name}')",
                *installers(["--no-deps", "--require-hashes", "-r", str(own)]),
            )
    if "gpu" in extras:
        step("install the extra 'gpu' (several gigabytes)", *installers(["-e", f"{ROOT}[gpu]"]))
    STAMP.write_text(json.dumps(have, indent=1))


def install_gpu_path() -> Path:
    """Bring .venv-gpu to its lock, and return its Python: torch and the encoders' packages, over those of .venv.

    A torch of the Python that .venv was made from, such as that of a conda environment on a GPU node, is used as it is.
    """
    python, stamp = GPU_VENV / "bin" / "python", GPU_VENV / "medvrag-setup.json"
    lock = ROOT / "requirements-gpu-path.lock"
    want = {"lock": digest(lock), "torch": TORCH, "venv": f"{VENV} {sys.version}"}
    if stamp.is_file() and json.loads(stamp.read_text()) == want:
        return python
    shutil.rmtree(str(GPU_VENV), ignore_errors=True)
    base = getattr(sys, "_base_executable", sys.executable)
    flags = ["--system-site-packages"] if has_torch(base) else []
    step("make .venv-gpu", venv_command(GPU_VENV, *flags))
    packages = sysconfig.get_paths()["purelib"]
    beside = GPU_VENV / Path(packages).relative_to(sys.prefix) / "medvrag-venv.pth"
    beside.write_text(f"import site; site.addsitedir({packages!r})\n")
    step(
        "install requirements-gpu-path.lock",
        *installers(["--no-deps", "--require-hashes", "-r", str(lock)], python),
    )
    if not has_torch(str(python)):
        # pip alone: uv would look past a build that pip's configuration points to.
        step(f"install {TORCH} (the build that pip is configured for)", installers([TORCH], python)[-1])
    stamp.write_text(json.dumps(want, indent=1))
    return python


def has_torch(python: str) -> bool:
    """Whether a Python can find torch."""
    probe = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
    return subprocess.call([python, "-c", probe]) == 0


def installers(arguments: list[str], python: Path | None = None) -> list[list[str]]:
    """Ways to install, best first: uv where it is on PATH, then pip."""
    into = str(python or PYTHON)
    pip = [into, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
    ways = [[*pip, *arguments]] if importlib.util.find_spec("pip") else []
    if shutil.which("uv"):
        ways.insert(0, ["uv", "pip", "install", "--quiet", "--python", into, *arguments])
    if not ways:
        raise RunError("there is neither pip in .venv nor uv on PATH; delete .venv and start run.py again")
    return ways


def digest(path: Path) -> str:
    """Hash of a file's content."""
    if not path.is_file():
        raise RunError(f"{path} is missing; the checkout is not whole")
    return hashlib.sha256(path.read_bytes()).hexdigest()


# --- verbs ------------------------------------------------------------------------------


def book(options: argparse.Namespace, _: list[str]) -> int:
    """Typeset the demo corpus, run the chapters, build the site."""
    medvrag = [str(PYTHON), "-m", "medvrag_core.cli", "book"]
    step("typeset the demo corpus", [str(PYTHON), "data/demo/build.py"])
    force = ["--force"] if options.force else []
    step("run the chapters", [*medvrag, "run", "--run", options.run, "--profile", options.profile, *force])
    step("build the book", [*medvrag, "build", "--run", options.run])
    print(f"\nThe book is ready. Open {(ROOT / 'book' / '_build' / 'html' / 'index.html').as_uri()}")
    return 0


def test(options: argparse.Namespace, extra: list[str]) -> int:
    """Lint, format, types, tests; or, on the GPU path, the tests that need torch alone."""
    if options.gpu_path:
        python = install_gpu_path()
        os.environ.setdefault("HF_HUB_OFFLINE", "1")  # the models of these tests are made by the tests
        pytest = [str(python), "-m", "pytest", "-m", "gpu_path", "-o", "testpaths=tests", *extra]  # and no doctest
        return run_checks({}, pytest, "gpu path: ")
    marks = "not gpu_path" + (" and not slow and not notebook and not browser" if options.fast else "")
    checks = {
        "ruff check": [str(PYTHON), "-m", "ruff", "check", "."],
        "ruff format": [str(PYTHON), "-m", "ruff", "format", "--check", "."],
        "mypy": [str(PYTHON), "-m", "mypy"],
    }
    return run_checks(checks, [str(PYTHON), "-m", "pytest", "-m", marks, *extra])


def run_checks(checks: dict[str, list[str]], pytest: list[str], path: str = "") -> int:
    """Run all checks and pytest, even if one fails, and print one line of summary.

    A pytest that passed no test has failed, whatever its exit code: all of them may have been skipped.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "tests.xml"
        checks = {**checks, "pytest": [*pytest, "--junitxml", str(report)]}
        failed, start = [], time.monotonic()
        for name, command in checks.items():
            say(f"{path}{name}")
            if call(command) != 0:
                failed.append(name)
        passed, counts = count_tests(report)
    if not passed and "pytest" not in failed:
        failed.append("pytest")
    done = f"{len(checks) - len(failed)} of {len(checks)} checks passed"
    blame = f"; failed: {', '.join(failed)}" if failed else ""
    print(f"\ntest summary: {path}{done}{blame}; {counts}; {time.monotonic() - start:.0f} s", flush=True)
    return 1 if failed else 0


def count_tests(report: Path) -> tuple[int, str]:
    """Tests that passed, and all counts in words, out of pytest's XML report."""
    if not report.is_file():
        return 0, "pytest left no report"
    suite = ElementTree.parse(str(report)).getroot().find("testsuite")
    total, failures, errors, skipped = (int(suite.get(k, 0)) for k in ("tests", "failures", "errors", "skipped"))
    passed = total - failures - errors - skipped
    return passed, f"{passed} tests passed, {failures + errors} failed, {skipped} skipped"


def lab(_: argparse.Namespace, __: list[str]) -> int:
    """JupyterLab on the chapters, from the root of the checkout."""
    notebook = "notebooks/00_start_here.ipynb"
    return call([str(PYTHON), "-m", "jupyter", "lab", f"--ServerApp.root_dir={ROOT}", notebook])


def clean(everything: bool) -> int:
    """Remove what can be made again; runs other than the demo stay in any case."""
    names = [*BUILT, *CACHES, *(["runs/demo", "data/demo/built", ".venv", ".venv-gpu"] if everything else [])]
    for path in [ROOT / name for name in names]:
        if path.is_dir():
            say(f"remove {path.relative_to(ROOT)}")
            shutil.rmtree(str(path))
    return 0


# --- running commands -------------------------------------------------------------------


def say(text: str) -> None:
    """One line for each thing that is done."""
    print(f"==> {text}", flush=True)


def step(title: str, *ways: list[str]) -> None:
    """Run the first of several commands that works; raises :class:`RunError` when none does."""
    say(title)
    start = time.monotonic()
    for number, command in enumerate(ways, 1):
        code = call(command)
        if code == 0:
            print(f"    done in {time.monotonic() - start:.0f} s", flush=True)
            return
        if number < len(ways):
            say(f"{command[0]} could not do it; trying another way")
    raise RunError(f"{title}: failed with exit code {code} (the lines above say why)")


def call(command: list[str]) -> int:
    """Run one command in the root of the checkout; on Ctrl-C give it time to leave things whole."""
    process = subprocess.Popen(command, cwd=str(ROOT))
    try:
        return process.wait()
    except KeyboardInterrupt:
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.terminate()
            process.wait()
        raise
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
