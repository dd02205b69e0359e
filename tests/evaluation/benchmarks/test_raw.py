"""Raw files of each set: ids and answers as in MIRAGE, and what is refused."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from medvrag_core.errors import InputError
from medvrag_core.evaluation.benchmarks.raw import (
    read_bioasq,
    read_medmcqa,
    read_medqa,
    read_mmlu,
    read_pubmedqa,
)

Write = Callable[..., Path]
MEDQA = {"question": "Which?", "answer": "x", "options": {"A": "w", "B": "x"}, "answer_idx": "B", "meta_info": "step1"}
ITEM = {
    "QUESTION": "Does it?",
    "CONTEXTS": ["Forty mice.", "Half of them did."],
    "LABELS": ["METHODS", "RESULTS"],
    "LONG_ANSWER": "It does in mice.",
    "final_decision": "maybe",
}
YESNO = {"id": "5c9f", "type": "yesno", "body": "Is it?", "exact_answer": "Yes", "snippets": [{"text": "It is."}]}


def medmcqa(cop: Any, **more: Any) -> dict[str, Any]:
    options = {f"op{letter}": f"option {letter}" for letter in "abcd"}
    return {"id": f"id-{cop}", "question": f"Which, {cop}?", "cop": cop, "exp": None, **options, **more}


def fails(word: str, read: Callable[[], object]) -> str:
    with pytest.raises(InputError, match=word) as fault:
        read()
    return str(fault.value)


def test_medqa_takes_the_letter_and_the_place(lines: Write) -> None:
    first, second = read_medqa(lines("q.jsonl", MEDQA, MEDQA | {"answer": "w", "answer_idx": "A"}))
    assert (first.id, first.answer, second.id, second.answer) == ("0000", "B", "0001", "A")
    assert first.options == MEDQA["options"] and first.dataset == "medqa"


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"answer": "w"}, "'answer' is not the text of option B"),
        ({"answer_idx": "E"}, "'E' is not among the options A, B"),
        ({"answer_idx": None}, "'answer_idx' is missing"),
        ({"question": 7}, "'question' is no text"),
        ({"options": None}, "'options'"),
        ({"options": ["w", "x"]}, "'options'"),
    ],
)
def test_medqa_faults_name_line_and_field(change: dict[str, Any], word: str, lines: Write) -> None:
    path = lines("q.jsonl", MEDQA, MEDQA | change)
    assert f"{path}, line 2" in fails(word, lambda: read_medqa(path))


def test_five_options_are_read_as_they_are(lines: Write) -> None:
    options = dict(zip("ABCDE", "vwxyz", strict=True))
    (question,) = read_medqa(lines("q.jsonl", MEDQA | {"options": options, "answer": "z", "answer_idx": "E"}))
    assert (question.options, question.answer) == (options, "E")


@given(cops=st.lists(st.integers(0, 3), min_size=1, max_size=12).filter(lambda cops: {0, 3} & set(cops)))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_medmcqa_reads_the_same_gold_from_a_file_that_counts_from_0(cops: list[int], lines: Write) -> None:
    def gold(first: int) -> list[str | None]:
        rows = [medmcqa(cop + first, id=str(place)) for place, cop in enumerate(cops)]
        return [question.answer for question in read_medmcqa(lines("dev.json", *rows))]

    expected = ["ABCD"[cop] for cop in cops]
    # A 0 shows that a file counts from 0, a 4 (option 3) that it counts from 1; with neither it is refused.
    for first, telling in ((0, 0), (1, 3)):
        if telling in cops:
            assert gold(first) == expected
        else:
            fails("may count from 0 or from 1", lambda first=first: gold(first))


@pytest.mark.parametrize(
    ("cops", "word"),
    [
        ([0, 4], "0 in some lines and 4 in others"),
        ([1, 2, 3], "give the whole file"),
        ([1, 5], "found 5"),
        ([1, "1"], "found '1'"),
        ([1, True], "found True"),
        ([1, 2.0], "found 2.0"),
        ([1, -1], "the test split has none"),
        ([1, None], "the test split has none"),
    ],
)
def test_medmcqa_option_numbers_that_cannot_be_trusted(cops: list[Any], word: str, lines: Write) -> None:
    path = lines("dev.json", *[medmcqa(cop) for cop in cops])
    assert str(path) in fails(word, lambda: read_medmcqa(path))


def test_pubmedqa_in_both_settings(document: Write) -> None:
    path = document("test_set.json", {"12377809": ITEM})
    (bare,) = read_pubmedqa(path)
    assert (bare.id, bare.answer, bare.dataset, bare.context) == ("12377809", "C", "pubmedqa", "")
    (full,) = read_pubmedqa(path, abstract=True)
    assert full.context == "Forty mice.\n\nHalf of them did."
    assert full == bare.model_copy(update={"dataset": "pubmedqa_abstract", "context": full.context})


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"CONTEXTS": ["Forty mice.", "So: It does in mice."]}, "holds the conclusion"),
        ({"CONTEXTS": "Forty mice."}, "must be a list of texts"),
        ({"CONTEXTS": []}, "must be a list of texts"),
        ({"CONTEXTS": ["Forty mice.", " "]}, "must be a list of texts"),
        ({"final_decision": "perhaps"}, "'perhaps' is none of yes, no, maybe"),
    ],
)
def test_pubmedqa_faults_name_the_item(change: dict[str, Any], word: str, document: Write) -> None:
    path = document("test_set.json", {"12377809": ITEM | change})
    assert f"{path}, item 12377809" in fails(word, lambda: read_pubmedqa(path, abstract=True))


def test_official_answers_choose_the_items_and_must_agree(document: Write) -> None:
    path = document("ori_pqal.json", {"1": ITEM, "2": ITEM | {"final_decision": "no"}, "3": ITEM})
    truth = document("truth.json", {"3": "maybe", "2": "no"})
    assert [(q.id, q.answer) for q in read_pubmedqa(path, truth)] == [("3", "C"), ("2", "B")]
    fails("'final_decision' is 'maybe'", lambda: read_pubmedqa(path, document("truth.json", {"1": "yes"})))
    fails("item 9 is not in", lambda: read_pubmedqa(path, document("truth.json", {"9": "yes"})))


CELLS = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=20).filter(str.strip)


@given(rows=st.lists(st.tuples(CELLS, CELLS, CELLS, CELLS, CELLS, st.sampled_from("ABCD")), min_size=1, max_size=4))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_mmlu_cells_come_through_quoting(rows: list[tuple[str, ...]], tmp_path: Path) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    path = tmp_path / "anatomy_test.csv"
    path.write_text(text.getvalue(), encoding="utf-8", newline="")
    read = read_mmlu([path])
    assert [question.id for question in read] == [f"anatomy-{place:03d}" for place in range(len(rows))]
    assert [(q.question, *q.options.values(), q.answer) for q in read] == rows


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("q,a,b,c,d\n", "line 1: has 5 cells"),
        ("q,a,b,c,d,A\nq,a,b,c,d,E\n", "line 2: field 'answer': 'E' is not among"),
        ('q,a,b,c,"d,A\n', "not valid CSV"),
        ("q,a,,c,d,A\n", "field 'options'"),
    ],
)
def test_mmlu_faults_name_the_line(text: str, word: str, tmp_path: Path) -> None:
    path = tmp_path / "anatomy_test.csv"
    path.write_text(text)
    assert str(path) in fails(word, lambda: read_mmlu([path]))


def test_bioasq_keeps_yes_and_no_and_each_id_once(document: Write) -> None:
    other = {"id": "1", "type": "factoid", "body": "Which?", "exact_answer": [["this"]]}
    first = document("11B1_golden.json", {"questions": [other, YESNO]})
    second = document("10B1_golden.json", {"questions": [YESNO, YESNO | {"id": "6d", "exact_answer": "no"}]})
    assert [(q.id, q.answer, q.context) for q in read_bioasq([first, second])] == [("5c9f", "A", ""), ("6d", "B", "")]


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ({"questions": [YESNO | {"exact_answer": "perhaps"}]}, "question 0: field 'exact_answer': 'perhaps' is none"),
        ({"questions": [YESNO | {"exact_answer": ["yes"]}]}, "question 0: field 'exact_answer' is no text"),
        ({"questions": [YESNO, YESNO | {"exact_answer": "no"}]}, "question 1: id '5c9f' was used before"),
        ({"questions": ["Is it?"]}, "question 0: must be a JSON object, found str"),
        ({"items": []}, "'questions' must be a list"),
        ([YESNO], "must be a JSON object, found list"),
    ],
)
def test_bioasq_faults_name_the_question(content: Any, word: str, document: Write) -> None:
    path = document("11B1_golden.json", content)
    assert str(path) in fails(word, lambda: read_bioasq([path]))


def test_an_id_that_stands_twice_in_one_object_is_not_lost_in_silence(tmp_path: Path) -> None:
    path = tmp_path / "test_set.json"
    item = json.dumps(ITEM)
    path.write_text(f'{{"1": {item}, "1": {item}}}')
    fails("'1' stands twice", lambda: read_pubmedqa(path))
