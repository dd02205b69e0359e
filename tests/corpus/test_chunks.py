from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from medvrag_core.corpus.chunks import MARKERS, chunk_pages
from medvrag_core.records import Page


def page(article: str, number: int, text: str) -> Page:
    return Page(
        page_id=f"{article}#p{number}", article_id=article, number=number, width_pt=1, height_pt=1, image="x",
        image_width=1, image_height=1, dpi=72, text_source="pdf", text=text,
    )  # fmt: skip


def one_each(words: Sequence[str]) -> list[int]:
    return [1] * len(words)


def letters(words: Sequence[str]) -> list[int]:
    return [len(word) for word in words]


@given(st.lists(st.integers(0, 60), min_size=1, max_size=5), st.integers(2, 60), st.integers(0, 70), st.booleans())
@settings(max_examples=100, deadline=None)
def test_every_word_is_in_a_chunk_and_none_crosses_articles(
    words: list[int], tokens: int, overlap: int, every_word_alike: bool
) -> None:
    count = one_each if every_word_alike else letters
    pages = [page("a", n, " ".join(f"w{n}x{i}" for i in range(number))) for n, number in enumerate(words, start=1)]
    pages.append(page("b", 1, "other"))
    chunks = chunk_pages(pages, tokens=tokens, overlap=overlap, count=count)
    every = [word for p in pages for word in p.text.split()]
    assert {word for chunk in chunks for word in chunk.text.split()} == set(every)
    assert all(("other" in c.text.split()) == c.page_id.startswith("b#") for c in chunks)
    assert len({c.chunk_id for c in chunks}) == len(chunks)
    for chunk in chunks:
        run = chunk.text.split()
        assert sum(count(run)) + MARKERS <= tokens or len(run) == 1
        assert run == every[every.index(run[0]) :][: len(run)], "one unbroken run"
        stands_on = {p.page_id for p in pages if set(p.text.split()) & set(run)}
        assert {chunk.page_id, *chunk.also_on} == stands_on, "every page that it has words of"
        assert len(chunk.also_on) == len(stands_on) - 1
    for one, other in pairwise(chunks):
        before, after = one.text.split(), other.text.split()
        shared = [word for word in after if word in before]
        assert sum(count(shared)) <= overlap
        assert after[len(shared) :], "each has a word that the one before had not"
        if after[0] != "other":
            fits = count(after)[len(shared)] + MARKERS
            earlier = before[len(before) - len(shared) - 1 :]
            assert sum(count(earlier)) > min(overlap, tokens - fits), "no more of it would have fitted"
            assert sum(count([*before, after[len(shared)]])) + MARKERS > tokens, "nor would the chunk have held more"


def test_white_space_of_a_layout_is_kept_and_other_white_space_is_not() -> None:
    pages = [page("a", 1, "Dose  5 mg\n\nNote"), page("a", 2, "more")]
    (plain,) = chunk_pages(pages, tokens=99, overlap=0, count=one_each)
    assert plain.text == "Dose 5 mg Note more"
    kept = chunk_pages(pages, tokens=5, overlap=1, count=one_each, layout_of=lambda page: f"  {page.text}\n")
    assert [chunk.text for chunk in kept] == ["Dose  5 mg", "mg\n\nNote\n  more"]


def test_a_page_whose_layout_begins_at_once_begins_a_line() -> None:
    pages = [page("a", 1, "one"), page("a", 2, "two")]
    (chunk,) = chunk_pages(pages, tokens=9, overlap=0, count=one_each, layout_of=lambda page: page.text)
    assert chunk.text == "one\ntwo"


def test_a_chunk_belongs_to_the_page_that_most_of_its_words_stand_on() -> None:
    pages = [page("a", 1, "one two"), page("a", 2, "three four five six seven")]
    (chunk,) = chunk_pages(pages, tokens=100, overlap=0, count=one_each)
    assert chunk.page_id == "a#p2"
    assert chunk.chunk_id == "a#p2#c1"
    assert chunk.also_on == ("a#p1",)


def test_a_chunk_carries_the_title_of_its_article_where_there_is_one() -> None:
    pages = [page("a", 1, "one"), page("b", 1, "two")]
    assert [c.title for c in chunk_pages(pages, tokens=9, overlap=0, count=one_each, titles={"b": "On two"})] == [
        "",
        "On two",
    ]


def test_an_article_without_words_has_no_chunk() -> None:
    assert chunk_pages([page("a", 1, "")], tokens=10, overlap=2, count=one_each) == []
