"""Retrieval sets as they lie on disk: queries with judged pages, and the texts of a set in BEIR layout."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from medvrag_core.corpus.text_pages import TextDocument
from medvrag_core.errors import InputError
from medvrag_core.evaluation.questions import read_queries
from medvrag_core.evaluation.retrieval.metrics import Gold, read_qrels
from medvrag_core.records import Query
from medvrag_core.strict_json import json_lines

_DOCUMENTS = "corpus.jsonl.gz"


@dataclass(frozen=True)
class QuerySet:
    """Queries of which each has a judged page."""

    name: str
    queries: list[Query]
    gold: Gold

    def first(self, count: int | None) -> QuerySet:
        """Only so many queries; all of them for None."""
        return _set(self.name, self.queries[:count], self.gold)


def query_sets(folder: Path, split: str = "test") -> list[QuerySet]:
    """The queries of a folder, cut as they are reported.

    In BEIR layout (``corpus.jsonl.gz``, ``queries.jsonl.gz``, ``qrels/<split>.tsv.gz``): those of the split, a
    document standing for its one page. Else questions on pages (``questions.jsonl``, ``qrels/questions.tsv``), whole,
    by kind of evidence, and in halves: the even lines, counted from 0, and the odd ones; and known items
    (``known_item_queries.jsonl``, ``qrels/known_item.tsv``) in halves.

    Raises InputError for a missing file, and for a set without any judged query.
    """
    if (folder / _DOCUMENTS).is_file():
        judged = read_qrels(folder / "qrels" / f"{split}.tsv.gz")
        gold = {query: {page_of(name): level for name, level in found.items()} for query, found in judged.items()}
        return [_set(f"{folder.name}, {split}", read_queries(folder / "queries.jsonl.gz"), gold)]
    questions, gold = read_queries(folder / "questions.jsonl"), read_qrels(folder / "qrels" / "questions.tsv")
    items, judged = read_queries(folder / "known_item_queries.jsonl"), read_qrels(folder / "qrels" / "known_item.tsv")
    by_evidence: dict[str, list[Query]] = {}
    for query, (_, _, data) in zip(questions, json_lines(folder / "questions.jsonl"), strict=True):
        by_evidence.setdefault(data.get("metadata", {}).get("evidence", "not said"), []).append(query)
    return [
        _set("questions", questions, gold),
        *(_set(f"questions, {kind}", own, gold) for kind, own in sorted(by_evidence.items())),
        _set("questions, even", questions[::2], gold),
        _set("questions, odd", questions[1::2], gold),
        _set("known items, even", items[::2], judged),
        _set("known items, odd", items[1::2], judged),
    ]


def documents(folder: Path) -> list[TextDocument]:
    """The texts of a set in BEIR layout; raises InputError for a line without ``_id``, ``title`` or ``text``."""
    found = []
    for _, where, data in json_lines(folder / _DOCUMENTS):
        missing = [name for name in ("_id", "title", "text") if not isinstance(data.get(name), str)]
        if missing:
            raise InputError(f"{where}: field '{missing[0]}' is missing or no text")
        found.append(TextDocument(document_id=data["_id"], title=data["title"], text=data["text"]))
    return found


def sample(given: list[TextDocument], chosen: QuerySet, at_least: int | None) -> list[TextDocument]:
    """The documents judged for the chosen queries, filled up in order of the file; all of them without a number."""
    if at_least is None:
        return given
    needed = {page for query in chosen.queries for page in chosen.gold[query.id]}
    ordered = sorted(given, key=lambda document: page_of(document.document_id) not in needed)
    return ordered[: max(at_least, sum(page_of(document.document_id) in needed for document in given))]


def page_of(document_id: str) -> str:
    """Page id of a document that is one page."""
    return f"{document_id}#p1"


def _set(name: str, queries: list[Query], gold: Gold) -> QuerySet:
    judged = [query for query in queries if query.id in gold]
    if not judged:
        raise InputError(f"{name}: no query has a judged page")
    return QuerySet(name, judged, {query.id: gold[query.id] for query in judged})
