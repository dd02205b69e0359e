from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvrag_core.encoders.grids import patch_boxes, tile_boxes


def area(boxes: np.ndarray) -> float:
    return float(((boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])).sum())


@given(down=st.integers(1, 40), across=st.integers(1, 40))
def test_a_patch_grid_tiles_the_page_row_by_row(down: int, across: int) -> None:
    boxes = patch_boxes(down, across)
    assert boxes.shape == (down * across, 4)
    assert area(boxes) == pytest.approx(1, abs=1e-4)
    assert boxes[0].tolist() == [0, 0, pytest.approx(1 / across), pytest.approx(1 / down)]
    assert boxes[-1, 2:].tolist() == [1, 1]
    assert (np.diff(boxes[:, 1]) >= -1e-6).all()


@given(down=st.integers(1, 5), across=st.integers(1, 5), side=st.integers(1, 8))
def test_tiles_cover_the_page_and_the_page_is_seen_once_more(down: int, across: int, side: int) -> None:
    boxes = tile_boxes(down, across, side)
    tokens = side * side
    assert np.allclose(boxes[-tokens:], patch_boxes(side, side))
    tiles = boxes[:-tokens]
    assert len(tiles) == (0 if down * across == 1 else down * across * tokens)
    if len(tiles):
        assert area(tiles) == pytest.approx(1, abs=1e-4)
        # Together they are one finer grid, in another order.
        finer = patch_boxes(down * side, across * side)
        assert np.allclose(sorted(np.round(tiles, 4).tolist()), sorted(np.round(finer, 4).tolist()), atol=1e-3)
        # The second tile stands to the right of the first, or below it where the page is one tile wide.
        start = tiles[tokens, :2]
        assert start.tolist() == pytest.approx([1 / across, 0] if across > 1 else [0, 1 / down], abs=1e-6)
