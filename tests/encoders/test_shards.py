from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from medvrag_core.encoders.minilm import unit_rows
from medvrag_core.encoders.shards import digests, open_shard, read_contents, write_shard
from medvrag_core.encoders.storage import pack, unpack
from medvrag_core.records import PageVectors
from medvrag_core.settings import Storage

DIM = 16


def drawn(rng: np.random.Generator, page_id: str, rows: int, patches: int) -> PageVectors:
    return PageVectors(
        page_id,
        unit_rows(rng.normal(size=(rows, DIM)).astype(np.float32)),
        rng.random((patches, 4), dtype=np.float32),
        rng.integers(0, rows, patches),
    )


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sizes=st.lists(st.tuples(st.integers(1, 300), st.integers(1, 400)), min_size=1, max_size=8),
    storage=st.sampled_from(["float32", "float16", "int8"]),
    seed=st.integers(0, 2**32 - 1),
)
def test_pages_come_back_one_by_one(tmp_path: Path, sizes: list[tuple[int, int]], storage: Storage, seed: int) -> None:
    rng = np.random.default_rng(seed)
    pages = [drawn(rng, f"Ä{k}#p1", rows, patches) for k, (rows, patches) in enumerate(sizes)]
    write_shard(tmp_path / "s", pages, storage)
    shard, contents = open_shard(tmp_path / "s"), read_contents(tmp_path / "s")
    assert contents.page_ids == tuple(page.page_id for page in pages)
    assert contents.rows.tolist() == [rows for rows, _ in sizes]
    assert np.array_equal(shard.vectors(), np.concatenate([unpack(pack(page.vectors, storage)) for page in pages]))
    for place in rng.permutation(len(pages)):
        read, page = shard.page(int(place)), pages[place]
        assert read.page_id == page.page_id
        assert np.array_equal(read.vectors, unpack(pack(page.vectors, storage)))
        assert np.abs(read.boxes - page.boxes).max() <= 2**-12
        assert np.array_equal(read.vector_of, page.vector_of) and read.vector_of.dtype == np.int64
        assert read.vectors.dtype == read.boxes.dtype == np.float32


def test_vectors_stay_on_the_disk_until_they_are_asked_for(tmp_path: Path) -> None:
    write_shard(tmp_path / "s", [drawn(np.random.default_rng(0), "a#p1", 5, 5)], "int8")
    assert isinstance(open_shard(tmp_path / "s").stored.vectors, np.memmap)


def test_the_same_pages_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_shard(tmp_path / name, [drawn(np.random.default_rng(3), "a#p1", 9, 30)], "int8")
    assert digests(tmp_path / "a") == digests(tmp_path / "b")


@pytest.mark.parametrize(("together", "at_most"), [(True, 450), (False, 700)])
def test_the_patches_of_a_grid_cost_a_few_hundred_bytes_a_page(tmp_path: Path, together: bool, at_most: int) -> None:
    rng = np.random.default_rng(0)
    y, x = np.divmod(np.arange(31 * 24), 24)
    grid = np.stack([x / 24, y / 31, (x + 1) / 24, (y + 1) / 31], axis=1).astype(np.float32)
    pages = []
    for k in range(64):
        vector_of = rng.integers(0, 103, len(grid))
        if together:  # Neighbors look alike on real pages, so that clusters hang together.
            centers = rng.random((103, 2))
            vector_of = ((grid[:, None, :2] - centers) ** 2).sum(axis=2).argmin(axis=1)
        pages.append(PageVectors(f"a{k}#p1", np.eye(103, DIM, dtype=np.float32), grid, vector_of))
    write_shard(tmp_path / "s", pages, "int8")
    raw = sum(page.boxes.nbytes // 2 + page.vector_of.nbytes for page in pages) / len(pages)
    assert raw > 11_000
    assert (tmp_path / "s" / "pages.npz").stat().st_size / len(pages) < at_most
