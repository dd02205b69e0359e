from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from medvrag_core.encoders.patches import layout_patches
from medvrag_core.records import PageLayout, Region, RegionKind, Word


def layout(*blocks: tuple[RegionKind | None, int]) -> PageLayout:
    """Blocks under each other with so many words each; words of kind None stand in no region."""
    words, regions, height = [], [], 1 / max(len(blocks), 1)
    for number, (kind, count) in enumerate(blocks):
        top = number * height
        words += [Word(text="w", box=(0.1, top + 0.2 * height, 0.2, top + 0.4 * height))] * count
        if kind:
            regions.append(Region(kind=kind, box=(0.0, top, 1.0, top + 0.9 * height), text=""))
    return PageLayout(page_id="a#p1", words=tuple(words), regions=tuple(regions))


BLOCKS = st.lists(st.tuples(st.sampled_from(["text", "caption", "figure", None]), st.integers(1, 90)), max_size=8)


@settings(deadline=None)
@given(blocks=BLOCKS, words=st.integers(1, 50), at_most=st.integers(1, 20))
def test_each_word_lies_in_one_patch_and_patches_keep_their_bounds(
    blocks: list[tuple[RegionKind | None, int]], words: int, at_most: int
) -> None:
    page = layout(*blocks)
    runs = layout_patches(page, words=words, at_most=at_most)
    assert [place for a, b in runs for place in range(a, b)] == list(range(len(page.words)))
    assert all(a < b for a, b in runs)
    assert len(runs) <= at_most
    unbounded = layout_patches(page, words=words, at_most=10_000)
    assert all(b - a <= words for a, b in unbounded)
    if len(unbounded) <= at_most:
        assert runs == unbounded


def test_blocks_stay_apart_and_long_ones_fall_into_equal_parts() -> None:
    runs = layout_patches(layout(("text", 30), ("caption", 20), ("text", 90)), words=40, at_most=24)
    assert runs == [(0, 30), (30, 50), (50, 80), (80, 110), (110, 140)]


def test_a_short_block_joins_its_neighbor_where_there_is_room() -> None:
    assert layout_patches(layout(("heading", 3), ("text", 30)), words=40, at_most=24) == [(0, 33)]
    assert layout_patches(layout(("heading", 3), ("text", 39)), words=40, at_most=24) == [(0, 3), (3, 42)]


def test_a_table_is_one_block_whatever_its_rows() -> None:
    page = layout(("text", 20), ("table", 30))
    rows = tuple(Region(kind="table_row", box=(0.0, 0.5 + 0.1 * k, 1.0, 0.6 + 0.1 * k), text="") for k in range(5))
    with_rows = page.model_copy(update={"regions": (*page.regions, *rows)})
    assert layout_patches(with_rows, words=40, at_most=24) == [(0, 20), (20, 50)]


def test_the_smallest_region_around_a_word_counts() -> None:
    page = layout(("text", 20), ("caption", 20))
    around = Region(kind="figure", box=(0.0, 0.0, 1.0, 1.0), text="")
    assert layout_patches(page.model_copy(update={"regions": (around, *page.regions)}), words=40, at_most=24) == [
        (0, 20),
        (20, 40),
    ]


def test_too_many_patches_become_fewer_from_the_shortest() -> None:
    runs = layout_patches(layout(("text", 40), ("caption", 10), ("text", 12), ("text", 40)), words=40, at_most=3)
    assert runs == [(0, 40), (40, 62), (62, 102)]
    assert layout_patches(layout(("text", 400)), words=40, at_most=1) == [(0, 400)]


def test_no_words_no_patches() -> None:
    assert layout_patches(layout(), words=40, at_most=24) == []
