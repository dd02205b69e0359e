from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from medvrag_core.encoders.page_slices import cut, plan_slices

RELEASED = {
    (1700, 2200): ((392, 504), (3, 3), (392, 504)),
    (1240, 1754): ((378, 532), (2, 4), (532, 378)),
    (800, 1200): ((364, 546), (2, 3), (448, 448)),
    (800, 300): ((728, 280), (3, 1), (420, 476)),
    (400, 3000): ((168, 1232), (1, 7), (434, 462)),
    (448, 448): ((448, 448), None, (448, 448)),
    (449, 448): ((448, 448), (2, 1), (322, 630)),
    (100, 100): ((448, 448), None, (448, 448)),
}
"""What ``slice_image`` of OpenBMB/VisRAG (commit f35d232) makes of images of these sizes."""


@pytest.mark.parametrize("size", RELEASED)
def test_pages_are_cut_as_by_the_released_code(size: tuple[int, int]) -> None:
    slicing = plan_slices(*size, scale=448, patch=14, at_most=9)
    assert (slicing.overview, slicing.grid, slicing.cell) == RELEASED[size]


@given(st.integers(1, 4000), st.integers(1, 4000), st.sampled_from([56, 448]), st.integers(1, 16))
@settings(max_examples=200, deadline=None)
def test_sizes_are_whole_patches_and_the_grid_is_the_best_of_its_kind(
    width: int, height: int, scale: int, at_most: int
) -> None:
    slicing = plan_slices(width, height, scale=scale, patch=14, at_most=at_most)
    assert all(side >= 14 and side % 14 == 0 for side in (*slicing.overview, *slicing.cell))
    looks = min(math.ceil(width * height / scale**2), at_most)
    if slicing.grid is None:
        assert looks <= 1
        return
    columns, rows = slicing.grid
    assert 1 < columns * rows <= at_most and abs(columns * rows - looks) <= 1

    def off(columns: int, rows: int) -> float:
        return abs(math.log((width / height) / (columns / rows)))

    others = [(c, r) for c in range(1, at_most + 1) for r in range(1, at_most + 1) if 1 < c * r <= at_most]
    assert off(columns, rows) <= min(off(c, r) for c, r in others if abs(c * r - looks) <= 1) + 1e-9


def test_the_overview_comes_first_and_the_cells_tile_the_page_row_by_row() -> None:
    page = Image.fromarray(np.random.default_rng(0).integers(0, 255, (190, 130, 3), dtype=np.uint8))
    slicing = plan_slices(*page.size, scale=56, patch=14, at_most=9)
    assert slicing.grid is not None
    (columns, rows), (width, height) = slicing.grid, slicing.cell
    overview, *cells = cut(page, slicing)
    assert overview.size == slicing.overview and len(cells) == columns * rows > 2
    table = [np.hstack([np.asarray(one) for one in cells[r * columns : (r + 1) * columns]]) for r in range(rows)]
    whole = page.resize((columns * width, rows * height), Image.Resampling.BICUBIC)
    assert np.array_equal(np.vstack(table), np.asarray(whole))


def test_a_small_page_is_looked_at_once() -> None:
    page = Image.new("RGB", (30, 20))
    assert [one.size for one in cut(page, plan_slices(30, 20, scale=56, patch=14, at_most=9))] == [(70, 42)]
