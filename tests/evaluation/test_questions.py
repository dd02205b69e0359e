from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvrag_core.errors import InputError
from medvrag_core.evaluation.questions import question_named, read_queries, read_questions, write_questions
from medvrag_core.records import Question

GOOD: dict[str, Any] = {"id": "q1", "question": "Which?", "options": {"A": "x", "B": "y"}, "answer": "B"}


def write(path: Path, *lines: object) -> Path:
    path.write_text("\n".join(x if isinstance(x, str) else json.dumps(x) for x in lines), encoding="utf-8")
    return path


texts = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1).filter(str.strip)
questions = st.lists(
    st.builds(
        lambda id, question, options, page, context: Question(
            id=str(id),
            question=question,
            options=options,
            answer=next(iter(options)),
            gold_pages=(f"PMC1#p{page}",),
            dataset="medqa" if page % 2 else "",
            context=context,
        ),
        st.integers(0, 10**9),
        texts,
        st.dictionaries(st.sampled_from("ABCDEF"), texts, min_size=2),
        st.integers(1, 5000),
        st.text(st.characters(exclude_categories=("Cs",)), max_size=20),
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda q: q.id,
)


@given(questions=questions)
def test_what_is_written_is_read_back(questions: list[Question], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("q") / "q.jsonl"
    write_questions(path, questions)
    assert read_questions(path) == questions
    packed = path.with_name("q.jsonl.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert read_questions(packed) == questions


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"question": None}, "question"),
        ({"question": " "}, "question"),
        ({"options": {}}, "options"),
        ({"options": {"A": "x"}}, "options"),
        ({"options": ["x", "y"]}, "options"),
        ({"options": {"A": "x", "B": ""}}, "options"),
        ({"answer": "C"}, "answer"),
        ({"answer": None}, "answer"),
        ({"gold_pages": ["PMC5502154"]}, "gold_pages"),
        ({"gold_pages": ["PMC5502154#p0"]}, "gold_pages"),
        ({"gold_pages": ["PMC5502154#p6 "]}, "gold_pages"),
        ({"gold_page": ["PMC5502154#p6"]}, "gold_page"),
        ({"id": "a\u0000b"}, "id"),
        ({"evidence": "smell"}, "evidence"),
        ({"dataset": " medqa"}, "dataset"),
        ({"dataset": "my set"}, "dataset"),
        ({"context": ["an abstract"]}, "context"),
        ({"contexts": ["an abstract"]}, "contexts"),
    ],
)
def test_a_fault_names_file_line_and_field(change: dict[str, Any], field: str, tmp_path: Path) -> None:
    path = write(tmp_path / "mine.jsonl", GOOD, "", GOOD | {"id": "q2"} | change)
    with pytest.raises(InputError) as fault:
        read_questions(path)
    assert "mine.jsonl, line 3: " in str(fault.value)
    assert f"'{field}'" in str(fault.value)


@pytest.mark.parametrize("field", ["id", "question", "options", "answer"])
def test_a_missing_field_is_named(field: str, tmp_path: Path) -> None:
    path = write(tmp_path / "q.jsonl", {k: v for k, v in GOOD.items() if k != field})
    with pytest.raises(InputError, match=f"line 1: field '{field}' is missing"):
        read_questions(path)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([""], "holds no line"),
        (["{"], "line 1: not valid JSON"),
        (["[]"], "line 1: must be a JSON object"),
        (['{"id": NaN}'], "line 1: NaN is not a JSON value"),
        (['{"id": "a", "id": "b"}'], "field 'id' stands twice"),
        ([GOOD, GOOD], "line 2: id 'q1' was already used on line 1"),
        (["[" * 100_000], "line 1: "),
    ],
)
def test_files_that_hold_no_questions(lines: list[object], words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words):
        read_questions(write(tmp_path / "q.jsonl", *lines))


def test_missing_and_binary_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_questions(tmp_path / "none.jsonl")
    (tmp_path / "b.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not UTF-8"):
        read_questions(tmp_path / "b.jsonl")


def test_strange_but_harmless_files_are_read(tmp_path: Path) -> None:
    odd = GOOD | {"id": 7, "question": "line\u2028separator", "language": "en"}
    path = tmp_path / "q.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(odd, ensure_ascii=False).encode() + b"\r\n\r\n")
    (question,) = read_questions(path)
    assert (question.id, question.question) == ("7", "line\u2028separator")


def test_a_question_without_answer_can_be_asked_but_not_scored(tmp_path: Path) -> None:
    path = write(tmp_path / "q.jsonl", {k: v for k, v in GOOD.items() if k != "answer"})
    assert read_questions(path, require_answer=False)[0].answer is None


def test_article_questions_are_understood_directly_and_converted(shared_data: Path, tmp_path: Path) -> None:
    path = shared_data / "retrieval/article_pages/questions.jsonl"
    converted = read_questions(path)
    assert len(converted) == 50
    assert converted[0].gold_pages == ("PMC5502154#p2",)
    write_questions(tmp_path / "q.jsonl", converted)
    assert read_questions(tmp_path / "q.jsonl") == converted


def test_article_form_names_what_it_lacks(tmp_path: Path) -> None:
    path = write(tmp_path / "q.jsonl", {"_id": "a", "text": "?", "metadata": {"options": {"A": "x", "B": "y"}}})
    with pytest.raises(InputError, match=r"field 'metadata\.answer' is missing"):
        read_questions(path)


def test_queries(shared_data: Path, tmp_path: Path) -> None:
    assert len(read_queries(shared_data / "retrieval/article_pages/known_item_queries.jsonl")) == 232
    for line, words in (
        ({"id": "a"}, "'text' is missing"),
        ({"id": "a b", "text": "x"}, "'id'"),
        ({"id": 1, "text": ""}, "'text'"),
    ):
        with pytest.raises(InputError, match=words):
            read_queries(write(tmp_path / "q.jsonl", line))


def test_a_check_of_faults_reads_what_a_run_refuses_but_only_records(tmp_path: Path) -> None:
    faulty = [GOOD | {"id": "1", "answer": "C"}, GOOD | {"id": "2", "question": " "}, GOOD | {"id": "3", "options": {}}]
    assert [q.id for q in read_questions(write(tmp_path / "q.jsonl", *faulty), usable=False)] == ["1", "2", "3"]
    for broken, field in (({"options": None}, "options"), ({"answers": "B"}, "answers")):
        with pytest.raises(InputError, match=f"line 2: .*'{field}'"):
            read_questions(write(tmp_path / "q.jsonl", GOOD, GOOD | {"id": "q2"} | broken), usable=False)


def test_a_question_is_found_by_its_id_or_refused_by_name() -> None:
    asked = [Question(id=name, question="?", options={"A": "x", "B": "y"}) for name in ("q1", "q2")]
    assert question_named(asked, "q2").id == "q2"
    assert question_named(asked, "").id == "q1"
    with pytest.raises(InputError, match=r"no question 'hcq-01' among 2.*example_id="):
        question_named(asked, "hcq-01")
    with pytest.raises(InputError, match="among 0"):
        question_named([], "")
