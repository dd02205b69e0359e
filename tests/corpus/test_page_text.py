"""The text policies: no word lost, order and blanks as described, VisRAG's published spacing, real pages."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pymupdf
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medvrag_core.corpus.lines import PageLines, reading_order, words_of
from medvrag_core.corpus.ocr import line_of
from medvrag_core.corpus.page_text import TextBox, adjacent_merging, layout_preserving, text_boxes, text_of_page
from medvrag_core.corpus.text import normalize
from medvrag_core.corpus.textlayer import fraction_box, read_text_layer
from medvrag_core.records import Page, PageLayout, Word
from medvrag_core.settings import LayoutPolicy

POLICIES: tuple[LayoutPolicy, ...] = ("reading_order", "adjacent_merging", "layout_preserving")
WIDTH, HEIGHT = 612.0, 792.0  # a letter page: 1700 x 2200 pixels of 1/200 inch


def page_of(lines: Sequence[tuple[float, float, str]], *, text: str = "") -> tuple[Page, PageLayout]:
    """A page whose words stand at (left, top) in points, 5 points a character, 10 points high."""
    words = []
    for left, top, line in lines:
        for word in line.split():
            right = left + 5 * len(word)
            words.append(Word(text=word, box=(left / WIDTH, top / HEIGHT, right / WIDTH, (top + 10) / HEIGHT)))
            left = right + 5
    page = Page(
        page_id="a#p1", article_id="a", number=1, width_pt=WIDTH, height_pt=HEIGHT, image="x", image_width=1,
        image_height=1, dpi=72, text_source="pdf", text=text or " ".join(line for _, _, line in lines),
    )  # fmt: skip
    return page, PageLayout(page_id="a#p1", words=tuple(words), regions=())


def text(policy: LayoutPolicy, lines: Sequence[tuple[float, float, str]]) -> str:
    return text_of_page(*page_of(lines), policy)


class TestAdjacentMerging:
    def test_lines_become_paragraphs_and_columns_stay_apart(self) -> None:
        left = [(50, 100, "Patients were random-"), (50, 112, "ized to two arms."), (50, 140, "A new paragraph.")]
        right = [(320, 100, "The other column"), (320, 112, "goes on.")]
        assert text("adjacent_merging", left + right) == (
            "Patients were randomized to two arms.\nA new paragraph.\nThe other column goes on."
        )

    def test_a_table_is_read_column_by_column(self) -> None:
        rows = [(left, top, word) for top in (100, 112) for left, word in ((50, f"a{top}"), (200, f"b{top}"))]
        assert text("adjacent_merging", rows) == "a100 a112\nb100 b112"

    @pytest.mark.parametrize(("down", "right", "merges"), [(15, 100, 1), (16, 0, 2), (0, 101, 2), (-30, 90, 1)])
    def test_the_limits_are_those_of_the_paper(self, down: float, right: float, merges: int) -> None:
        one, other = (10.0, 10.0, 400.0, 40.0), (10.0 + right, 40.0 + down, 500.0, 70.0 + down)
        assert len(adjacent_merging([TextBox(("a",), one), TextBox(("b",), other)])) == merges

    def test_merging_goes_on_until_nothing_merges(self) -> None:
        """The first and the last meet only in the box of the one that comes between."""
        tops = (0.0, 80.0, 40.0)
        boxes = [TextBox((name,), (0.0, top, 100.0, top + 30.0)) for name, top in zip("acb", tops, strict=True)]
        (merged,) = adjacent_merging(boxes)
        assert merged.lines == ("a", "c", "b"), "in the order given, which is the order of reading"
        assert merged.box == (0.0, 0.0, 100.0, 110.0)


def spaced_as_published(boxes: Sequence[TextBox]) -> str:
    """The rule of VisRAG's ``tostr_layout_preserving``: by exact height, blanks by the way from center to center."""
    placed = sorted(((*box.center, box.lines[0]) for box in boxes), key=lambda item: (item[1], item[0]))
    out = placed[0][2] if placed else ""
    for (x0, y0, _), (x1, y1, words) in pairwise(placed):
        same = abs(y1 - y0) < 15
        out += " " * max(1, int(abs(x1 - x0) / 45)) if same else "\n" * max(1, int(abs(y1 - y0) / 15))
        out += words
    return out


GRID = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), unique=True, max_size=20)


class TestLayoutPreserving:
    @given(GRID, st.integers(16, 90), st.integers(40, 300))
    def test_blanks_are_those_of_the_published_code_where_rows_are_straight(
        self, cells: list[tuple[int, int]], down: int, across: int
    ) -> None:
        boxes = [
            TextBox((f"w{x}.{y}",), (x * across + 0.0, y * down + 0.0, x * across + 30.0, y * down + 14.0))
            for x, y in cells
        ]
        assert layout_preserving(boxes) == spaced_as_published(boxes)

    def test_a_box_that_stands_a_little_higher_keeps_its_place_in_the_row(self) -> None:
        row = [(50, 100.0, "Dose"), (200, 99.5, "5"), (300, 100.2, "mg")]
        assert text("layout_preserving", row).split() == ["Dose", "5", "mg"]

    def test_gaps_are_mirrored(self) -> None:
        lines = [(50, 100, "Drug"), (300, 100, "Dose"), (50, 112, "Aspirin"), (300, 112, "75 mg"), (50, 160, "Note")]
        first, blank, second, *gap, note = text("layout_preserving", lines).split("\n")
        assert (first, second) == ("Drug" + 15 * " " + "Dose", "Aspirin" + 15 * " " + "75 mg")
        assert (blank, gap, note) == ("", 7 * [""], "Note")


