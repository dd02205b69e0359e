"""The refined query of an undecided round: what the question is about, what is missing, what tells options apart."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from medvrag_core.models.reply_text import neutral
from medvrag_core.reasoning.judge import Judgement, content_words
from medvrag_core.reasoning.prompts import QUERY_LINE
from medvrag_core.reasoning.replies import MAX_QUERY
from medvrag_core.reasoning.sameness import folded
from medvrag_core.records import ReaderInput

ASKS_FOR = "asks for: "


def refined_query(given: ReaderInput, judgement: Judgement) -> str | None:
    """A query that no earlier round has asked, or None when there is nothing new to ask.

    It keeps the question's own words, so the search stays on the subject. The variants, in order: with the
    words of the options still in question; with those of the leader alone; with the missing words first.
    """
    asked = {folded(query) for query in issued_queries(given)}
    words, options = content_words(given.question.question), given.question.options
    open_labels = _undecided(judgement)
    variants = (
        (words, *(content_words(options[label]) for label in open_labels)),
        (words, content_words(options[judgement.ranking[0]])),
        (judgement.missing, words, content_words(options[judgement.ranking[0]])),
    )
    for parts in variants:
        query = neutral(" ".join(_once(chain.from_iterable(parts))), MAX_QUERY)
        if query and folded(query) not in asked:
            return query
    return None


def blind_query(given: ReaderInput, missing: tuple[str, ...]) -> str:
    """A query out of the question's own words, for a round that must not know the options.

    The variants, in order: with the missing words first; the missing words alone; all words as they stand. When
    every one was asked already the last is asked again, which the loop flags.
    """
    asked = {folded(query) for query in issued_queries(given)}
    words = content_words(given.question.question)
    query = neutral(given.question.question, MAX_QUERY)
    for parts in ((missing, words), (missing,), (words,)):
        query = neutral(" ".join(_once(chain.from_iterable(parts))), MAX_QUERY) or query
        if folded(query) not in asked:
            break
    return query


def issued_queries(given: ReaderInput) -> list[str]:
    """Queries of this and earlier rounds, as far as the bank or the history remembers them."""
    remembered = [note.partition(ASKS_FOR)[2] for note in given.bank.reasoning_history if ASKS_FOR in note]
    return [given.question.question, given.query, *remembered, *queries_in(given.history)]


def queries_in(history: str) -> list[str]:
    """The queries of earlier rounds that a plain history tells."""
    return [line.partition(": ")[2] for line in history.splitlines() if line.startswith(QUERY_LINE)]


def _undecided(judgement: Judgement) -> list[str]:
    """Leader and whatever is not clearly behind it; three at most, so that options do not drown the question."""
    top = judgement.probability[judgement.ranking[0]]
    return [label for label in judgement.ranking if judgement.probability[label] >= 0.5 * top][:3]


def _once(words: Iterable[str]) -> list[str]:
    """Words in the order and spelling of their first occurrence."""
    first: dict[str, str] = {}
    for word in words:
        first.setdefault(word.casefold(), word)
    return list(first.values())
