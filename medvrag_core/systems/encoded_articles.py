"""Of which files page vectors are, kept beside them."""

from __future__ import annotations

from pathlib import Path

from medvrag_core.corpus.store import CorpusStore
from medvrag_core.errors import MismatchError
from medvrag_core.records import Record
from medvrag_core.runs.publish import write_text

_NAME = "articles.json"


class EncodedArticles(Record):
    """SHA-256 of the files by article id."""

    articles: dict[str, str]


def remember_articles(folder: Path, store: CorpusStore) -> None:
    """Write beside the vectors in ``folder`` of which files they are; a later corpus is held against it."""
    told = EncodedArticles(articles={article.article_id: article.sha256 for article in store.articles}).to_json()
    path = folder / _NAME
    if not (path.is_file() and path.read_text(encoding="utf-8") == told):
        write_text(path, told)


def remembered_articles(folder: Path) -> dict[str, str]:
    """SHA-256 by article id; raises MismatchError where nobody wrote it down."""
    path = folder / _NAME
    if not path.is_file():
        raise MismatchError(
            f"{folder}: their corpus has changed since, and nobody wrote down of which files these vectors are",
            way_out="make vectors anew with `medvrag embed`",
        )
    return EncodedArticles.from_json(path.read_bytes(), source=str(path)).articles
