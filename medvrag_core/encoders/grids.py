"""Where on the page each image token of a model looks: one box a token, in the order of the tokens."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

TokenBoxes = Callable[[Any, Any, dict[str, Any]], NDArray[np.float32]]
"""From a processor, a model and one processed page to the boxes of its image tokens, float32, shape (n, 4)."""

_TILE = re.compile(r"<row_(\d+)_col_(\d+)>")


def patch_boxes(down: int, across: int) -> NDArray[np.float32]:
    """Boxes of a patch grid, row by row, float32, shape (down * across, 4).

    >>> patch_boxes(1, 2).tolist()
    [[0.0, 0.0, 0.5, 1.0], [0.5, 0.0, 1.0, 1.0]]
    """
    y, x = np.divmod(np.arange(down * across), across)
    corners = [x / across, y / down, (x + 1) / across, (y + 1) / down]
    return np.stack(corners, axis=1).astype(np.float32)


def tile_boxes(down: int, across: int, side: int) -> NDArray[np.float32]:
    """Boxes of a page cut into tiles of ``side`` x ``side`` tokens, tile by tile; then those of the page as a whole.

    A page of one tile is only seen as a whole. float32, shape (n, 4).

    >>> tile_boxes(1, 2, 1).tolist()
    [[0.0, 0.0, 0.5, 1.0], [0.5, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 1.0]]
    >>> len(tile_boxes(1, 1, 8)), len(tile_boxes(4, 3, 8))
    (64, 832)
    """
    whole = patch_boxes(side, side)
    if down * across == 1:
        return whole
    tiles = []
    for tile in patch_boxes(down, across):
        corner, size = tile[[0, 1, 0, 1]], (tile[2:] - tile[:2])[[0, 1, 0, 1]]
        tiles.append(corner + whole * size)
    return np.concatenate([*tiles, whole])


def merged_boxes(processor: Any, model: Any, given: dict[str, Any]) -> NDArray[np.float32]:
    """The Qwen families: the page keeps its shape; neighboring patches are merged to one token."""
    _, down, across = given["image_grid_thw"][0].tolist()
    merge = int(model.spatial_merge_size)
    return patch_boxes(down // merge, across // merge)


def square_boxes(processor: Any, model: Any, given: dict[str, Any]) -> NDArray[np.float32]:
    """ColPali: every page is drawn into one square of a fixed number of patches."""
    size, patch = processor.image_processor.size, int(model.config.vision_config.patch_size)
    return patch_boxes(size["height"] // patch, size["width"] // patch)


def tiled_boxes(processor: Any, model: Any, given: dict[str, Any]) -> NDArray[np.float32]:
    """The Idefics3 families: tiles that the prompt numbers, then the page as a whole."""
    told = _TILE.findall(processor.tokenizer.decode(given["input_ids"][0]))
    down, across = (max(int(tile[axis]) for tile in told) for axis in (0, 1)) if told else (1, 1)
    return tile_boxes(down, across, round(processor.image_seq_len**0.5))
