"""Start the servers of a plan, wait until they answer, keep them, and leave no process behind.

Was run with stand-ins for vLLM and with vLLM on a CPU, not on a GPU. A killed (SIGKILL) ``medvrag serve`` cannot stop
its servers; their process groups are printed at the start.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from medvrag_core.errors import MedvragError, ModelError
from medvrag_core.models.secrets import without_keys
from medvrag_core.models.serving.plan import Server

EXECUTABLE = "MEDVRAG_VLLM"
"""Environment variable with the path of vLLM's command, where it is not on PATH."""

_POLL_S = 0.2
_PROGRESS_S = 15.0
_ANSWER_S = 5.0
_STOP_S = 20.0
_STRAGGLERS_S = 3.0
_LAST_LINES = 20
_TAIL_BYTES = 16_384

Say = Callable[[str], None]


class RunningServer:
    """One started server in a process group of its own."""

    def __init__(self, server: Server, executable: str, logs: Path) -> None:
        self.server = server
        self.log = logs / f"{server.role}.log"
        environment = os.environ | server.environment | {"VLLM_API_KEY": os.environ.get(server.key_env, "")}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [executable, *server.argv[1:]],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def require_alive(self) -> None:
        """Raise ModelError with the end of the log when the process has ended."""
        if self.process.poll() is not None:
            raise ModelError(
                f"the {self.server.role} server ended with status {self.process.returncode}; the end of {self.log}:\n"
                f"{self.tail()}"
            )

    def ready(self) -> bool:
        """Whether the server lists its model; raises ModelError when what answers is another one."""
        names = served_models(self.server)
        if names is not None and self.server.model not in names:
            raise ModelError(f"{self.server.base_url} serves {', '.join(names) or 'nothing'}, not {self.server.model}")
        return names is not None

    def tail(self, lines: int = _LAST_LINES) -> str:
        """Last lines of the log, without keys and control characters."""
        with self.log.open("rb") as handle:
            handle.seek(max(0, self.log.stat().st_size - _TAIL_BYTES))
            text = handle.read().decode("utf-8", "replace")
        shown = ["".join(c for c in line if c.isprintable()) for line in text.splitlines()[-lines:]]
        return without_keys("\n".join(shown), self.server.key_env)

    def signal(self, number: int) -> None:
        """Send a signal to the server and all it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def gone(self) -> bool:
        """Whether no process of the group is left; a finished leader is collected."""
        self.process.poll()
        try:
            os.killpg(self.process.pid, 0)
        except ProcessLookupError:
            return True
        return False


def run_servers(
    servers: Sequence[Server], logs: Path, *, wait_s: float, say: Say, stop: threading.Event | None = None
) -> None:
    """Start servers, wait until all answer, and keep them until a signal or a server's end.

    Servers that share a GPU start one after the other: each measures the memory that is free.

    Parameters
    ----------
    servers : of one phase of a plan
    logs : folder for one log a server; made if missing, logs of an earlier start are overwritten
    wait_s : longest time for a server to answer
    say : shows a line of progress
    stop : acts like a signal when set

    Raises
    ------
    MedvragError
        vLLM is not there, or a port is taken.
    ModelError
        A server ends, does not answer in time, or is not the one asked for. All are stopped first.
    KeyboardInterrupt
        Ctrl-C, SIGTERM or SIGHUP, after all servers were stopped.
    """
    executable = vllm_executable()
    for server in servers:
        _require_free(server)
    logs.mkdir(parents=True, exist_ok=True)
    running: list[RunningServer] = []
    # Signals only set a flag, so none can fall between the start of a process and the note of it.
    with _signals_set(stop or threading.Event()) as stopped:
        try:
            for group in _side_by_side(servers):
                for server in group:
                    started = RunningServer(server, executable, logs)
                    running.append(started)
                    say(f"{server.role}: started, process group {started.process.pid}, log {started.log}")
                _wait_ready(running, len(group), wait_s, say, stopped)
            say("all servers answer; Ctrl-C stops them")
            while True:
                _pause(stopped, running)
        finally:
            _stop(running)
            say("all servers are stopped")


def vllm_executable() -> str:
    """Path of vLLM's command; raises MedvragError where there is none."""
    name = os.environ.get(EXECUTABLE) or "vllm"
    found = shutil.which(name)
    if found is None:
        raise MedvragError(
            f"'{name}' is no command here",
            way_out=f"install vLLM (environment.yml), or set {EXECUTABLE} to the path of its command",
        )
    return found


