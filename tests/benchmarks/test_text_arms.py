"""MedRAG's rankings beside what is published about them, on text sets with relevance labels."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest

from medvrag_core.evaluation.retrieval.metrics import question_scores, report_of
from medvrag_core.profiles.load import load_profile


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "queries", "ndcg", "recall"), [("nfcorpus", 323, 0.3218, 0.2457), ("scifact", 300, 0.6789, 0.9253)]
)
def test_bm25_finds_what_pyserini_finds(
    shared_data: Path, tmp_path: Path, name: str, queries: int, ndcg: float, recall: float
) -> None:
    """MedRAG's BM25 is Pyserini's, over title and text in one field: condition ``bm25-flat`` of its BEIR regressions.

    Stemmer, stop words and the reading of codes and numbers are not Lucene's, so the figures agree to 0.01.
    """
    from text_arms import text_set

    options = Namespace(
        data=shared_data / "retrieval" / name, work=tmp_path, split="test", limit=None, documents=None, words=False
    )
    asked, gold, open_arm = text_set(options, load_profile("test"))
    assert len(asked) == queries
    search = open_arm("medrag_bm25")
    rankings = {query.id: search(query.text) for query in asked}
    judged = {query.id: gold[query.id] for query in asked}
    report = report_of(question_scores(rankings, judged, ks=(10, 100)), (10, 100))
    assert report.ndcg_at_10 == pytest.approx(ndcg, abs=0.01)
    assert report.recall[100] == pytest.approx(recall, abs=0.01)
