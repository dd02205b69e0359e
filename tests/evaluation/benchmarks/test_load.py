"""Sets by name: raw files against MIRAGE's own file, sizes, settings named apart, files that cannot be trusted."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from medvrag_core import strict_json
from medvrag_core.errors import InputError
from medvrag_core.evaluation.benchmarks.load import (
    BENCHMARK_SETS,
    MAIN_SETS,
    SIZES,
    load_sets,
    read_mirage,
    read_raw,
    require_size,
)
from medvrag_core.evaluation.benchmarks.registry import load_registry
from medvrag_core.evaluation.questions import read_questions, write_questions
from medvrag_core.records import Question

Write = Callable[..., Path]
TWO = {"1": {"question": "Is it?", "options": {"A": "yes", "B": "no"}, "answer": "A", "PMID": [7]}}


@pytest.fixture(scope="module")
def mirage(real: Path) -> dict[str, list[Question]]:
    return read_mirage(real / "mirage" / "benchmark.json.gz")


@pytest.mark.parametrize("name", BENCHMARK_SETS)
def test_raw_files_give_exactly_the_questions_of_mirage(
    name: str, real: Path, mirage: dict[str, list[Question]]
) -> None:
    raw = read_raw(name, real)
    assert raw == mirage[name], "ids, order, texts, options and answers"
    assert len(raw) == SIZES[name]
    assert {(question.dataset, question.context) for question in raw} == {(name, "")}


def test_a_copy_of_medmcqa_that_counts_from_0_gives_the_same_gold(
    real: Path, mirage: dict[str, list[Question]], lines: Write
) -> None:
    packed = (real / "medmcqa" / "dev.json.gz").read_bytes()
    rows = [json.loads(row) for row in gzip.decompress(packed).splitlines()]
    path = lines("medmcqa/dev.json", *[row | {"cop": row["cop"] - 1} for row in rows])
    assert read_raw("medmcqa", path.parents[1]) == mirage["medmcqa"]


def test_ids_and_texts_are_those_of_the_file_itself(real: Path, mirage: dict[str, list[Question]]) -> None:
    plain = json.loads(gzip.decompress((real / "mirage" / "benchmark.json.gz").read_bytes()))
    assert list(plain) == list(mirage)
    for name, items in plain.items():
        read = {q.id: {"question": q.question, "options": q.options, "answer": q.answer} for q in mirage[name]}
        assert read == {key: {k: v for k, v in item.items() if k != "PMID"} for key, item in items.items()}


def test_the_main_table_is_7045_questions_and_comes_back_from_a_question_file(real: Path, tmp_path: Path) -> None:
    loaded = load_sets(MAIN_SETS, real)
    assert len(loaded) == 7_045 == sum(SIZES[name] for name in MAIN_SETS)
    assert len(load_sets(BENCHMARK_SETS, real / "mirage" / "benchmark.json.gz")) == 7_663
    write_questions(tmp_path / "q.jsonl", loaded)
    assert read_questions(tmp_path / "q.jsonl") == loaded


def test_pubmedqa_from_all_labelled_items_with_the_official_answers(real: Path, tmp_path: Path) -> None:
    (tmp_path / "pubmedqa").mkdir()
    shutil.copy(real / "pubmedqa" / "ori_pqal.json.gz", tmp_path / "pubmedqa")
    # lm-evaluation-harness #886: 1,000 labelled items scored in place of the 500 test items.
    with pytest.raises(InputError, match=r"500 questions expected, 1,000 found: all labelled.*--any-size"):
        load_sets(["pubmedqa"], tmp_path)
    assert len(load_sets(["pubmedqa"], tmp_path, any_size=True)) == 1_000
    shutil.copy(real / "pubmedqa" / "test_ground_truth.json.gz", tmp_path / "pubmedqa")
    for name in ("pubmedqa", "pubmedqa_abstract"):
        assert load_sets([name], tmp_path) == load_sets([name], real)


def test_abstracts_hold_what_was_found_and_never_the_conclusion(real: Path) -> None:
    items = json.loads(gzip.decompress((real / "pubmedqa" / "ori_pqal.json.gz").read_bytes()))
    bare, full = (load_sets([name], real) for name in ("pubmedqa", "pubmedqa_abstract"))
    assert [q.model_copy(update={"dataset": "pubmedqa", "context": ""}) for q in full] == bare
    assert {q.dataset for q in full} == {"pubmedqa_abstract"}
    for question in full:
        item = items[question.id]
        assert question.context.split("\n\n") == item["CONTEXTS"]
        assert item["LONG_ANSWER"] not in question.context


def test_both_settings_do_not_go_into_one_file(real: Path) -> None:
    with pytest.raises(
        InputError, match="in pubmedqa and in pubmedqa_abstract; write the sets into files of their own"
    ):
        load_sets(["pubmedqa", "pubmedqa_abstract"], real)
    with pytest.raises(InputError, match=r"no set 'pubmedqa_abstract'.*folder of raw files"):
        load_sets(["pubmedqa_abstract"], real / "mirage" / "benchmark.json.gz")


@pytest.mark.parametrize("name", list(SIZES))
@pytest.mark.parametrize("wrong", [-1, 1])
def test_any_other_size_is_an_error_that_says_both(name: str, wrong: int) -> None:
    question = Question(id="1", question="?", options={"A": "x", "B": "y"}, answer="A")
    require_size(name, [question] * SIZES[name])
    with pytest.raises(InputError, match=f"{SIZES[name]:,} questions expected, {SIZES[name] + wrong:,} found"):
        require_size(name, [question] * (SIZES[name] + wrong))


def test_the_registry_promises_the_same_sizes() -> None:
    promised = [item for benchmark in load_registry() for item in benchmark.sets.items()]
    assert dict(promised) == SIZES
    assert all(SIZES[name] == count for name, count in promised)


def test_a_missing_file_names_the_command_that_gets_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=rf"dev\.json: no such file.*fetch medmcqa --to {tmp_path}"):
        load_sets(["medmcqa"], tmp_path)
    with pytest.raises(InputError, match="fetch pubmedqa --to"):
        load_sets(["pubmedqa_abstract"], tmp_path)
    with pytest.raises(InputError, match=r"'medmqca' is no question set; choose of medqa, medmcqa"):
        load_sets(["medmqca"], tmp_path)
    with pytest.raises(InputError, match="'medqa' is named twice"):
        load_sets(["medqa", "medmcqa", "medqa"], tmp_path)
    with pytest.raises(InputError, match=r"none\.json: no such file or folder; get the sets with `medvrag bench"):
        load_sets(["medqa"], tmp_path / "none.json")


def test_a_set_without_a_question_is_no_set(tmp_path: Path) -> None:
    path = tmp_path / "benchmark.json"
    path.write_text('{"medqa": {}}')
    with pytest.raises(InputError, match=r"benchmark\.json: holds no question of 'medqa'"):
        load_sets(["medqa"], path, any_size=True)


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ({"medxqa": TWO}, "'medxqa' is no set of MIRAGE"),
        ({"pubmedqa_abstract": TWO}, "'pubmedqa_abstract' is no set of MIRAGE"),
        ({"bioasq": []}, "bioasq: must be a JSON object, found list"),
        ({"bioasq": {"1": None}}, "bioasq, question 1: must be a JSON object"),
        ({"bioasq": {"1": {**TWO["1"], "answer": "C"}}}, "question 1: field 'answer': 'C' is not among"),
        ({"bioasq": {"1": {"question": "Is it?"}}}, "question 1: field 'answer' is missing"),
        ({"bioasq": {" ": TWO["1"]}}, "field 'id'"),
        ("text", "must be a JSON object, found str"),
    ],
)
def test_a_damaged_benchmark_file_is_named_with_set_and_question(content: object, word: str, document: Write) -> None:
    path = document("benchmark.json", content)
    with pytest.raises(InputError, match=word) as fault:
        read_mirage(path)
    assert str(path) in str(fault.value)


def test_packed_files_are_bounded_and_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "benchmark.json.gz"
    packed = gzip.compress(json.dumps({"bioasq": TWO}).encode())
    path.write_bytes(packed)
    assert [q.id for q in read_mirage(path)["bioasq"]] == ["1"]
    for broken in (packed[:-12], b"not gzip", packed[:20] + b"\xff" + packed[21:]):
        path.write_bytes(broken)
        with pytest.raises(InputError, match=r"benchmark\.json\.gz: not a whole gzip file"):
            read_mirage(path)
    monkeypatch.setattr(strict_json, "LARGEST_BYTES", 1 << 16)
    path.write_bytes(gzip.compress(b" " * (1 << 22)))
    with pytest.raises(InputError, match="holds more than 65,536 bytes"):
        read_mirage(path)
