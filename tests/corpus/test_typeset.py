from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medvrag_core.corpus.text_pages import TextPageSettings
from medvrag_core.corpus.typeset import TypesetPage, TypesetSettings, typeset
from medvrag_core.errors import InputError

PROSE = "Allopurinol is started at 100 mg daily and raised every four weeks until urate is below 6 mg/dl."


@pytest.fixture(scope="session")
def narrow(as_printed: TextPageSettings) -> TypesetSettings:
    """Lines of a few words."""
    return as_printed.model_copy(update={"width": 220})


def ink(page: TypesetPage) -> np.ndarray:
    return np.asarray(page.image) < 128


@given(st.lists(st.text(st.characters(codec="latin-1"), max_size=120), max_size=4))
@settings(deadline=None, max_examples=60)
def test_every_character_is_printed_once_and_in_order(narrow: TypesetSettings, paragraphs: list[str]) -> None:
    page = typeset(paragraphs, narrow)
    printed = [text for line in page.lines for text, _ in line.words]
    assert "".join(printed) == "".join("".join(paragraphs).split())
    assert all(line.text == " ".join(text for text, _ in line.words) for line in page.lines)


@given(st.lists(st.text("abc iW.,5%", max_size=200), max_size=3), st.integers(0, 40), st.integers(0, 12))
@settings(deadline=None, max_examples=40)
def test_words_stand_inside_the_margins_and_never_on_each_other(
    narrow: TypesetSettings, paragraphs: list[str], margin: int, spacing: int
) -> None:
    chosen = narrow.model_copy(update={"margin": margin, "spacing": spacing})
    page = typeset(paragraphs, chosen)
    width, height = page.image.size
    for line in page.lines:
        assert margin <= line.box[0] and line.box[2] <= width - margin + 1
        assert margin <= line.box[1] and line.box[3] <= height - margin
        assert all(left[1][2] < right[1][0] for left, right in pairwise(line.words))
    assert all(upper.box[3] + spacing <= lower.box[1] for upper, lower in pairwise(page.lines))
    assert not page.lines or page.lines[-1].box[3] == height - margin, "as high as the text needs"


def test_boxes_are_where_the_ink_is(narrow: TypesetSettings) -> None:
    page = typeset([PROSE], narrow)
    black = ink(page)
    for line in page.lines:
        for text, (x0, y0, x1, y1) in line.words:
            assert black[int(y0) : int(y1), int(x0) : int(x1) + 1].any(), text
            black[int(y0) : int(y1), max(0, int(x0) - 1) : int(x1) + 2] = False
    assert not black.any(), "ink outside of all boxes"


def test_words_stay_whole_and_a_line_is_as_full_as_it_can_be(narrow: TypesetSettings) -> None:
    page = typeset([PROSE], narrow)
    assert [text for line in page.lines for text, _ in line.words] == PROSE.split()
    for upper, lower in pairwise(page.lines):
        first_below = lower.words[0][1]
        assert upper.box[2] + first_below[2] - first_below[0] > 220 - 2 * 20 - 1


def test_a_word_wider_than_the_page_is_broken(narrow: TypesetSettings) -> None:
    page = typeset(["see https://doi.org/" + "10.1000" * 12 + " there"], narrow)
    assert len(page.lines) > 2
    assert "".join(line.text for line in page.lines[:-1]).startswith("seehttps://doi.org/10.1000")
    assert all(line.box[2] <= 200 for line in page.lines)


def test_paragraphs_have_numbers_and_an_empty_line_between(narrow: TypesetSettings) -> None:
    page = typeset(["Gout", "", "One\nTwo"], narrow)
    assert [(line.text, line.block) for line in page.lines] == [("Gout", 0), ("One", 1), ("Two", 2)]
    steps = [lower.box[1] - upper.box[1] for upper, lower in pairwise(page.lines)]
    one = typeset(["Gout one two three four five six"], narrow).lines
    assert steps == [2 * (one[1].box[1] - one[0].box[1])] * 2


@pytest.mark.parametrize("nothing", [[], [""], [" \n\t "]])
def test_nothing_to_print_gives_an_empty_page(narrow: TypesetSettings, nothing: list[str]) -> None:
    page = typeset(nothing, narrow)
    assert page.lines == () and not ink(page).any() and page.image.size[0] == 220


def test_defaults_are_those_of_the_paper() -> None:
    chosen = TypesetSettings()
    assert (chosen.width, chosen.font, chosen.font_size, chosen.margin, chosen.spacing) == (
        800,
        "DejaVuSans.ttf",
        24,
        20,
        4,
    )


def test_what_cannot_be_set_is_refused(narrow: TypesetSettings) -> None:
    with pytest.raises(InputError, match=r"font Nothing\.ttf is not in .*fonts-dejavu-core"):
        typeset(["x"], TypesetSettings(font="Nothing.ttf", font_folder=narrow.font_folder))
    with pytest.raises(InputError, match="among the fonts of this system"):
        typeset(["x"], TypesetSettings(font="Nothing-at-all.ttf"))
    with pytest.raises(InputError, match="above the cap of 5000"):
        typeset(["x " * 500], narrow.model_copy(update={"max_pixels": 5_000}))
