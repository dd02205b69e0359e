"""Of which files page vectors are, kept beside them."""

from __future__ import annotations

from pathlib import Path

from medvrag_core.corpus.store import CorpusStore
from medvrag_core.encoders.vectors import VectorStore
from medvrag_core.errors import MismatchError
from medvrag_core.records import Record
from medvrag_core.runs.publish import write_text

_NAME = "articles.json"


class EncodedArticles(Record):
    """Articles whose pages have vectors.

    Attributes
    ----------
    articles : SHA-256 of the files by article id
    left : ids of those that are in the corpus no more
    """

    articles: dict[str, str]
    left: tuple[str, ...] = ()


def remember_articles(vectors: VectorStore, store: CorpusStore) -> None:
    """Write beside the vectors of a corpus of which files they are, so that a later corpus can be held against it."""
    path = vectors.folder / _NAME
    now = {article.article_id: article.sha256 for article in store.articles}
    before = remembered_articles(vectors.folder).articles if vectors.manifest.first_corpus and path.is_file() else {}
    told = EncodedArticles(articles=before | now, left=tuple(sorted(before.keys() - now.keys()))).to_json()
    if not (path.is_file() and path.read_text(encoding="utf-8") == told):
        write_text(path, told)


def remembered_articles(folder: Path) -> EncodedArticles:
    """What was written beside the vectors in a folder; raises MismatchError where that is nothing."""
    path = folder / _NAME
    if not path.is_file():
        raise MismatchError(
            f"{folder}: their corpus has changed since, and nobody wrote down of which files these vectors are",
            way_out="make vectors anew with `medvrag embed`",
        )
    return EncodedArticles.from_json(path.read_bytes(), source=str(path))
