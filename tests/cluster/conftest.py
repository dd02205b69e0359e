"""A Ray cluster of processes on this machine, for tests that take machines away from it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

REPO = Path(__file__).resolve().parents[2]
SMALL = {"object_store_memory": 80_000_000, "include_dashboard": False}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A cluster of two node processes with one core each, to which this process is connected; the head is one."""
    pytest.importorskip("ray", reason="Ray is not installed: python3 run.py setup --with ray")
    before = dict(os.environ)
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    # Workers import what tests pickle by name.
    os.environ["PYTHONPATH"] = os.pathsep.join(str(REPO / "tests" / room) for room in ("cluster", "encoders", "index"))
    import ray

    made = started()
    ray.init(address=made.address, log_to_driver=False, logging_level="ERROR")
    try:
        yield made
    finally:
        ray.shutdown()
        made.shutdown()
        os.environ.clear()
        os.environ.update(before)


def started(tries: int = 3) -> Any:
    """Ray gives a node half a minute to start, which is not always enough beside other work."""
    from ray.cluster_utils import Cluster

    made = Cluster()
    try:
        for _ in range(2):
            made.add_node(num_cpus=1, **SMALL)
    except Exception:
        made.shutdown()
        if tries == 1:
            raise
        return started(tries - 1)
    return made
