from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from medvrag_core.encoders.minilm import unit_rows
from medvrag_core.encoders.shards import (
    Span,
    contents_of_shard,
    patches_of_shard,
    read_rows,
    room_for,
    starts,
    unfit,
    write_shard,
)
from medvrag_core.encoders.storage import pack, unpack
from medvrag_core.errors import MismatchError
from medvrag_core.records import PageVectors
from medvrag_core.runs.verified import digests
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
    contents, patches = contents_of_shard(tmp_path / "s"), patches_of_shard(tmp_path / "s")
    assert contents.page_ids == tuple(page.page_id for page in pages)
    assert contents.rows.tolist() == [rows for rows, _ in sizes]
    offsets = starts(contents.rows)
    for place in rng.permutation(len(pages)):
        page = pages[place]
        stored = room_for(len(page.vectors), DIM, storage)
        span = Span(int(offsets[place]), 0, len(page.vectors))
        read_rows(tmp_path / "s", int(offsets[-1]), [span], stored, way_out="")
        assert np.array_equal(unpack(stored), unpack(pack(page.vectors, storage)))
        boxes, vector_of = patches.page(int(place))
        assert boxes.dtype == np.float32 and np.abs(boxes - page.boxes).max() <= 2**-12
        assert np.array_equal(vector_of, page.vector_of) and vector_of.dtype == np.int64


@pytest.mark.parametrize("storage", ["float32", "float16", "int8"])
@pytest.mark.parametrize("change", ["cut", "longer", "head", "gone"])
@pytest.mark.parametrize("file", ["vectors.npy", "scales.npy"])
def test_a_file_of_another_length_is_told(tmp_path: Path, storage: Storage, change: str, file: str) -> None:
    if file == "scales.npy" and storage != "int8":
        pytest.skip("only int8 has scales")
    write_shard(tmp_path / "s", [drawn(np.random.default_rng(0), "a#p1", 5, 5)], storage)
    path = tmp_path / "s" / file
    data = path.read_bytes()
    path.write_bytes({"cut": data[:-1], "longer": data + b"0", "head": data[:7], "gone": b""}[change])
    if change == "gone":
        path.unlink()
    with pytest.raises(MismatchError, match=rf"{file}: .*; do it again"):
        read_rows(tmp_path / "s", 5, [Span(0, 0, 1)], room_for(5, DIM, storage), way_out="do it again")


def test_what_no_shard_can_hold_is_said_in_words() -> None:
    def page(vectors: np.ndarray, page_id: str = "a#p1") -> PageVectors:
        return PageVectors(page_id, vectors.astype(np.float32), np.zeros((1, 4), np.float32), np.zeros(1, np.int64))

    assert unfit(page(np.ones((2, 3))), 3) == ""
    assert unfit(page(np.ones((0, 3))), 3) == "it has no vector"
    assert unfit(page(np.ones((2, 4))), 3) == "its vectors are 4 wide, not 3"
    assert unfit(page(np.array([[1, 0, 0], [0, np.inf, 0]])), 3) == "a vector of it is not finite"
    assert unfit(page(np.ones((2, 3)), "a\0"), 3) == "its id has a character of code 0"


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
