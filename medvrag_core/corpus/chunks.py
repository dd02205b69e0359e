"""Text chunks for the text-only arms: runs of words across the pages of one article."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from medvrag_core.records import Page, Record

MARKERS = 2
"""Tokens that an encoder adds to a passage: [CLS] and [SEP]."""
_WORD = re.compile(r"\S+")


class TextChunk(Record):
    """A run of an article's words.

    ``page_id`` is the page that most of them stand on, ``chunk_id`` is ``<page_id>#c<n>`` with n
    counting the chunks of the article from 1. ``also_on`` are the other pages, those with more of the words first.
    ``title`` is that of the article, empty where it is not known.
    """

    chunk_id: str
    page_id: str
    text: str
    also_on: tuple[str, ...] = ()
    title: str = ""


def chunk_pages(
    pages: Iterable[Page],
    *,
    tokens: int,
    overlap: int,
    count: Callable[[Sequence[str]], Sequence[int]],
    titles: Mapping[str, str] | None = None,
    layout_of: Callable[[Page], str] | None = None,
) -> list[TextChunk]:
    """Cut each article into overlapping chunks.

    Parameters
    ----------
    pages : pages in order of article and number
    tokens : most tokens of a chunk, :data:`MARKERS` among them; a single word may have more
    overlap : most tokens of a chunk that the next one begins with
    count : tokens of each word of a list
    titles : titles by article id
    layout_of : text of a page whose white space says something and is kept; else chunks are cut from the texts of the
        pages, with single spaces
    """
    chunks: list[TextChunk] = []
    for article_id, group in groupby(pages, key=lambda page: page.article_id):
        title = (titles or {}).get(article_id, "")
        words = [(blank, word, page.page_id) for page in group for blank, word in _words(page, layout_of)]
        for number, (start, stop) in enumerate(_runs(count([word for _, word, _ in words]), tokens - MARKERS, overlap)):
            run = words[start:stop]
            page_id, *others = (page for page, _ in Counter(page for _, _, page in run).most_common())
            text = "".join(blank + word for blank, word, _ in run)[len(run[0][0]) :]
            name = f"{page_id}#c{number + 1}"
            chunks.append(TextChunk(chunk_id=name, page_id=page_id, text=text, also_on=tuple(others), title=title))
    return chunks


def _words(page: Page, layout_of: Callable[[Page], str] | None) -> Iterator[tuple[str, str]]:
    """Each word of a page, after the white space before it."""
    if layout_of is None:
        yield from ((" ", word) for word in page.text.split())
        return
    text, end = layout_of(page), 0
    for found in _WORD.finditer(text):
        blank = text[end : found.start()]
        yield blank if end else "\n" + blank, found.group()
        end = found.end()


def _runs(sizes: Sequence[int], room: int, overlap: int) -> Iterator[tuple[int, int]]:
    """Start and stop of each run of words whose sizes fit into ``room``, the last one up to the last word."""
    start = 0
    while start < len(sizes):
        stop, used = start + 1, sizes[start]
        while stop < len(sizes) and used + sizes[stop] <= room:
            used += sizes[stop]
            stop += 1
        yield start, stop
        if stop == len(sizes):
            return
        # The next run takes what fits beside the first new word, so that it always has one.
        start, again = stop, min(overlap, room - sizes[stop])
        while sizes[start - 1] <= again:
            start -= 1
            again -= sizes[start]


def chunks_digest(chunks: Sequence[TextChunk]) -> str:
    """Sixteen hex digits that change when any chunk does, or their order."""
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(chunk.to_json().encode() + b"\n")
    return digest.hexdigest()[:16]
