"""A process opens more files than the system first lets it, and says so where it must not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

resource = pytest.importorskip("resource")
OPENS = """
import resource, sys
from medvrag_core.errors import MedvragError
from medvrag_core.runs.open_files import allow_open_files
resource.setrlimit(resource.RLIMIT_NOFILE, (100, int(sys.argv[1])))
try:
    allow_open_files(300)
except MedvragError as error:
    sys.exit(str(error))
held = [open(sys.argv[2]) for _ in range(300)]
print(len(held))
"""


def opened(hard: int, file: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", OPENS, str(hard), str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_bound_is_raised_as_far_as_need_be(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    assert opened(1_000, tmp_path / "f").stdout == "300\n"


def test_where_the_system_allows_fewer_the_way_out_is_told(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    done = opened(200, tmp_path / "f")
    assert done.returncode == 1
    assert (
        "300 files are to be open at one time, and the system allows 200 a process; raise `ulimit -Hn`" in done.stderr
    )
