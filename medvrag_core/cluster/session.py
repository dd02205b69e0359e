"""The connection of this process to a Ray of its own or to a cluster; made on first use, ended with the process."""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import tempfile
from importlib.util import find_spec

from medvrag_core.errors import InputError, SettingsError
from medvrag_core.settings import RaySettings

OBJECT_STORE_BYTES = 200_000_000
"""Of a Ray on this machine alone. Pages, vectors and segments go through files; items, entries and scores are small."""


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
    import ray

    if ray.is_initialized():
        return
    if settings.where == "local":
        # Ray has its workers wait for whatever else runs on a machine; processes of this package do not.
        os.environ.setdefault("RAY_worker_niceness", "0")
        home = tempfile.mkdtemp(prefix="ray-")  # Short, since paths of sockets must be.
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
        atexit.register(_end, home)  # Runs before what Ray itself registered, which finds nothing left to end.
        return
    try:
        ray.init(address=settings.where, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise InputError(
            f"ray.where '{settings.where}': no Ray cluster answers ({str(error).splitlines()[0]})",
            way_out="start one with `ray start --head`, or take --ray local",
        ) from None


def told_by(error: BaseException) -> str:
    """What an error of Ray, or the error of ours that it wraps, says last, in one line."""
    cause = getattr(error, "cause", None) or error
    lines = [line for line in str(cause).splitlines() if line.strip()]
    return f"{type(cause).__name__}: {lines[-1] if lines else ''}"


def _end(home: str) -> None:
    import ray

    ray.shutdown()
    shutil.rmtree(home, ignore_errors=True)
