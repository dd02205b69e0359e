"""Corpora checked against benchmarks: source articles and pages with question text, in ledger and record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from medvrag_core.corpus.build import build_corpus
from medvrag_core.corpus.exclusion import excluded_articles, listed_ids, source_ids
from medvrag_core.corpus.known_questions import KnownQuestion, read_known_questions
from medvrag_core.corpus.ledger_table import read_ledger_table
from medvrag_core.corpus.screening import read_screening, require_screened
from medvrag_core.corpus.store import CorpusStore
from medvrag_core.errors import InputError, MismatchError
from medvrag_core.profiles.load import load_profile
from medvrag_core.records import Article
from medvrag_core.settings import CorpusSettings, ExclusionSettings, answering_settings

SETTINGS = load_profile("test").corpus.model_copy(update={"ocr": "off"})
GOUT = "Allopurinol is started at 100 mg daily and raised every four weeks."


def article(**fields: str) -> Article:
    return Article(article_id="x", file="x.pdf", sha256="", pages=1).model_copy(update=fields)


def write_lines(path: Path, *lines: dict[str, Any]) -> str:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return str(path)


def checked(pdfs: Path, folder: Path, **fields: Any) -> CorpusStore:
    chosen = SETTINGS.model_copy(update={"exclusion": ExclusionSettings(**fields)})
    return build_corpus(pdfs, folder, chosen, progress=False)


@pytest.mark.parametrize(
    ("fields", "listed"),
    [
        ({"pmid": "123"}, "PMID:0123"),
        ({"pmid": "PMID: 0123"}, "https://pubmed.ncbi.nlm.nih.gov/123/"),
        ({"doi": "10.1000/ABC."}, "https://doi.org/10.1000/abc"),
        ({"doi": "https://doi.org/10.1000/abc"}, "doi:10.1000/ABC"),
        ({"article_id": "PMC77"}, "PMC077.2"),
    ],
)
def test_articles_are_known_by_any_id_however_it_is_written(
    fields: dict[str, str], listed: str, tmp_path: Path
) -> None:
    (tmp_path / "ids.txt").write_text(f"# why\n{listed}\nPMID:999\n{listed}\n")
    ids = listed_ids([tmp_path / "ids.txt"])
    ((found, why),) = excluded_articles([article(**fields), article(article_id="y", pmid="1239")], ids).items()
    assert found == fields.get("article_id", "x")
    assert why.endswith(", listed in ids.txt")
    assert excluded_articles([article(), article(pmid="none", doi="10.1000/other")], ids) == {}


def test_a_list_with_a_line_that_is_no_id_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_text("PMID:1\n19000001\n")
    with pytest.raises(InputError, match="looks like a PMID"):
        listed_ids([tmp_path / "ids.txt"])
    with pytest.raises(InputError, match="question 'q': field 'sources'"):
        source_ids([KnownQuestion(name="q", text="?", sources=("123",))])


def test_a_question_of_pubmedqa_names_its_article_by_its_id(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "q.jsonl",
        {"id": "123", "question": "Is it?", "dataset": "pubmedqa"},
        {"id": 5, "question": "Is it?", "dataset": "bioasq", "sources": ["PMID:7"], "answer": "A"},
        {"_id": "d1", "text": "a query"},
    )
    assert read_known_questions(Path(path)) == [
        KnownQuestion(name="pubmedqa/123", text="Is it?", sources=("PMID:123",)),
        KnownQuestion(name="bioasq/5", text="Is it?", sources=("PMID:7",)),
        KnownQuestion(name="d1", text="a query"),
    ]


@pytest.mark.parametrize(
    "line",
    [{"question": "?"}, {"id": "q"}, {"id": "q", "question": "?", "sources": "PMID:1"}, {"id": True, "text": "?"}],
)
def test_a_question_that_cannot_be_checked_is_refused(line: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"q\.jsonl, line 1: field '(id|question|sources)'"):
        read_known_questions(Path(write_lines(tmp_path / "q.jsonl", line)))


def test_what_a_corpus_was_checked_against_is_in_its_ledger_and_record(made_pdfs: Path, tmp_path: Path) -> None:
    plain = build_corpus(made_pdfs, tmp_path / "c", SETTINGS, progress=False)
    assert read_screening(plain.folder) is None
    (tmp_path / "ids.txt").write_text("PMC1\n")
    questions = write_lines(
        tmp_path / "q.jsonl",
        {"id": "g", "question": GOUT.upper(), "dataset": "mmlu"},
        {"id": "far", "question": "A question of which no page of this corpus says a single word at all"},
        {"id": "short", "question": "Why?"},
    )
    told = checked(made_pdfs, tmp_path / "c", questions=[questions], ids=[str(tmp_path / "ids.txt")])
    assert [page.page_id for page in told.pages] == [page.page_id for page in plain.pages]
    assert told.fingerprint == plain.fingerprint
    (entry,) = [entry for entry in told.ledger if entry.reason == "question_text"]
    assert (entry.page_id, entry.state, entry.detail) == ("gout#p1", "changed", "question mmlu/g, word for word")
    (row,) = [row for row in read_ledger_table(told.folder) if "question_text" in row.changes]
    assert (row.page_id, row.status) == ("gout#p1", "kept")
    assert "mmlu/g" in row.detail
    screening = read_screening(told.folder)
    assert screening is not None
    assert (len(screening.sought), screening.too_short, [hit.page_id for hit in screening.hits]) == (2, 1, ["gout#p1"])

    without = checked(made_pdfs, tmp_path / "c", questions=[questions], suspect_pages="leave_out")
    assert {page.page_id for page in plain.pages} - {page.page_id for page in without.pages} == {"gout#p1"}
    (row,) = [row for row in read_ledger_table(without.folder) if row.page_id == "gout#p1"]
    assert (row.status, row.reason, row.detail) == ("dropped", "question_text", "question mmlu/g, word for word")
    assert next(a.pages for a in without.articles if a.article_id == "gout") == 1
    build_corpus(made_pdfs, tmp_path / "c", SETTINGS, progress=False)
    assert read_screening(plain.folder) is None


def test_a_source_article_leaves_the_corpus_with_all_its_pages(
    made_pdfs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from medvrag_core.corpus.source import SourceDocument

    real = SourceDocument.described
    facts = {"asthma": {"pmid": "123"}, "gout": {"doi": "10.1000/gout"}}
    monkeypatch.setattr(
        SourceDocument,
        "described",
        lambda self, found: real(self, found).model_copy(update=facts.get(self.article_id, {})),
    )
    questions = write_lines(tmp_path / "q.jsonl", {"id": "123", "question": "Is it?", "dataset": "pubmedqa"})
    (tmp_path / "ids.txt").write_text("10.1000/GOUT\n")
    store = checked(made_pdfs, tmp_path / "c", questions=[questions], ids=[str(tmp_path / "ids.txt")])
    assert [a.article_id for a in store.articles] == ["anemia"]
    rows = {row.page_id or row.file: row for row in read_ledger_table(store.folder)}
    assert {row.status for name, row in rows.items() if name.startswith(("asthma", "gout"))} == {"dropped"}
    assert rows["asthma.pdf"].detail == "PMID:123, source of question pubmedqa/123"
    assert rows["asthma#p2"].reason == "benchmark_source"
    assert rows["gout#p1"].detail == "10.1000/gout, listed in ids.txt"


def test_a_corpus_that_was_not_checked_so_is_refused(made_pdfs: Path, tmp_path: Path) -> None:
    questions = write_lines(tmp_path / "q.jsonl", {"id": "g", "question": GOUT})
    store = checked(made_pdfs, tmp_path / "c", questions=[questions])
    require_screened(store.folder, ExclusionSettings(questions=(questions,)))
    require_screened(store.folder, ExclusionSettings())
    with pytest.raises(MismatchError, match=r"was not checked against `corpus\.exclusion`"):
        require_screened(store.folder, ExclusionSettings(questions=(questions,), near=0.5))


def test_lists_are_no_part_of_what_shapes_answers_and_of_files_while_they_are_empty() -> None:
    profile = load_profile("test")
    listed = profile.model_copy(
        update={"corpus": CorpusSettings(**profile.corpus.model_dump() | {"exclusion": {"ids": ("a.txt",)}})}
    )
    assert answering_settings(listed) == answering_settings(profile)
    assert "exclusion" not in profile.corpus.model_dump()
    assert load_profile("test", {"corpus.exclusion.ids": ["a.txt"]}).corpus.exclusion.ids == ("a.txt",)
