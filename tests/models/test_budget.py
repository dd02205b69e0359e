"""Pages in one prompt: what fits is sent whole, what does not is left out from the lowest rank, or nothing is asked."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvrag_core.errors import ModelError
from medvrag_core.models.base import PageImage
from medvrag_core.models.budget import FLOOR_PIXELS, Fit, Overflow, Room, fit_images, page_cost, scaled
from medvrag_core.models.image_tokens import MARKS
from medvrag_core.models.outcomes import CallError
from medvrag_core.settings import ModelSettings

COST = page_cost(ModelSettings(max_pixels=4_000_000))
GIVING_WAY: tuple[Overflow, ...] = ("drop_pages", "scale_pages")


def pages(*sizes: tuple[int, int]) -> tuple[PageImage, ...]:
    return tuple(PageImage(path=Path(f"p{n}.jpg"), width=w, height=h) for n, (w, h) in enumerate(sizes, 1))


BC39 = pages(*[(1400, 1680)] * 10)  # 3,000 visual tokens each
BC39_ROOM = Room(context=32_000, reserve=2_000, text=4_000, images=10)

sizes = st.tuples(st.integers(28, 2_000), st.integers(28, 2_000))
page_lists = st.lists(sizes, min_size=1, max_size=12).map(lambda chosen: pages(*chosen))
rooms = st.builds(
    Room, context=st.integers(256, 40_000), reserve=st.integers(1, 3_000), text=st.integers(0, 9_000),
    images=st.integers(0, 12),
)  # fmt: skip


def try_to_fit(images: tuple[PageImage, ...], room: Room, overflow: Overflow) -> Fit | None:
    try:
        return fit_images(images, room, COST, overflow)
    except CallError as error:
        assert error.kind == "rejected" and "'" in error.way_out, "the setting to change is named"
        return None


def test_bc39_whole_pages_are_dropped_from_the_lowest_rank_until_it_fits() -> None:
    assert COST(1400, 1680) == 3_000
    fit = fit_images(BC39, BC39_ROOM, COST, "drop_pages")
    assert fit.images == BC39[:8]
    assert (fit.tokens, fit.dropped, fit.factor) == ((3_000,) * 8, 2, 1.0)


def test_bc39_or_all_pages_are_made_smaller_by_one_factor() -> None:
    fit = fit_images(BC39, BC39_ROOM, COST, "scale_pages")
    assert [image.path for image in fit.images] == [image.path for image in BC39]
    assert len({(image.width, image.height) for image in fit.images}) == 1
    assert fit.dropped == 0 and 0.8 < fit.factor < 0.9
    assert sum(fit.tokens) + 10 * MARKS <= BC39_ROOM.tokens


def test_bc39_or_nothing_is_asked() -> None:
    with pytest.raises(ModelError, match=r"10 page images of 30020 tokens.*26000 .*context 32000.*loop\.overflow"):
        fit_images(BC39, BC39_ROOM, COST, "refuse")


@pytest.mark.parametrize("overflow", GIVING_WAY)
def test_the_last_token_is_used(overflow: Overflow) -> None:
    exact = Room(context=6_000 + 8 * (3_000 + MARKS), reserve=2_000, text=4_000, images=8)
    assert fit_images(BC39, exact, COST, overflow).images == BC39[:8]
    fit = fit_images(BC39, Room(exact.context - 1, 2_000, 4_000, 8), COST, overflow)
    assert len(fit.images) == 7 if overflow == "drop_pages" else fit.factor < 1.0


@given(sizes)
def test_whole_pixels_do_not_fall_through_the_floor(size: tuple[int, int]) -> None:
    (image,) = pages(size)
    small = scaled(image, min(1.0, FLOOR_PIXELS / (image.width * image.height)))
    assert small.width * small.height >= min(FLOOR_PIXELS, image.width * image.height)


@pytest.mark.parametrize("overflow", [*GIVING_WAY, "refuse"])
def test_text_that_does_not_fit_is_never_cut(overflow: Overflow) -> None:
    room = Room(context=4_000, reserve=2_000, text=2_001, images=10)
    for images in ((), BC39):
        with pytest.raises(CallError, match=r"context 4000 - reply 2000 - text 2001.*reader_model\.context_tokens"):
            fit_images(images, room, COST, overflow)


@pytest.mark.parametrize("overflow", GIVING_WAY)
def test_bc38_a_smaller_image_limit_keeps_the_best_pages(overflow: Overflow) -> None:
    fit = fit_images(BC39, Room(context=64_000, reserve=2_000, text=4_000, images=4), COST, overflow)
    assert (fit.images, fit.dropped, fit.factor) == (BC39[:4], 6, 1.0)


@pytest.mark.parametrize("overflow", GIVING_WAY)
@pytest.mark.parametrize("room", [Room(64_000, 2_000, 4_000, 0), Room(3_000, 1_000, 1_500, 10)])
def test_a_prompt_without_any_of_its_pages_is_refused(room: Room, overflow: Overflow) -> None:
    with pytest.raises(CallError, match=r"not even the first of 10 page images"):
        fit_images(BC39, room, COST, overflow)
    assert fit_images((), room, COST, overflow) == Fit((), ())


@given(page_lists, rooms, st.sampled_from([*GIVING_WAY, "refuse"]))
def test_what_is_sent_always_fits(images: tuple[PageImage, ...], room: Room, overflow: Overflow) -> None:
    fit = try_to_fit(images, room, overflow)
    if fit is not None:
        assert room.text + room.reserve + sum(fit.tokens) + MARKS * len(fit.images) <= room.context
        assert 1 <= len(fit.images) <= room.images
        assert fit.tokens == tuple(COST(image.width, image.height) for image in fit.images)


@given(page_lists, rooms, st.sampled_from(GIVING_WAY))
def test_order_is_kept_and_only_the_lowest_ranks_go(
    images: tuple[PageImage, ...], room: Room, overflow: Overflow
) -> None:
    fit = try_to_fit(images, room, overflow)
    if fit is not None:
        kept = len(images) - fit.dropped
        assert [image.path for image in fit.images] == [image.path for image in images[:kept]]


@given(page_lists, rooms)
def test_dropping_stops_as_soon_as_it_fits(images: tuple[PageImage, ...], room: Room) -> None:
    fit = try_to_fit(images, room, "drop_pages")
    if fit is not None and fit.dropped:
        one_more = images[: len(fit.images) + 1]
        assert len(one_more) > room.images or sum(COST(i.width, i.height) + MARKS for i in one_more) > room.tokens


@given(page_lists, rooms, st.sampled_from([*GIVING_WAY, "refuse"]))
def test_nothing_gives_way_where_all_fits(images: tuple[PageImage, ...], room: Room, overflow: Overflow) -> None:
    needed = sum(COST(image.width, image.height) + MARKS for image in images)
    wide = Room(context=needed + room.reserve + room.text, reserve=room.reserve, text=room.text, images=len(images))
    fit = fit_images(images, wide, COST, overflow)
    assert (fit.images, fit.dropped, fit.factor) == (images, 0, 1.0)


@given(page_lists, rooms, st.integers(0, 20_000), st.integers(0, 5), st.sampled_from(GIVING_WAY))
def test_more_room_never_shows_less(
    images: tuple[PageImage, ...], room: Room, tokens: int, slots: int, overflow: Overflow
) -> None:
    small = try_to_fit(images, room, overflow)
    more = Room(room.context + tokens, room.reserve, room.text, room.images + slots)
    large = try_to_fit(images, more, overflow)
    if small is not None:
        assert large is not None
        assert len(large.images) >= len(small.images)
        if len(large.images) == len(small.images):
            assert large.factor >= small.factor


@given(page_lists, rooms)
def test_scaling_shows_at_least_as_many_pages_as_dropping(images: tuple[PageImage, ...], room: Room) -> None:
    dropped, smaller = (try_to_fit(images, room, overflow) for overflow in GIVING_WAY)
    if dropped is not None:
        assert smaller is not None and len(smaller.images) >= len(dropped.images)


@given(page_lists, rooms)
def test_one_factor_for_all_and_no_page_below_the_floor(images: tuple[PageImage, ...], room: Room) -> None:
    fit = try_to_fit(images, room, "scale_pages")
    if fit is None:
        return
    for before, after in zip(images, fit.images, strict=False):
        assert after == scaled(before, fit.factor)
        assert after.width * after.height >= min(before.width * before.height, FLOOR_PIXELS)
        if before.width * before.height > FLOOR_PIXELS:
            share = after.width * after.height / (before.width * before.height)
            assert fit.factor <= share <= fit.factor * (1 + 1 / 28) ** 2 + 1e-9 or fit.factor == 1.0
