"""How MiniCPM-V 2.0 cuts a page into slices: the whole page small, then a grid of cells at reading size.

The arithmetic of ``slice_image`` in the code released with VisRAG (OpenBMB/VisRAG, ``modeling_minicpmv.py``), which is
the adaptive encoding of LLaVA-UHD: as many cells as the page has times the area of ``scale`` x ``scale`` pixels, in the
grid whose shape comes closest to the page's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True)
class Slicing:
    """Sizes in pixels, width before height.

    Attributes
    ----------
    overview : what the whole page is resized to
    grid : columns and rows of cells; none where the page is small enough for one look
    cell : size of one cell; all cells of a page have the same
    """

    overview: tuple[int, int]
    grid: tuple[int, int] | None
    cell: tuple[int, int]


def plan_slices(width: int, height: int, *, scale: int, patch: int, at_most: int) -> Slicing:
    """The slices of a page image.

    Parameters
    ----------
    width, height : of the page image, pixels
    scale : side of the square that one look takes in, pixels (448)
    patch : sides are multiples of it, pixels (14)
    at_most : largest number of cells (9)

    >>> plan_slices(1700, 2200, scale=448, patch=14, at_most=9)  # US Letter at 200 dpi
    Slicing(overview=(392, 504), grid=(3, 3), cell=(392, 504))
    """
    overview = _fitted(width, height, scale, patch)
    looks = min(math.ceil(width * height / scale**2), at_most)
    if looks <= 1:
        return Slicing(overview, None, overview)
    grids = [
        (columns, number // columns)
        for number in (looks - 1, looks, looks + 1)
        if 1 < number <= at_most
        for columns in range(1, number + 1)
        if number % columns == 0
    ]
    columns, rows = min(grids, key=lambda grid: abs(math.log(width / height) - math.log(grid[0] / grid[1])))
    cell = _fitted(_multiple(width, columns) / columns, _multiple(height, rows) / rows, scale, patch)
    return Slicing(overview, (columns, rows), cell)


def cut(image: Image, slicing: Slicing) -> list[Image]:
    """The overview, then the cells row by row."""
    from PIL import Image as Images

    bicubic = Images.Resampling.BICUBIC
    slices = [image.resize(slicing.overview, bicubic)]
    if slicing.grid is not None:
        (columns, rows), (width, height) = slicing.grid, slicing.cell
        whole = image.resize((columns * width, rows * height), bicubic)
        for top in range(0, rows * height, height):
            slices += [whole.crop((x, top, x + width, top + height)) for x in range(0, columns * width, width)]
    return slices


def _fitted(width: float, height: float, scale: int, patch: int) -> tuple[int, int]:
    """Size of the same shape and about ``scale`` x ``scale`` pixels, in whole patches."""
    shape = width / height
    down = int(scale / math.sqrt(shape))
    return _multiple(int(down * shape), patch), _multiple(down, patch)


def _multiple(length: float, of: int) -> int:
    """The nearest multiple, never zero."""
    return max(round(length / of) * of, of)
