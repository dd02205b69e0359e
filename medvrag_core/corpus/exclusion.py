"""Articles that a benchmark was made from, by PMID, DOI or PMCID (paper section 3.1)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from medvrag_core.corpus.known_questions import KnownQuestion
from medvrag_core.corpus.pmc.ids import ArticleId, parse_id, read_ids
from medvrag_core.corpus.pmc.refusal import RefusedError
from medvrag_core.errors import InputError
from medvrag_core.records import Article


def listed_ids(files: Sequence[Path]) -> dict[ArticleId, str]:
    """Ids of some files, one a line, with the name of the file that lists each.

    Raises
    ------
    InputError : a file is unusable, or one of its lines is no id; an exclusion that silently did nothing would be worse
        than none
    """
    listed: dict[ArticleId, str] = {}
    for file in files:
        ids, refused = read_ids(file)
        wrong = [entry for entry in refused if entry.reason != "duplicate_id"]
        if wrong:
            raise InputError(f"{file}: {wrong[0].detail}", way_out="write PMID:123, PMC123 or a DOI on each line")
        for article_id in ids:
            listed.setdefault(_any_version(article_id), f"listed in {file.name}")
    return listed


def source_ids(questions: Iterable[KnownQuestion]) -> dict[ArticleId, str]:
    """Ids of the articles that questions were made from, with the question; raises InputError for one that is no id."""
    found: dict[ArticleId, str] = {}
    for question in questions:
        for source in question.sources:
            try:
                article_id = _any_version(parse_id(source))
            except RefusedError as refused:
                raise InputError(
                    f"question '{question.name}': field 'sources': {refused.detail}", way_out="write PMID:123"
                ) from None
            found.setdefault(article_id, f"source of question {question.name}")
    return found


def excluded_articles(articles: Iterable[Article], ids: dict[ArticleId, str]) -> dict[str, str]:
    """Article id to why it is excluded, for every article that has one of the ``ids``, however it is written."""
    excluded = {}
    for article in articles:
        pmid = re.search(r"\d+", article.pmid)
        for text in (pmid and f"PMID:{pmid.group()}", article.doi, article.article_id):
            own = _id_of(text)
            if own is not None and own in ids:
                excluded[article.article_id] = f"{own}, {ids[own]}"
                break
    return excluded


def _id_of(text: str | None) -> ArticleId | None:
    """What an article says of itself; a DOI read off a page may end in the punctuation of its sentence."""
    try:
        return _any_version(parse_id((text or "").rstrip(" .,;)")))
    except RefusedError:
        return None


def _any_version(article_id: ArticleId) -> ArticleId:
    return ArticleId(article_id.kind, article_id.value)
