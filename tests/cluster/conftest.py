"""A Ray cluster of processes on this machine, for tests that take machines away from it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

REPO = Path(__file__).resolve().parents[2]
ARTICLES, PAGES = 6, 25
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


@pytest.fixture(scope="module")
def articles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six files of 25 pages, and one that is none: more than two shards."""
    import pymupdf

    folder = tmp_path_factory.mktemp("articles")
    for number in range(ARTICLES):
        with pymupdf.open() as document:
            for page in range(PAGES):
                text = f"Dose {number * PAGES + page} mg of drug {number} lowers the pressure on day {page}. " * 4
                document.new_page(width=420, height=595).insert_textbox((40, 80, 380, 500), text, fontsize=10)
            document.save(folder / f"article{number}.pdf")
    (folder / "broken.pdf").write_bytes(b"no pdf at all")
    return folder


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
