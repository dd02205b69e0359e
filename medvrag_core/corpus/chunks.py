"""Text chunks for the text-only arms: runs of words across the pages of one article."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from medvrag_core.records import Page, Record

WORDS_PER_TOKEN = 1 / 1.3


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
    pages: Iterable[Page], *, tokens: int, overlap: int, titles: Mapping[str, str] | None = None
) -> list[TextChunk]:
    """Cut each article into overlapping chunks.

    Parameters
    ----------
    pages : pages in order of article and number
    tokens, overlap : lengths in tokens of the usual English word-piece vocabularies, taken as
        1.3 tokens a word so that chunking needs no tokenizer
    titles : titles by article id
    """
    size = max(1, int(tokens * WORDS_PER_TOKEN))
    step = max(1, size - int(overlap * WORDS_PER_TOKEN))
    chunks: list[TextChunk] = []
    for article_id, group in groupby(pages, key=lambda page: page.article_id):
        title = (titles or {}).get(article_id, "")
        words = [(word, page.page_id) for page in group for word in page.text.split()]
        starts = range(0, max(1, len(words) - (size - step)), step) if words else ()
        for number, start in enumerate(starts):
            run = words[start : start + size]
            page_id, *others = (page for page, _ in Counter(page for _, page in run).most_common())
            text = " ".join(word for word, _ in run)
            name = f"{page_id}#c{number + 1}"
            chunks.append(TextChunk(chunk_id=name, page_id=page_id, text=text, also_on=tuple(others), title=title))
    return chunks


def chunks_digest(chunks: Sequence[TextChunk]) -> str:
    """Sixteen hex digits that change when any chunk does, or their order."""
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(chunk.to_json().encode() + b"\n")
    return digest.hexdigest()[:16]
