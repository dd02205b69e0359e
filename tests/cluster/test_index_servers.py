"""The index served by actors on a real Ray: hits of one index, whoever is killed; never those of a part."""

from __future__ import annotations

import os
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_index import made_pages, made_store

from medvrag_core.cluster.index_servers import IndexServers, LostPagesError
from medvrag_core.encoders.vectors import VectorStore
from medvrag_core.index import build as index_build
from medvrag_core.index.build import open_index, usable_manifest, write_index
from medvrag_core.index.parts import DividedIndex, divided
from medvrag_core.profiles.load import load_profile
from medvrag_core.runs.workspace import Workspace

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A run with an index of four segments."""
    workspace = Workspace(tmp_path_factory.mktemp("run"))
    store = made_store(workspace.vectors, made_pages(200))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_build, "SEGMENT_NUMBERS", 16)
        settings = load_profile("test").index
        write_index(store, settings, workspace.index, near_duplicate=2.0, progress=False)
    return workspace


def served(
    run: Workspace, timeout_s: float = 90.0, *, parts: int = 2, replicas: int = 1
) -> tuple[IndexServers, DividedIndex]:
    profile = load_profile("test", {"ray.where": "auto", "ray.timeout_s": timeout_s, "ray.replicas": replicas})
    store = VectorStore.open(run.vectors)
    made = divided(store, run.index, usable_manifest(store, run.index), profile.index, parts)
    servers = IndexServers(made, profile.ray)
    return servers, DividedIndex(store, made, servers.ask)


def processes(servers: IndexServers) -> list[int]:
    import ray

    return [ray.get(actor.process.remote()) for actors in servers.actors for actor in actors]


def query(seed: int) -> np.ndarray:
    rows = np.random.default_rng(seed).normal(size=(4, 16)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_a_server_that_is_killed_comes_back_and_no_hit_differs(cluster: Any, run: Workspace) -> None:
    servers, index = served(run)
    whole = open_index(VectorStore.open(run.vectors), load_profile("test").index, run.index)
    before = processes(servers)
    assert len({*before}) == 2
    for seed in range(6):
        if seed == 3:
            os.kill(before[0], signal.SIGKILL)
        assert index.search(query(seed), 20).hits == whole.search(query(seed), 20).hits
    assert processes(servers)[0] != before[0]
    servers.close()


def test_replicas_take_turns_and_one_answers_for_the_other(cluster: Any, run: Workspace) -> None:
    import ray

    servers, index = served(run, parts=1, replicas=2)
    whole = open_index(VectorStore.open(run.vectors), load_profile("test").index, run.index)
    assert [len(actors) for actors in servers.actors] == [2]
    assert len({*processes(servers)}) == 2
    for seed in range(4):
        assert index.search(query(seed), 20).hits == whole.search(query(seed), 20).hits
    ray.kill(servers.actors[0][1], no_restart=True)
    for seed in range(4):  # Every second call is the turn of the one that is gone for good.
        assert index.search(query(seed), 20).hits == whole.search(query(seed), 20).hits
    ray.kill(servers.actors[0][0], no_restart=True)
    with pytest.raises(LostPagesError, match="no server answers for 200 of 200 pages"):
        index.search(query(0), 5)


def test_a_part_that_nobody_can_open_any_more_fails_the_query(cluster: Any, run: Workspace, tmp_path: Path) -> None:
    copy = Workspace(Path(shutil.copytree(run.root, tmp_path / "copy")))
    servers, index = served(copy, timeout_s=30.0)
    assert index.search(query(0), 5).hits
    last = next(copy.index.glob("segment-000003-*"))
    (last / "codes.npy").write_bytes(b"gone")
    os.kill(processes(servers)[1], signal.SIGKILL)
    with pytest.raises(LostPagesError, match=r"no server answers for \d+ of 200 pages"):
        index.search(query(0), 5)
    servers.close()


def test_many_threads_ask_at_one_time_and_each_gets_its_own_hits(cluster: Any, run: Workspace) -> None:
    servers, index = served(run, parts=1, replicas=2)
    whole = open_index(VectorStore.open(run.vectors), load_profile("test").index, run.index)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda seed: index.search(query(seed), 20).hits, range(40)))
    assert found == [whole.search(query(seed), 20).hits for seed in range(40)]
    servers.close()
