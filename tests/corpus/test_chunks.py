from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from medvrag_core.corpus.chunks import chunk_pages
from medvrag_core.records import Page


def page(article: str, number: int, text: str) -> Page:
    return Page(
        page_id=f"{article}#p{number}", article_id=article, number=number, width_pt=1, height_pt=1, image="x",
        image_width=1, image_height=1, dpi=72, text_source="pdf", text=text,
    )  # fmt: skip


@given(st.lists(st.integers(0, 60), min_size=1, max_size=5), st.integers(5, 60), st.integers(0, 40))
@settings(max_examples=60, deadline=None)
def test_every_word_is_in_a_chunk_and_none_crosses_articles(words: list[int], tokens: int, overlap: int) -> None:
    pages = [page("a", n, " ".join(f"w{n}x{i}" for i in range(count))) for n, count in enumerate(words, start=1)]
    pages.append(page("b", 1, "other"))
    chunks = chunk_pages(pages, tokens=tokens, overlap=min(overlap, tokens - 1))
    seen = {word for chunk in chunks for word in chunk.text.split()}
    assert seen == {word for p in pages for word in p.text.split()}
    assert all(("other" in c.text.split()) == c.page_id.startswith("b#") for c in chunks)
    assert len({c.chunk_id for c in chunks}) == len(chunks)
    assert all(len(c.text.split()) <= max(1, int(tokens / 1.3)) for c in chunks)
    for chunk in chunks:
        stands_on = {p.page_id for p in pages if set(p.text.split()) & set(chunk.text.split())}
        assert {chunk.page_id, *chunk.also_on} == stands_on, "every page that it has words of"
        assert len(chunk.also_on) == len(stands_on) - 1


def test_a_chunk_belongs_to_the_page_that_most_of_its_words_stand_on() -> None:
    pages = [page("a", 1, "one two"), page("a", 2, "three four five six seven")]
    (chunk,) = chunk_pages(pages, tokens=100, overlap=0)
    assert chunk.page_id == "a#p2"
    assert chunk.chunk_id == "a#p2#c1"
    assert chunk.also_on == ("a#p1",)


def test_a_chunk_carries_the_title_of_its_article_where_there_is_one() -> None:
    pages = [page("a", 1, "one"), page("b", 1, "two")]
    assert [c.title for c in chunk_pages(pages, tokens=9, overlap=0, titles={"b": "On two"})] == ["", "On two"]


def test_an_article_without_words_has_no_chunk() -> None:
    assert chunk_pages([page("a", 1, "")], tokens=10, overlap=2) == []
