"""Which pages a reply names, and which of them it was really shown: the citations of a stored round."""

from __future__ import annotations

import re
from dataclasses import dataclass

from medvrag_core.models.reply_text import without_reasoning
from medvrag_core.reasoning.sameness import page_of, split_names
from medvrag_core.records import Round

_PAGE_ID = re.compile(r"[^\s()\[\]{}<>‹›\"',;]*#p\d+", re.IGNORECASE)


@dataclass(frozen=True)
class Citations:
    """Pages that the reply of one round names in its answer and findings, outside of its reasoning.

    Attributes
    ----------
    shown : sent in this round, as an image, as text or as a summary; in the order they were sent
    remembered : not sent in this round, but named in what the round was told of earlier ones
    foreign : neither, so that the reader cannot have it from the run; in lower case, in the order they are named
    """

    shown: tuple[str, ...]
    remembered: tuple[str, ...]
    foreign: tuple[str, ...]


def citations(done: Round) -> Citations:
    """The pages that a round names, by where it has them from."""
    said = [reply.text for reply in (done.reply, done.refinement) if reply is not None]
    # Findings once more as they were read: JSON may hide the signs of an id behind escapes.
    text = "\n".join([*map(without_reasoning, said), *done.parsed.findings])
    sent = dict.fromkeys(page_of(i) for i in (*done.shown, *done.summaries_shown))
    # Of a chunk, its own id and its page's are the same citation.
    named, rest = split_names(text, [*sent, *done.shown])
    cited = {page_of(name) for name in named}
    told = set(_PAGE_ID.findall("\n".join([*done.bank_before.key_findings, done.history]).casefold()))
    others = dict.fromkeys(_PAGE_ID.findall(rest))
    return Citations(
        shown=tuple(page for page in sent if page in cited),
        remembered=tuple(page for page in others if page in told),
        foreign=tuple(page for page in others if page not in told),
    )


def cited_pages(done: Round) -> tuple[str, ...]:
    """The pages that a round names and was really sent, in the order they were sent."""
    return citations(done).shown
