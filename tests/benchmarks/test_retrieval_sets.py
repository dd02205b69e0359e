from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from medvrag_core.errors import InputError


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row) + "\n" for row in rows).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)


def judge(path: Path, rows: list[tuple[str, str, int]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "query-id\tcorpus-id\tscore\n" + "".join(f"{a}\t{b}\t{c}\n" for a, b, c in rows)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())


@pytest.fixture
def beir(tmp_path: Path) -> Path:
    write(tmp_path / "corpus.jsonl.gz", [{"_id": f"d{n}", "title": f"T{n}", "text": f"text {n}"} for n in range(6)])
    write(tmp_path / "queries.jsonl.gz", [{"_id": f"q{n}", "text": f"what is {n}"} for n in range(4)])
    judge(tmp_path / "qrels" / "test.tsv.gz", [("q1", "d5", 2), ("q1", "d0", 0), ("q3", "d4", 1)])
    judge(tmp_path / "qrels" / "dev.tsv.gz", [("q2", "d1", 1)])
    return tmp_path


def test_a_text_set_has_the_queries_of_its_split_and_pages_for_documents(beir: Path) -> None:
    from retrieval_sets import documents, query_sets

    [test] = query_sets(beir)
    assert [query.id for query in test.queries] == ["q1", "q3"]
    assert test.gold == {"q1": {"d5#p1": 2, "d0#p1": 0}, "q3": {"d4#p1": 1}}
    [dev] = query_sets(beir, "dev")
    assert [query.id for query in dev.queries] == ["q2"] and dev.name.endswith(", dev")
    assert [document.document_id for document in documents(beir)] == [f"d{n}" for n in range(6)]
    assert documents(beir)[3].title == "T3"


def test_a_sample_holds_what_its_queries_need(beir: Path) -> None:
    from retrieval_sets import documents, query_sets, sample

    [test] = query_sets(beir)
    one = test.first(1)
    assert ([query.id for query in one.queries], set(one.gold)) == (["q1"], {"q1"})
    assert {d.document_id for d in sample(documents(beir), one, 3)} == {"d0", "d5", "d1"}
    assert {d.document_id for d in sample(documents(beir), test, 1)} == {"d0", "d4", "d5"}
    assert sample(documents(beir), one, None) == documents(beir)


def test_questions_on_pages_are_cut_by_evidence_and_in_halves(tmp_path: Path) -> None:
    from retrieval_sets import query_sets

    kinds = ["text", "figure", "text", "table"]
    rows = [{"_id": f"p{n}", "text": "what?", "metadata": {"evidence": kind}} for n, kind in enumerate(kinds)]
    write(tmp_path / "questions.jsonl", rows)
    write(tmp_path / "known_item_queries.jsonl", [{"_id": f"k{n}", "text": "where?"} for n in range(5)])
    judge(tmp_path / "qrels" / "questions.tsv", [(f"p{n}", "a#p1", 2) for n in range(4)])
    judge(tmp_path / "qrels" / "known_item.tsv", [(f"k{n}", "a#p1", 2) for n in range(5)])
    found = {part.name: [query.id for query in part.queries] for part in query_sets(tmp_path)}
    assert found == {
        "questions": ["p0", "p1", "p2", "p3"],
        "questions, figure": ["p1"],
        "questions, table": ["p3"],
        "questions, text": ["p0", "p2"],
        "questions, even": ["p0", "p2"],
        "questions, odd": ["p1", "p3"],
        "known items, even": ["k0", "k2", "k4"],
        "known items, odd": ["k1", "k3"],
    }
    assert all(set(part.gold) == {query.id for query in part.queries} for part in query_sets(tmp_path))


def test_faults_name_file_and_field(beir: Path, tmp_path: Path) -> None:
    from retrieval_sets import documents, query_sets

    with pytest.raises(InputError, match=r"train\.tsv\.gz: no such file"):
        query_sets(beir, "train")
    with pytest.raises(InputError, match=r"questions\.jsonl: no such file"):
        query_sets(tmp_path / "nowhere")
    judge(beir / "qrels" / "test.tsv.gz", [("q9", "d1", 1)])
    with pytest.raises(InputError, match="no query has a judged page"):
        query_sets(beir)
    write(beir / "corpus.jsonl.gz", [{"_id": "d1", "text": "x"}])
    with pytest.raises(InputError, match=r"corpus\.jsonl\.gz, line 1: field 'title'"):
        documents(beir)


def test_the_sets_of_the_project_are_whole(shared_data: Path) -> None:
    from retrieval_sets import documents, query_sets

    sizes = {part.name: len(part.queries) for part in query_sets(shared_data / "retrieval" / "article_pages")}
    assert (sizes["questions"], sizes["known items, even"], sizes["known items, odd"]) == (50, 116, 116)
    assert [sizes[f"questions, {kind}"] for kind in ("text", "table", "figure")] == [22, 12, 16]
    for name, pages, queries in (("scifact", 5_183, 300), ("nfcorpus", 3_633, 323)):
        [part] = query_sets(shared_data / "retrieval" / name)
        assert (len(documents(shared_data / "retrieval" / name)), len(part.queries)) == (pages, queries)
