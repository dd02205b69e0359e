"""Where the ANN searches. FAISS for GPUs is not installed here: stand-ins take the place of its GPU functions."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import faiss
import numpy as np
import pytest
from made_index import indexed, made_pages, paper_index

from medvrag_core.errors import MedvragError, SettingsError
from medvrag_core.index.ann_device import ann_device, on_device
from medvrag_core.index.coarse_to_fine import Centroids, CoarseToFineIndex, make_ann
from medvrag_core.index.device_text import device_text
from medvrag_core.settings import IndexSettings, Profile, answering_settings


class StandInIndex:
    """What a stand-in of FAISS gives for an index on a GPU: the index of the CPU, with a mark."""

    def __init__(self, number: int, ann: Any) -> None:
        self.number, self.ann = number, ann

    def search(self, query: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        return self.ann.search(query, k)


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> list[StandInIndex]:
    """FAISS as if it had two GPUs; what was put on them."""
    put: list[StandInIndex] = []

    def index_cpu_to_gpu(resources: object, number: int, ann: Any) -> StandInIndex:
        assert isinstance(ann, faiss.IndexFlat | faiss.IndexIVFFlat), "these have a GPU form"
        put.append(StandInIndex(number, ann))
        return put[-1]

    monkeypatch.setattr(faiss, "get_num_gpus", lambda: 2)
    monkeypatch.setattr(faiss, "StandardGpuResources", object, raising=False)
    monkeypatch.setattr(faiss, "index_cpu_to_gpu", index_cpu_to_gpu, raising=False)
    return put


def made(folder: Path, settings: IndexSettings, pages: int = 60) -> tuple[CoarseToFineIndex, Any]:
    return paper_index(made_pages(pages), folder / str(uuid4()), settings)


def test_without_a_gpu_everything_stays_on_the_cpu(tmp_path: Path) -> None:
    assert faiss.get_num_gpus() == 0
    index, ann = made(tmp_path, IndexSettings())
    assert (index.device, index.ann) == ("cpu", ann)
    assert device_text(IndexSettings(mode="paper")).startswith("the ANN searches on cpu (FAISS ")
    assert device_text(IndexSettings(mode="fast")).startswith("centroids and pages are scored on the CPU by int8")
    assert device_text(IndexSettings(device="cpu")).startswith("every page is scored on the CPU by int8 codes (")
    with pytest.raises(
        SettingsError, match=r"'index.device': cuda:0 cannot be used; FAISS \S+ sees 0 GPUs.*device=cpu"
    ):
        made(tmp_path, IndexSettings(device="cuda:0"))


@pytest.mark.parametrize(
    ("asked", "device", "number"), [("auto", "cuda:0", 0), ("cuda", "cuda:0", 0), ("cuda:1",) * 2 + (1,)]
)
@pytest.mark.parametrize("ann", ["auto", "flat", "ivf"])
def test_an_index_is_put_on_the_gpu_and_finds_the_same(
    two_gpus: list[StandInIndex], asked: str, device: str, number: int, ann: Any, tmp_path: Path
) -> None:
    shape = IndexSettings(ann=ann, ann_neighbors=40, shortlist=20)
    index, _ = made(tmp_path, shape.model_copy(update={"device": asked}))
    assert index.device == device
    assert [(moved.number, moved) for moved in two_gpus] == [(number, index.ann)]
    there, _ = made(tmp_path, shape.model_copy(update={"device": "cpu"}))
    assert there.device == "cpu"
    assert len(two_gpus) == 1
    query = made_pages(60)[40][:4]
    assert index.search(query, 10).hits == there.search(query, 10).hits


def test_the_file_of_an_index_is_that_of_a_cpu(two_gpus: list[StandInIndex], tmp_path: Path) -> None:
    _, ann = made(tmp_path, IndexSettings(ann="ivf"))
    faiss.write_index(ann, str(tmp_path / "ann.faiss"))  # takes nothing that is on a GPU
    assert two_gpus
    assert faiss.read_index(str(tmp_path / "ann.faiss")).ntotal == ann.ntotal


def test_with_a_gpu_auto_is_flat_at_any_size(two_gpus: list[StandInIndex], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medvrag_core.index.coarse_to_fine.FLAT_BELOW", 100)
    rows = np.eye(16, dtype=np.float32)[np.arange(200) % 16]
    assert isinstance(make_ann(rows, IndexSettings()), faiss.IndexFlatIP)
    for settings in (IndexSettings(device="cpu"), IndexSettings(ann_neighbors=2_049)):
        assert isinstance(make_ann(rows, settings), faiss.IndexHNSWFlat)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"ann": "hnsw"}, "'index.ann': hnsw has no GPU form"),
        ({"ann_neighbors": 2_049}, "'index.ann_neighbors': 2,049, but a GPU finds 2,048"),
    ],
)
def test_what_a_gpu_cannot_do_stays_on_the_cpu_unless_it_was_asked_for(
    two_gpus: list[StandInIndex], change: dict[str, Any], words: str, tmp_path: Path
) -> None:
    index, ann = made(tmp_path, IndexSettings(**change))
    assert (index.device, index.ann, two_gpus) == ("cpu", ann, [])
    with pytest.raises(SettingsError) as refused:
        ann_device(IndexSettings(device="cuda:1", **change))
    assert words in str(refused.value)
    with pytest.raises(SettingsError, match="sees 2 GPUs"):
        ann_device(IndexSettings(device="cuda:2"))


def test_an_hnsw_that_was_made_without_a_gpu_stays_on_the_cpu(two_gpus: list[StandInIndex], tmp_path: Path) -> None:
    pages = [np.eye(16, dtype=np.float32)]
    hnsw = make_ann(pages[0], IndexSettings(ann="hnsw"))
    centroids = Centroids(pages[0], np.array([0, 16]))
    index = CoarseToFineIndex(indexed(pages, tmp_path, IndexSettings()), centroids, hnsw, IndexSettings())
    assert index.device == "cpu"
    assert two_gpus == []


def test_no_room_on_the_gpu_is_told_with_the_way_out(
    two_gpus: list[StandInIndex], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise RuntimeError("Error: 'err == cudaSuccess' failed: out of memory\nmore lines")

    monkeypatch.setattr(faiss, "index_cpu_to_gpu", full)
    with pytest.raises(MedvragError, match=r"cannot be put on cuda:1 \(.*out of memory\).*index.device=cpu"):
        on_device(None, "cuda:1")


def test_the_device_is_a_setting_that_changes_no_answer() -> None:
    here, there = (Profile(name="x", index=IndexSettings(device=device)) for device in ("cpu", "cuda:3"))
    assert answering_settings(here) == answering_settings(there)
    for wrong in ("gpu", "cuda:", "cuda:-1", "cuda:0 "):
        with pytest.raises(ValueError, match="device"):
            IndexSettings(device=wrong)