def served_models(server: Server) -> list[str] | None:
    """Names that a server lists under ``/v1/models``; None while it does not answer.

    Raises ModelError when the key is refused.
    """
    request = urllib.request.Request(f"{server.base_url.rstrip('/')}/models")
    if key := os.environ.get(server.key_env):
        request.add_header("Authorization", f"Bearer {key}")
    # Without a proxy: the server is on this computer.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=_ANSWER_S) as answer:
            listed = json.loads(answer.read(1 << 20))
    except urllib.error.HTTPError as error:
        if error.code in {401, 403}:
            raise ModelError(f"{server.base_url} refuses the key in {server.key_env}") from None
        return None
    except (OSError, ValueError):
        return None
    entries = listed.get("data") if isinstance(listed, dict) else None
    if not isinstance(entries, list):
        return None
    return [str(entry.get("id")) for entry in entries if isinstance(entry, dict)]


def _side_by_side(servers: Sequence[Server]) -> list[list[Server]]:
    """Groups to start one after the other; within a group no GPU is shared."""
    groups: list[list[Server]] = []
    for server in servers:
        taken = {gpu for other in groups[-1] for gpu in other.gpus} if groups else set()
        if groups and not taken & set(server.gpus):
            groups[-1].append(server)
        else:
            groups.append([server])
    return groups


def _wait_ready(running: list[RunningServer], last: int, wait_s: float, say: Say, stopped: threading.Event) -> None:
    """Wait for the ``last`` servers; watch the others too."""
    begin = shown = time.monotonic()
    missing = running[-last:]
    while missing:
        _pause(stopped, running)
        now = time.monotonic()
        for started in [one for one in missing if one.ready()]:
            missing.remove(started)
            say(f"{started.server.role}: answers after {now - begin:.0f} s at {started.server.base_url}")
        names = ", ".join(started.server.role for started in missing)
        if missing and now - begin > wait_s:
            raise ModelError(
                f"{names}: no answer after {wait_s:.0f} s; the end of {missing[0].log}:\n{missing[0].tail()}",
                way_out="allow more time with --wait",
            )
        if missing and now - shown > _PROGRESS_S:
            shown = now
            say(f"{names}: waiting, {now - begin:.0f} s of {wait_s:.0f} s; last in the log: {missing[0].tail(1)[:100]}")


def _pause(stopped: threading.Event, running: list[RunningServer]) -> None:
    """A short pause that ends with KeyboardInterrupt after a signal, and with ModelError when a server is gone."""
    if stopped.wait(_POLL_S):
        raise KeyboardInterrupt
    for started in running:
        started.require_alive()


def _require_free(server: Server) -> None:
    family = socket.AF_INET6 if ":" in server.host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((server.host, server.port))
        except OSError:
            raise MedvragError(
                f"port {server.port} of {server.host}, where the {server.role} server belongs, is taken",
                way_out=f"stop what listens there, or set {server.settings}.base_url",
            ) from None


def _stop(running: list[RunningServer]) -> None:
    """End every process group: asked first, killed after a while."""
    for started in running:
        started.signal(signal.SIGTERM)
    end = time.monotonic() + _STOP_S
    while time.monotonic() < end and not all(started.gone() for started in running):
        if all(started.process.poll() is not None for started in running):
            # Nobody may be there to collect what the servers left, so a group can stay although all in it ended.
            end = min(end, time.monotonic() + _STRAGGLERS_S)
        time.sleep(_POLL_S / 4)
    for started in running:
        if not started.gone():
            started.signal(signal.SIGKILL)
        started.process.wait()


@contextlib.contextmanager
def _signals_set(stopped: threading.Event) -> Iterator[threading.Event]:
    """Ctrl-C, SIGTERM and a closed terminal set the flag; more of them change nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield stopped
        return
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, lambda *_: stopped.set()) for number in numbers}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
