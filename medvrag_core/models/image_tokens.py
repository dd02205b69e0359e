"""How many visual tokens a page image costs a Qwen2.5-VL model.

Its processor brings both sides to multiples of 28 pixels, within a least and a most number of pixels; each 28 x 28 tile
(a 2 x 2 merge of 14-pixel patches) is one token. Two tokens mark begin and end of an image.
"""

from __future__ import annotations

import math

TILE = 28
MARKS = 2
MIN_PIXELS = 3_136


def resized(width: int, height: int, *, max_pixels: int, min_pixels: int = MIN_PIXELS) -> tuple[int, int]:
    """Width and height in pixels after the processor's own resize.

    Raises ValueError for an empty image or a side ratio above 200, which the processor refuses too.

    >>> resized(2550, 3300, max_pixels=602_112)
    (672, 868)
    """
    if min(width, height) < 1 or max(width, height) > 200 * min(width, height):
        raise ValueError(f"an image of {width} x {height} pixels cannot be shown to the model")
    # Python's round is the processor's: halves go to the even neighbor.
    wide, high = (round(side / TILE) * TILE for side in (width, height))
    if wide * high > max_pixels:
        shrink = math.sqrt(width * height / max_pixels)
        wide, high = (max(TILE, math.floor(side / shrink / TILE) * TILE) for side in (width, height))
    elif wide * high < min_pixels:
        grow = math.sqrt(min_pixels / (width * height))
        wide, high = (math.ceil(side * grow / TILE) * TILE for side in (width, height))
    return wide, high


def image_tokens(width: int, height: int, *, max_pixels: int, min_pixels: int = MIN_PIXELS) -> int:
    """Tokens of one image in a prompt, its two marks not counted.

    >>> image_tokens(2550, 3300, max_pixels=602_112)
    744
    """
    wide, high = resized(width, height, max_pixels=max_pixels, min_pixels=min_pixels)
    return wide * high // TILE**2
