"""Retrieval metrics over page ids, and the TREC files that let anyone recompute them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from medvrag_core.errors import InputError
from medvrag_core.records import Hit, Record
from medvrag_core.runs.publish import write_text
from medvrag_core.strict_json import read_text

Ranking = Sequence[str] | Sequence[Hit]
Gold = Mapping[str, Mapping[str, int]]


class RetrievalReport(Record):
    """Means over the questions that have gold pages; a question without ranking counts as 0."""

    n: int = Field(ge=1, description="questions with at least one gold page")
    unranked: int = Field(description="of these, questions for which no page was ranked")
    recall: dict[int, float] = Field(description="by k: share of a question's gold pages among its first k")
    any_gold: dict[int, float] = Field(description="by k: share of questions with a gold page among the first k")
    ndcg_at_10: float
    mrr: float = Field(description="mean of 1 / rank of the first gold page")
    mrr_at_10: float = Field(description="the same, 0 for questions without a gold page among the first ten (VisRAG)")


@dataclass(frozen=True)
class QuestionScores:
    """What a ranking is worth for each question that has a gold page.

    Attributes
    ----------
    ids : question ids, sorted
    ranked : bool, shape (n,), whether any page was ranked; a question without ranking has 0 everywhere
    values : by metric (``recall@10``, ``any_gold@10``, ``nDCG@10``, ``MRR``, ``MRR@10``): float, shape (n,), in 0 to 1
    """

    ids: tuple[str, ...]
    ranked: NDArray[np.bool_]
    values: Mapping[str, NDArray[np.float64]]


def question_scores(rankings: Mapping[str, Ranking], gold: Gold, ks: Sequence[int] = (10, 100)) -> QuestionScores:
    """Score ranked pages question by question with ir-measures.

    Parameters
    ----------
    rankings : by question id: page ids or hits, best first; questions outside ``gold`` are ignored
    gold : by question id: relevance of page ids (0: judged not relevant)
    ks : cut-offs of recall and any-gold

    Raises
    ------
    InputError : no question has a gold page, or a ranking names a page twice
    """
    import ir_measures
    from ir_measures import RR, R, Success, nDCG

    judged = {q: dict(pages) for q, pages in gold.items() if any(level > 0 for level in pages.values())}
    if not judged:
        raise InputError(
            "no question has a gold page", way_out="add gold_pages to the question file to score retrieval"
        )
    # Falling scores keep the order given; the scores of the search itself may be tied.
    run = {
        q: {page: float(-rank) for rank, page in enumerate(_page_ids(rankings[q], q))} for q in judged & rankings.keys()
    }
    run = {q: scores for q, scores in run.items() if scores}
    names = {nDCG @ 10: "nDCG@10", RR: "MRR", RR @ 10: "MRR@10"}
    names |= {R @ k: f"recall@{k}" for k in ks} | {Success @ k: f"any_gold@{k}" for k in ks}
    ids = tuple(sorted(judged))
    place = {q: number for number, q in enumerate(ids)}
    values = {name: np.zeros(len(ids)) for name in names.values()}
    if run:
        for metric in ir_measures.iter_calc(list(names), {q: judged[q] for q in run}, run):
            values[names[metric.measure]][place[metric.query_id]] = metric.value
    return QuestionScores(ids, np.array([q in run for q in ids], dtype=bool), values)


def report_of(scores: QuestionScores, ks: Sequence[int]) -> RetrievalReport:
    """Means over the questions."""
    mean = {name: float(values.mean()) for name, values in scores.values.items()}
    return RetrievalReport(
        n=len(scores.ids),
        unranked=int((~scores.ranked).sum()),
        recall={k: mean[f"recall@{k}"] for k in ks},
        any_gold={k: mean[f"any_gold@{k}"] for k in ks},
        ndcg_at_10=mean["nDCG@10"],
        mrr=mean["MRR"],
        mrr_at_10=mean["MRR@10"],
    )


def retrieval_report(rankings: Mapping[str, Ranking], gold: Gold, ks: Sequence[int] = (10, 100)) -> RetrievalReport:
    """Means of :func:`question_scores`, which tells what goes in and what is refused.

    >>> report = retrieval_report({"q": ["a#p1", "a#p2"]}, {"q": {"a#p2": 1, "b#p1": 1}}, ks=(1, 2))
    >>> report.recall, report.mrr
    ({1: 0.0, 2: 0.5}, 0.5)
    """
    return report_of(question_scores(rankings, gold, ks), ks)


def write_trec(path: Path, run: Mapping[str, Sequence[Hit]], tag: str) -> None:
    """Publish a TREC run file: ``qid Q0 page_id rank score tag``.

    Evaluation programs sort by score, in single precision, and break ties their own way; a tied
    score is therefore lowered by the smallest step, so that they see the order of the ranking.

    Raises
    ------
    InputError : an id or the tag holds white space, a page stands twice, a score is not finite
    """
    lines: list[str] = []
    for qid, hits in run.items():
        _page_ids(hits, qid)
        last = np.float32(np.inf)
        for rank, hit in enumerate(hits, start=1):
            if not math.isfinite(hit.score):
                raise InputError(f"question '{qid}': score of page '{hit.page_id}' is {hit.score}")
            last = min(np.float32(hit.score), np.nextafter(last, np.float32(-np.inf)))
            fields = (_word(qid, "question id"), _word(hit.page_id, "page id"), _word(tag, "tag"))
            lines.append(f"{fields[0]} Q0 {fields[1]} {rank} {last:.9g} {fields[2]}\n")
    write_text(path, "".join(lines))


def read_qrels(path: Path) -> dict[str, dict[str, int]]:
    """Read relevance judgments: tab-separated ``query-id``, ``corpus-id``, ``score`` with a header line.

    A name that ends in ``.gz`` is unpacked on the way. Raises :class:`InputError` naming the line for a missing file, a
    wrong number of columns, a score that is no whole number, or a pair judged twice.
    """
    gold: dict[str, dict[str, int]] = {}
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        columns = line.split("\t")
        if not line.strip() or (number == 1 and columns[0] == "query-id"):
            continue
        if len(columns) != 3:
            raise InputError(f"{path}:{number}: {len(columns)} columns", way_out="write query-id, corpus-id, score")
        qid, page_id, level = (column.strip() for column in columns)
        try:
            relevance = int(level)
        except ValueError:
            raise InputError(f"{path}:{number}: score '{level}' is no whole number") from None
        if page_id in gold.setdefault(qid, {}):
            raise InputError(f"{path}:{number}: '{qid}' and '{page_id}' are judged twice")
        gold[qid][page_id] = relevance
    if not gold:
        raise InputError(f"{path}: holds no judgment")
    return gold


def _page_ids(ranking: Ranking, qid: str) -> list[str]:
    ids = [item if isinstance(item, str) else item.page_id for item in ranking]
    if len(set(ids)) != len(ids):
        twice = next(page for place, page in enumerate(ids) if page in ids[:place])
        raise InputError(f"question '{qid}': page '{twice}' stands twice in the ranking")
    return ids


def _word(value: str, what: str) -> str:
    if value.split() != [value]:
        raise InputError(f"{what} {value!r} is empty or holds white space, which TREC files cannot hold")
    return value
