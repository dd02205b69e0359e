"""Keeps the source articles of a benchmark, and pages that quote its questions, out of an index (paper section 3.1)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

from medvrag_core.records import Article, Page, Question

_DOI = re.compile(r"10\.\d{4,9}/\S+")
_SHORTEST_QUESTION = 40


def normalized_doi(text: str) -> str:
    """The bare DOI in lower case, empty if there is none.

    >>> normalized_doi("https://doi.org/10.1000/ABC."), normalized_doi("none")
    ('10.1000/abc', '')
    """
    found = _DOI.search(text)
    return found.group().rstrip(".,;)").lower() if found else ""


def normalized_pmid(text: str) -> str:
    """The digits of a PubMed id, empty if there are none.

    >>> normalized_pmid("PMID: 0012345")
    '12345'
    """
    found = re.search(r"\d+", text)
    return found.group().lstrip("0") if found else ""


def listed_articles(articles: Iterable[Article], *, dois: Iterable[str] = (), pmids: Iterable[str] = ()) -> set[str]:
    """Ids of the articles whose DOI or PMID is on a list, in whatever way either is written."""
    known_dois = {normalized_doi(doi) for doi in dois} - {""}
    known_pmids = {normalized_pmid(pmid) for pmid in pmids} - {""}
    return {
        article.article_id
        for article in articles
        if normalized_doi(article.doi) in known_dois or (article.pmid and normalized_pmid(article.pmid) in known_pmids)
    }


def pages_with_question_text(pages: Iterable[Page], questions: Sequence[Question]) -> dict[str, str]:
    """Pages that hold the text of a question word for word: question id by page id.

    Case, spacing and punctuation do not count. Questions of under 40 characters are too common to
    be evidence of a leak and are skipped.
    """
    folded = [(q.id, _folded(q.question)) for q in questions]
    wanted = [(identifier, text) for identifier, text in folded if len(text) >= _SHORTEST_QUESTION]
    found: dict[str, str] = {}
    for page in pages:
        text = _folded(page.text)
        for identifier, question in wanted:
            if question in text:
                found[page.page_id] = identifier
                break
    return found


def _folded(text: str) -> str:
    return " ".join(re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold()))
