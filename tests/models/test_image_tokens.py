"""Visual tokens of page images: a table of known sizes, the rules of the processor, and the processor itself."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from medvrag_core.models.image_tokens import MIN_PIXELS, TILE, image_tokens, resized

SIDES = st.integers(28, 6_000)
CAPS = st.integers(100_352, 4_000_000)


@pytest.mark.parametrize(
    ("width", "height", "max_pixels", "tokens"),
    [
        (2550, 3300, 602_112, 744),  # US Letter at 300 dpi under the encoder's 768 tokens
        (2480, 3508, 602_112, 736),  # A4
        (3300, 2550, 602_112, 744),  # turned
        (880, 1139, 1_003_520, 1_271),  # Letter as `images.sized` sends it under the default cap
        (28, 28, 602_112, 4),  # enlarged to the least number of pixels
        (1400, 1680, 4_000_000, 3_000),  # whole tiles stay as they are
    ],
)
def test_sizes_that_are_known(width: int, height: int, max_pixels: int, tokens: int) -> None:
    assert image_tokens(width, height, max_pixels=max_pixels) == tokens


@given(SIDES, SIDES, CAPS)
def test_bc39_both_sides_are_whole_tiles_within_the_bounds(width: int, height: int, cap: int) -> None:
    assume(max(width, height) <= 4 * min(width, height))
    wide, high = resized(width, height, max_pixels=cap)
    assert wide % TILE == high % TILE == 0
    assert MIN_PIXELS <= wide * high <= cap
    assert image_tokens(width, height, max_pixels=cap) * TILE**2 == wide * high


@given(SIDES, SIDES, CAPS)
def test_a_turned_image_costs_the_same(width: int, height: int, cap: int) -> None:
    assume(max(width, height) <= 200 * min(width, height))
    assert image_tokens(width, height, max_pixels=cap) == image_tokens(height, width, max_pixels=cap)


@given(st.integers(1, 200), st.integers(1, 200), CAPS)
def test_an_image_of_whole_tiles_is_not_resized(columns: int, rows: int, cap: int) -> None:
    assume(MIN_PIXELS <= columns * rows * TILE**2 <= cap and max(columns, rows) <= 200 * min(columns, rows))
    assert resized(columns * TILE, rows * TILE, max_pixels=cap) == (columns * TILE, rows * TILE)


@pytest.mark.parametrize(("width", "height"), [(0, 10), (10, 0), (-1, 5), (1, 201), (28 * 201, 28)])
def test_images_that_the_processor_refuses(width: int, height: int) -> None:
    with pytest.raises(ValueError, match=f"{width} x {height}"):
        image_tokens(width, height, max_pixels=602_112)


def test_the_most_extreme_shape_is_still_taken() -> None:
    assert image_tokens(5_600, 28, max_pixels=602_112) == 200


def test_the_resize_is_that_of_the_processor_itself() -> None:
    module = pytest.importorskip(
        "transformers.models.qwen2_vl.image_processing_qwen2_vl", exc_type=ImportError, reason="extra 'gpu'"
    )

    @given(st.integers(1, 6_000), st.integers(1, 6_000), CAPS, st.integers(MIN_PIXELS, 100_352))
    def same(width: int, height: int, most: int, least: int) -> None:
        assume(max(width, height) <= 200 * min(width, height))
        high, wide = module.smart_resize(height, width, factor=TILE, min_pixels=least, max_pixels=most)
        assert resized(width, height, max_pixels=most, min_pixels=least) == (wide, high)

    same()
