"""What browser tests share: JupyterLab over a folder, and axe-core."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

AXE = "axe-core@4"


@pytest.fixture
def jupyterlab() -> Iterator[Callable[[Path], str]]:
    """Starts JupyterLab over a folder, with settings of its own there, and returns its address."""
    started: list[subprocess.Popen[bytes]] = []

    def start(folder: Path) -> str:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        settings = {"ServerApp": {"token": "", "password": "", "allow_root": True, "port": port, "open_browser": False}}
        (folder / "config.json").write_text(json.dumps(settings))
        # JupyterLab would take cells that are out of sight off the page, and with them what a test is about to click.
        whole = folder / "jupyter" / "lab" / "user-settings" / "@jupyterlab" / "notebook-extension"
        whole.mkdir(parents=True)
        (whole / "tracker.jupyterlab-settings").write_text('{"windowingMode": "none"}')
        process = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", "--config", str(folder / "config.json")],
            cwd=folder,
            env=os.environ | {"JUPYTER_CONFIG_DIR": str(folder / "jupyter"), "IPYTHONDIR": str(folder / "ipython")},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        started.append(process)
        address = f"http://127.0.0.1:{port}"
        for _ in range(240):
            try:
                urllib.request.urlopen(f"{address}/api").close()
                break
            except OSError:
                assert process.poll() is None, "JupyterLab ended"
                time.sleep(0.5)
        return address

    yield start
    for process in started:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(30)


@pytest.fixture(scope="session")
def loopback() -> Iterator[Callable[[Path], str]]:
    """Serves folders over http on this machine alone; gives the address of each, without a slash."""
    started: list[ThreadingHTTPServer] = []

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    def serve(folder: Path) -> str:
        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        started.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield serve
    for server in started:
        server.shutdown()


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The text of axe-core, fetched by npm; ``MEDVRAG_AXE`` names a file where there is no npm."""
    if named := os.environ.get("MEDVRAG_AXE"):
        return Path(named).read_text(encoding="utf-8")
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("no npm to fetch axe-core with; set MEDVRAG_AXE to a copy of axe.min.js")
    folder = tmp_path_factory.mktemp("axe")
    command = [npm, "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--ignore-scripts", AXE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        pytest.skip(f"npm could not fetch {AXE}: {done.stderr.strip().splitlines()[-1:]}")
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")
