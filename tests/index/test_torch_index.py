"""Mode exact on a device of torch: when it is one, and that it finds what exhaustive search finds."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from made_index import flat, made_pages, made_store, page_ids

from medvrag_core.encoders.vectors import VectorStore
from medvrag_core.errors import MedvragError, MismatchError, SettingsError
from medvrag_core.index import torch_index
from medvrag_core.index.build import delete_pages, open_index, write_index
from medvrag_core.index.coded_index import CodedIndex
from medvrag_core.index.device_text import device_text
from medvrag_core.index.exact import ExactIndex
from medvrag_core.index.torch_index import TorchIndex, on_gpu, scan_device
from medvrag_core.settings import IndexSettings

gpu_path = pytest.mark.gpu_path
CPU = IndexSettings(device="cpu", threads=1)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> VectorStore:
    return made_store(tmp_path_factory.mktemp("v") / "v", made_pages(150))


def query(seed: int = 90, rows: int = 6) -> np.ndarray:
    return made_pages(1, seed=seed)[0][:rows]


def kept(pages: list[np.ndarray], places: np.ndarray, backward: float = 1.0) -> ExactIndex:
    """Exhaustive search over an index that never had the other pages."""
    ids = page_ids(len(pages))
    return ExactIndex([ids[k] for k in places], *flat([pages[k] for k in places]), backward=backward)


# --- whether there is a GPU --------------------------------------------------------------


def test_without_torch_auto_stays_on_the_cpu(store: VectorStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    for device in ("auto", "cpu"):
        given_ = IndexSettings(device=device)
        assert scan_device(given_) == "cpu"
        assert on_gpu(store, np.arange(150), given_) is None
        assert device_text(given_).startswith("every page is scored on the CPU by int8 codes (")
    with pytest.raises(MedvragError, match=r"'index\.device': cuda:0 needs the package torch"):
        on_gpu(store, np.arange(150), IndexSettings(device="cuda:0"))


@gpu_path
def test_torch_without_a_gpu_is_the_cpu_and_a_gpu_that_is_not_there_is_refused(
    torch: ModuleType, store: VectorStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert scan_device(IndexSettings()) == "cpu"
    assert on_gpu(store, np.arange(150), IndexSettings()) is None
    with pytest.raises(SettingsError, match=r"'index.device': cuda cannot be used; torch \S+ sees 0 GPUs"):
        on_gpu(store, np.arange(150), IndexSettings(device="cuda"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [scan_device(IndexSettings(device=d)) for d in ("auto", "cuda:1", "cpu")] == ["cuda:0", "cuda:1", "cpu"]
    assert device_text(IndexSettings(device="cuda:1")) == "every page is scored on cuda:1"


@gpu_path
def test_auto_stays_on_the_cpu_where_the_gpu_has_too_little_room_and_says_so(
    torch: ModuleType, store: VectorStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (100_000, 200_000))
    write_index(store, CPU, tmp_path / "i", near_duplicate=1.0, progress=False)
    with caplog.at_level(logging.WARNING, logger=torch_index.__name__):
        index = open_index(store, IndexSettings(threads=1), tmp_path / "i")
    (told,) = [record.getMessage() for record in caplog.records]
    assert told.startswith("stage 1 stays on the CPU: 'index.device': 150 pages as float16 take ")
    assert "cuda:0 has 100,000 free" in told
    assert isinstance(index, CodedIndex)
    assert index.device == "cpu"
    assert index.search(query(), 20).hits == open_index(store, CPU, tmp_path / "i").search(query(), 20).hits
    with pytest.raises(MedvragError, match="cuda:0 has 100,000 free"):
        open_index(store, IndexSettings(device="cuda"), tmp_path / "i")


# --- what it finds, on tensors of the CPU ------------------------------------------------


@gpu_path
@examples(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 999),
    gone=st.sets(st.integers(0, 149), max_size=140),
    k=st.integers(1, 170),
    backward=st.sampled_from([0.0, 0.5, 1.0]),
    rows=st.integers(1, 9),
)
def test_it_finds_what_exhaustive_search_over_the_kept_pages_finds(
    torch: ModuleType, store: VectorStore, seed: int, gone: set[int], k: int, backward: float, rows: int
) -> None:
    places = np.array([place for place in range(150) if place not in gone], dtype=np.int64)
    index = TorchIndex(store, places, CPU.model_copy(update={"backward_weight": backward}))
    asked = query(seed, rows)
    found = index.search(asked, k)
    wanted = kept(made_pages(150), places, backward).search(asked, k).hits
    assert not {hit.page_id for hit in found.hits} & {page_ids(150)[place] for place in gone}
    assert [hit.page_id for hit in found.hits] == [hit.page_id for hit in wanted]
    assert [hit.rank for hit in found.hits] == [*range(1, min(k, len(places)) + 1)]
    assert [hit.score for hit in found.hits] == pytest.approx([hit.score for hit in wanted], abs=1e-5)
    assert not found.proved
    assert [time.step for time in found.times] == ["exact"]
    assert index.device == "cpu"


@gpu_path
def test_pages_are_loaded_in_blocks_of_any_size(
    torch: ModuleType, store: VectorStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = np.flatnonzero(np.arange(150) % 3 > 0)
    whole = TorchIndex(store, places, CPU).search(query(), 100).hits
    for size in (1, 7, 100):
        monkeypatch.setattr(torch_index, "_PAGES_AT_ONCE", size)
        assert TorchIndex(store, places, CPU).search(query(), 100).hits == whole


@gpu_path
def test_equal_scores_are_ranked_by_page_id(torch: ModuleType, tmp_path: Path) -> None:
    pages = [np.array([[1.0, 0.0]], dtype=np.float32)] * 30
    same = made_store(tmp_path / "v", pages)
    places = np.arange(4, 30)
    ids = sorted(page_ids(30)[place] for place in places)
    for k in (1, 7, 26):
        assert [h.page_id for h in TorchIndex(same, places, CPU).search(pages[0], k).hits] == ids[:k]


@gpu_path
def test_a_query_of_another_encoder_is_refused(torch: ModuleType, store: VectorStore) -> None:
    index = TorchIndex(store, np.arange(150), CPU)
    with pytest.raises(MismatchError, match="width 16"):
        index.search(np.ones((2, 3), dtype=np.float32), 1)
    with pytest.raises(MismatchError, match="not finite"):
        index.search(np.full((2, 16), np.nan, dtype=np.float32), 1)


@gpu_path
def test_an_index_opens_on_the_device_of_mode_exact_without_pages_that_were_taken_out(
    torch: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages, ids = made_pages(150), page_ids(150)
    pages[70] = pages[10]
    store = made_store(tmp_path / "v", pages)
    write_index(store, CPU, tmp_path / "i", near_duplicate=0.9999, progress=False)
    delete_pages(store, tmp_path / "i", [ids[3], ids[149]])
    # The device of the tensors is still that of the settings, so all of it runs on the CPU.
    monkeypatch.setattr(torch_index, "scan_device", lambda settings: "cuda:0")
    there = open_index(store, CPU, tmp_path / "i")
    assert isinstance(there, TorchIndex)
    monkeypatch.undo()
    here = open_index(store, CPU, tmp_path / "i")
    for seed in (90, 91):
        found, wanted = (index.search(query(seed), 500).hits for index in (there, here))
        assert {ids[3], ids[149], ids[70]}.isdisjoint(hit.page_id for hit in found)
        assert len(found) == 147
        assert [hit.page_id for hit in found[:100]] == [hit.page_id for hit in wanted[:100]]
    for mode in ("fast", "paper"):
        with monkeypatch.context() as patch:
            patch.setattr(torch_index, "scan_device", lambda settings: "cuda:0")
            index = open_index(store, CPU.model_copy(update={"mode": mode}), tmp_path / "i")
        assert not isinstance(index, TorchIndex), "the other modes score codes"
