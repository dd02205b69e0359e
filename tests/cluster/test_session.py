"""Connecting to Ray: what is refused, and what killed processes leave behind."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from filelock import FileLock

from medvrag_core.cluster.session import LOCK, join, remove_leftovers
from medvrag_core.errors import InputError
from medvrag_core.settings import RaySettings


def test_folders_of_processes_that_are_gone_are_removed_and_no_others(tmp_path: Path) -> None:
    for name in ("ray-dead", "ray-alive", "ray-of-somebody", "other"):
        (tmp_path / name / "session").mkdir(parents=True)
    for name in ("ray-dead", "ray-alive", "other"):
        (tmp_path / name / LOCK).touch()
    with FileLock(tmp_path / "ray-alive" / LOCK):
        remove_leftovers(tmp_path)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "ray-alive", "ray-of-somebody"]
    remove_leftovers(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "ray-of-somebody"]


@pytest.mark.parametrize("where", ["nowhere", "127.0.0.1:no", "127.0.0.1:{free}", "host.invalid:6379"])
def test_an_address_without_a_cluster_is_told_with_a_way_out(where: str) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: python3 run.py setup --with ray")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # Nobody listens there.
        named = where.format(free=taken.getsockname()[1])
        with pytest.raises(InputError, match="no Ray cluster answers") as told:
            join(RaySettings(where=named), 1)
    assert named in told.value.problem
    assert "ray start --head" in told.value.way_out


def test_a_cluster_of_this_machine_that_is_gone_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: python3 run.py setup --with ray")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        written = tmp_path / "ray" / "ray_current_cluster"
        written.parent.mkdir()
        written.write_text(f"127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(InputError, match=r"ray\.where 'auto': no Ray cluster answers"):
            join(RaySettings(where="auto"), 1)
