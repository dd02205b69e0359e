"""The connection of this process to a Ray of its own or to a cluster; made on first use, ended with the process."""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from filelock import FileLock, Timeout

from medvrag_core.errors import InputError, SettingsError
from medvrag_core.settings import RaySettings

OBJECT_STORE_BYTES = 200_000_000
"""Of a Ray on this machine alone. Pages, vectors and segments go through files; items, entries and scores are small."""
LOCK = "medvrag.lock"
"""In the folder of a Ray that is started here, held as long as its process lives."""
_ANSWER_S = 5.0


def join(settings: RaySettings, cores: int) -> None:
    """Connect to Ray as ``settings.where`` says, unless this process is connected already.

    A Ray on this machine alone listens on loopback, has no dashboard, sends no usage statistics, and ends with this
    process, which removes its files.

    Parameters
    ----------
    cores : of a Ray that is started here

    Raises
    ------
    SettingsError : Ray is not installed
    InputError : there is no cluster at the address
    """
    if find_spec("ray") is None:
        raise SettingsError(
            f"ray.where is '{settings.where}', and Ray is not installed",
            way_out="run `python3 run.py setup --with ray`, or leave Ray out with --ray off",
        )
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Ray Data makes Ray's core warn, in every stage, of something that it does by design.
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    import ray

    if ray.is_initialized():
        return
    if settings.where == "local":
        _start(cores)
        return
    try:
        address = _cluster_here() if settings.where == "auto" else settings.where
        if address != "auto":
            _require_answer(address)
        with _silent(), _own_sigterm():
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, ValueError, RuntimeError) as error:
        raise InputError(
            f"ray.where '{settings.where}': no Ray cluster answers ({str(error).splitlines()[0]})",
            way_out="start one with `ray start --head`, or take --ray local",
        ) from None


def told_by(error: BaseException) -> str:
    """What an error of Ray, or the error of ours that it wraps, says last, in one line."""
    cause = getattr(error, "cause", None) or error
    lines = [line for line in str(cause).splitlines() if line.strip()]
    return f"{type(cause).__name__}: {lines[-1] if lines else ''}"


def remove_leftovers(folder: Path) -> None:
    """Remove what the Rays of killed processes left in a folder for temporary files."""
    for lock in folder.glob(f"ray-*/{LOCK}"):
        try:
            with FileLock(lock, timeout=0):
                shutil.rmtree(lock.parent, ignore_errors=True)
        except (Timeout, OSError):
            pass  # Its process lives, or it is another user's.


def _start(cores: int) -> None:
    import ray

    remove_leftovers(Path(tempfile.gettempdir()))
    # Ray has its workers wait for whatever else runs on a machine; processes of this package do not.
    os.environ.setdefault("RAY_worker_niceness", "0")
    home = tempfile.mkdtemp(prefix="ray-")  # Short, since paths of sockets must be.
    lock = FileLock(Path(home, LOCK))
    lock.acquire()
    try:
        with _silent(), _own_sigterm():
            ray.init(
                address="local",
                num_cpus=cores,
                object_store_memory=OBJECT_STORE_BYTES,
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
                _temp_dir=home,
                _node_ip_address="127.0.0.1",
            )
    except BaseException:
        _end(home, lock)
        raise
    atexit.register(_end, home, lock)  # Runs before what Ray itself registered, which finds nothing left to end.


def _cluster_here() -> str:
    """Where the cluster of this machine is, or was: what Ray wrote down stays when its processes are killed."""
    from ray._private.utils import read_ray_address

    return os.environ.get("RAY_ADDRESS") or read_ray_address() or "auto"


def _require_answer(address: str) -> None:
    """Raises OSError or ValueError; Ray itself would try for minutes, and then end the process."""
    host, colon, port = address.rpartition(":")
    if not (colon and port.isdecimal()):
        raise ValueError("it is not host:port")
    socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER_S).close()


@contextmanager
def _silent() -> Iterator[None]:
    """Ray's core tells on the terminal that it obeys RAY_BACKEND_LOG_LEVEL; what goes wrong is raised."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with Path(os.devnull).open("wb") as nothing:
            os.dup2(nothing.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


@contextmanager
def _own_sigterm() -> Iterator[None]:
    """Ray has SIGTERM end the process at once; here it is to end as Ctrl-C does."""
    kept = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, kept)


def _end(home: str, lock: FileLock) -> None:
    import ray

    ray.shutdown()
    lock.release()
    shutil.rmtree(home, ignore_errors=True)
