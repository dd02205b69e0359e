"""A command ends on SIGTERM as on Ctrl-C, also as a background job, which has SIGINT ignored."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

WAITS = """
import signal, sys, time
if sys.argv[1] == "background":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
from medvrag_core.cli import app
@app.app.command()
def waits():
    print("begun", flush=True)
    time.sleep(60)
sys.argv = ["medvrag", "waits"]
app.main()
"""


@pytest.mark.parametrize("job", ["foreground", "background"])
def test_sigterm_stops_a_command_with_the_way_to_go_on(job: str) -> None:
    started = subprocess.Popen(
        [sys.executable, "-c", WAITS, job], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert started.stdout is not None and started.stdout.readline() == "begun\n"
    started.send_signal(signal.SIGTERM)
    _, said = started.communicate(timeout=30)
    assert started.returncode == 130 and "the same command goes on from here" in said