WORDS = st.lists(
    st.tuples(st.integers(0, 110), st.integers(0, 70), st.sampled_from(["dose", "IL-6", "2.5", "mg", "of", "10⁹/L"])),
    max_size=25,
)


@given(WORDS)
@settings(max_examples=80, deadline=None)
def test_no_policy_loses_or_repeats_a_word(placed: list[tuple[int, int, str]]) -> None:
    lines = [(5.0 * x, 10.0 * y, word) for x, y, word in placed]
    for policy in POLICIES:
        made = text(policy, lines)
        assert Counter(made.split()) == Counter(word for _, _, word in lines)
        assert made == text(policy, lines)


def test_plain_text_has_the_same_words_in_the_same_order_under_every_policy() -> None:
    lines = [(50.0, 100.0 + 12 * n, f"line {n} of a plain single column") for n in range(30)]
    assert len({tuple(text(policy, lines).split()) for policy in POLICIES}) == 1


def test_words_on_a_line_are_one_box_and_cells_are_not() -> None:
    boxes = text_boxes(*page_of([(50, 100, "two words"), (130, 100, "a cell"), (50, 112, "next line")]))
    assert [box.lines for box in boxes] == [("two words",), ("a cell",), ("next line",)]
    assert boxes[0].box == pytest.approx((138.89, 277.78, 263.89, 305.56), abs=0.01)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_page_without_words_has_no_text(policy: LayoutPolicy) -> None:
    assert text(policy, []) == ""


def test_words_of_ocr_which_share_the_box_of_their_line_are_one_box_again() -> None:
    frame = (0.0, 0.0, WIDTH, HEIGHT)
    lines = (line_of("Dose of 2.5 mg", (50, 100, 180, 112), 0), line_of("another cell", (300, 101, 400, 112), 1))
    read = PageLines(lines, frame, lambda box: fraction_box(box, WIDTH, HEIGHT))
    page, layout = page_of([])
    boxes = text_boxes(page, layout.model_copy(update={"words": words_of(read)}))
    assert [box.lines for box in boxes] == [("Dose of 2.5 mg",), ("another cell",)]


def real_pages(file: Path, numbers: Sequence[int]) -> list[tuple[Page, PageLayout]]:
    """Pages of a PDF as the corpus reads them, without their images."""
    pages = []
    with pymupdf.open(file) as document:
        for number in numbers:
            layer = read_text_layer(document[number - 1])
            layer = replace(layer, lines=tuple(reading_order(layer.lines, layer.width)))
            page, layout = page_of([])
            size = {"width_pt": layer.width, "height_pt": layer.height}
            pages.append((page.model_copy(update=size), layout.model_copy(update={"words": words_of(layer)})))
    return pages


def characters(text: str) -> Counter[str]:
    """Without blanks, and without the hyphens that close at the end of a line."""
    return Counter("".join(text.split()).replace("-", "").replace("\u2010", ""))


def test_a_real_page_with_a_table_over_two_columns(shared_data: Path) -> None:
    ((page, layout),) = real_pages(shared_data / "articles" / "pdf" / "PMC5502154.pdf", [6])
    preserved = text_of_page(page, layout, "layout_preserving")
    assert re.search(r"^Total reoperations n \(%\) {4,}32 \(3\.30%\) {4,}48 \(7\.24%\) {2,}<\.001$", preserved, re.M)
    assert re.search(r"^rates in this study were 1\.97% in PS group and 3\.95% in HI {8,}his study", preserved, re.M)
    merged = text_of_page(page, layout, "adjacent_merging")
    assert "The total perioperative complication rates in this study were 1.97% in PS group" in merged
    assert "incidence of pseudarthrosis and instrumentation dislodgement" in merged, "closed at the end of the line"
    assert "32 (3.30%) 0 (0.00%) 12 (1.24%)" in merged, "the column of a table"


@pytest.mark.parametrize("article", ["PMC5502154", "rsp-56-9-pt"])
def test_no_word_of_a_real_article_is_lost_or_repeated(shared_data: Path, article: str) -> None:
    for page, layout in real_pages(shared_data / "articles" / "pdf" / f"{article}.pdf", range(1, 8)):
        words = [word for item in layout.words for word in normalize(item.text).split()]
        assert len(words) > 100
        assert Counter(text_of_page(page, layout, "layout_preserving").split()) == Counter(words)
        assert characters(text_of_page(page, layout, "adjacent_merging")) == characters(" ".join(words))
