"""What is installed where: the environment of a GPU node, that of the GPU path's tests, and the default one agree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

REPO = Path(__file__).resolve().parents[1]
LOCK = REPO / "requirements.lock"
GPU_PATH_LOCK = REPO / "requirements-gpu-path.lock"
# vllm needs mistral-common, which takes no numpy from 2.4 on, and numba, which takes llvmlite 0.47 alone.
OTHER_VERSIONS = {"numpy", "llvmlite"}


def locked(path: Path, python: str) -> dict[str, str]:
    """Versions of a lock by package, of the lines that hold for one Python."""
    from packaging.markers import Marker

    lines = re.findall(r"^([a-z0-9._-]+)==(\S+)(?: ; (.*?))? \\$", path.read_text(encoding="utf-8"), re.MULTILINE)
    here = {"python_full_version": f"{python}.9", "python_version": python, "sys_platform": "linux"}
    return {name: version for name, version, mark in lines if not mark or Marker(mark).evaluate(here)}


@pytest.fixture
def node() -> dict[str, str]:
    """Versions that environment.yml gives to pip on a GPU node."""
    content = yaml.safe_load((REPO / "environment.yml").read_text(encoding="utf-8"))
    (block,) = (entry["pip"] for entry in content["dependencies"] if isinstance(entry, dict))
    pins = dict(line.split("==") for line in block)
    assert len(pins) == len(block), "a package is named twice"
    return pins


def test_a_gpu_node_has_the_versions_of_the_default_install(node: dict[str, str]) -> None:
    default = locked(LOCK, "3.12")
    shared = node.keys() & default.keys()
    assert len(shared) > 30
    differ = {name for name in shared if node[name] != default[name]}
    assert differ == OTHER_VERSIONS


def test_the_gpu_path_is_tested_at_the_versions_of_a_gpu_node(node: dict[str, str]) -> None:
    added = locked(GPU_PATH_LOCK, "3.12")
    assert {name: added[name] for name in node.keys() & added.keys()} == {
        name: node[name] for name in ("colpali-engine", "peft", "torchvision", "transformers")
    }
    assert f'TORCH = "torch=={node["torch"]}"' in (REPO / "run.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
def test_the_gpu_path_adds_to_the_default_install_and_repeats_nothing(python: str) -> None:
    added = locked(GPU_PATH_LOCK, python)
    assert not added.keys() & locked(LOCK, python).keys()
    assert not {name for name in added if name == "torch" or name.startswith(("nvidia-", "cuda-"))}
    text = GPU_PATH_LOCK.read_text(encoding="utf-8")
    assert "://" not in text
    assert text.count("\n    --hash=sha256:") >= len(added)
