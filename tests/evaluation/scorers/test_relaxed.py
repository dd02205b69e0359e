"""Relaxed exact match: cases worked by hand, properties, and files of free-text answers."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from medvrag_core.errors import InputError
from medvrag_core.evaluation.scorers.file import score_file
from medvrag_core.evaluation.scorers.relaxed import (
    FreeTextReply,
    answer_text,
    number_in,
    relaxed_match,
    same_answer,
    score_free_text,
)


@pytest.mark.parametrize(
    ("answer", "gold", "right"),
    [
        ("100", "100", True),
        ("105", "100", True),
        ("95", "100", True),
        ("105.01", "100", False),
        ("94.99", "100", False),
        ("1.05", "1", True),  # more than 5 % in binary arithmetic
        ("0.0105", "0.01", True),
        ("100", "105", True),
        ("95", "100.1", False),
        ("-105", "-100", True),
        ("−95", "-100", True),
        ("100", "-100", False),
        ("0", "0", True),
        ("0.0", "0", True),
        ("0.0001", "0", False),
        ("0", "0.0001", False),
        ("50%", "50", True),
        ("52 %", "50%", True),
        ("52 percent", "50%", True),
        ("53%", "50%", False),
        ("50%", "0.5", False),
        ("1,040", "1000", True),
        ("1,234,567", "1234567", True),
        ("1,2", "12", False),
        ("12.", "12", True),
        (".5", "0.5", True),
        (".5", "5", False),
        ("seven", "7", True),
        ("Ten", "10.4", True),
        ("5 mg", "5", False),
        ("5.1 mg", "5 mg", False),
        ("5 mg", "5 MG", True),
        ("10²", "102", False),
        ("10²", "10²", True),
        ("2010", "1950", True),  # what the rule is known for
        ("Left ventricle", "the left ventricle.", True),
        ("left-ventricle", "left ventricle", True),
        ("left ventricle", "left ventricles", False),
        ("left ventricle wall", "left ventricle", False),
        ("two of them", "2 of them", True),
        ("1,000 people", "1000 people", True),
        (".5 mg", "5 mg", False),
        ("<5", ">5", False),
        ("a", "the", False),
        ("A", "a", True),
        ("?", "!", False),
        ("", "x", False),
        ("one hundred", "100", False),
        ("5 and 6", "5", False),
        ("1e2", "100", False),
        ("nan", "1", False),
        ("inf", "1", False),
    ],
)
def test_cases_worked_by_hand(answer: str, gold: str, right: bool) -> None:
    assert relaxed_match(answer, gold) is right


def test_any_of_several_gold_answers_will_do() -> None:
    assert relaxed_match("104", ["lungs", "100"]) and not relaxed_match("106", ["lungs", "100"])
    assert not relaxed_match("x", [])


NUMBERS = st.decimals(-(10**9), 10**9, allow_nan=False, places=3)


@given(NUMBERS, NUMBERS)
def test_numbers_are_compared_exactly(answer: Decimal, gold: Decimal) -> None:
    """Against whole thousandths, in which nothing is rounded."""
    ours, theirs = int(answer * 1000), int(gold * 1000)
    assert relaxed_match(f"{answer:f}", f"{gold:f}") is (100 * abs(ours - theirs) <= 5 * abs(theirs))


@given(NUMBERS, st.booleans(), st.booleans())
def test_how_a_number_is_written_does_not_matter(value: Decimal, percent: bool, separated: bool) -> None:
    written = f"{value:,f}" if separated else f"{value:f}"
    assert number_in(f" {written}{' %' * percent}. ") == value
    assert same_answer(written + "%" * percent, f"{value:f}")


@given(st.text(max_size=40), st.text(max_size=40))
def test_the_same_is_the_same_both_ways_and_any_text_is_its_own(one: str, other: str) -> None:
    assert same_answer(one, one) and relaxed_match(one, one)
    assert same_answer(one, other) == same_answer(other, one)
    assume(number_in(other) is None)
    assert relaxed_match(one, other) == same_answer(one, other), "only numbers have a tolerance"


def test_the_answer_block_counts_where_there_is_one() -> None:
    assert answer_text("<think>12?</think> It is <answer> 5 %\n</answer>.") == "5 %"
    assert answer_text("<answer>1</answer> no: <answer><5</answer>") == "<5"
    assert answer_text("<think>12?</think> left\nventricle") == "left ventricle"
    assert answer_text("<answer>5") == "<answer>5", "never closed, so nothing is guessed"


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (FreeTextReply(id="q", reply="7", gold=("7",)), ("7", "", True)),
        (FreeTextReply(id="q", reply="7.2", gold=("7",)), ("7.2", "within_tolerance", True)),
        (FreeTextReply(id="q", reply="7.2", gold=("7", "7.2")), ("7.2", "", True)),
        (FreeTextReply(id="q", reply="8", gold=("7",)), ("8", "", False)),
        (FreeTextReply(id="q", reply="8"), ("8", "", None)),
        (FreeTextReply(id="q", reply=" ", gold=("7",)), (None, "empty", False)),
        (FreeTextReply(id="q", reply=None, gold=("7",)), (None, "no_reply", False)),
        (FreeTextReply(id="q", reply=None), (None, "no_reply", None)),
        (FreeTextReply(id="q", reply="7", gold=("7",), finish_reason="length"), (None, "truncated", False)),
        (FreeTextReply(id="q", reply="7", gold=("7",), finish_reason="stop"), ("7", "", True)),
    ],
)
def test_a_reply_is_scored_with_its_reason(reply: FreeTextReply, told: tuple[Any, ...]) -> None:
    scored = score_free_text(reply)
    assert (scored.label, scored.reason, scored.correct) == told


def written(path: Path, *lines: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def test_a_file_of_free_text_has_no_options(tmp_path: Path) -> None:
    source = written(
        tmp_path / "in.jsonl",
        {"id": 1, "reply": "41.5", "gold": 40},
        {"id": 2, "reply": "<answer>Lungs</answer>", "gold": ["the lungs", "lung"]},
        {"id": 3, "reply": "heart", "gold": "lungs", "dataset": "ChartQA"},
        {"id": 4, "reply": None, "gold": "lungs"},
        {"id": 5, "reply": "heart", "gold": None},
        {"id": 6, "reply": "0.5", "gold": 0.5},
    )
    made = score_file(source, "relaxed", tmp_path / "out.jsonl")
    assert (made.replies, made.with_gold, made.correct, made.no_reply) == (6, 5, 3, 1)
    assert made.reasons == {"no_reply": 1, "within_tolerance": 1} and made.scorer == "relaxed"
    first = json.loads((tmp_path / "out.jsonl").read_text().splitlines()[0])
    assert first == {"id": "1", "label": "41.5", "reason": "within_tolerance", "correct": True}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ({"reply": "x"}, r"line 1: field 'id'.*a line needs id and reply"),
        ({"id": "q", "reply": 5}, r"line 1: field 'reply'"),
        ({"id": "q", "reply": "x", "gold": " "}, r"line 1: field 'gold' holds no text; leave it out"),
        ({"id": "q", "reply": "x", "gold": []}, r"field 'gold' holds no text"),
        ({"id": "q", "reply": "x", "gold": True}, r"field 'gold"),
        ({"id": "q", "reply": "x", "golds": "y"}, r"unknown field 'golds'; did you mean 'gold'"),
    ],
)
def test_bad_lines_are_named(tmp_path: Path, line: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        score_file(written(tmp_path / "in.jsonl", line), "relaxed", tmp_path / "out.jsonl")
    assert not (tmp_path / "out.jsonl").exists()


def test_the_command_scores_free_text(medvrag: Any, tmp_path: Path) -> None:
    source = written(tmp_path / "in.jsonl", {"id": "q", "reply": "104%", "gold": "100"})
    done = medvrag("score", "--replies", source, "--scorer", "relaxed", "--out", tmp_path / "out.jsonl")
    assert done.code == 0 and "scorer relaxed" in done.out and "1 of 1 (100.00%)" in done.out
    refused = medvrag("score", "--replies", source, "--scorer", "kind", "--out", tmp_path / "out.jsonl")
    assert refused.code == 2 and "lenient, relaxed" in refused.err
    strict = medvrag("score", "--replies", source, "--out", tmp_path / "out.jsonl")
    assert strict.code == 2 and "field 'options'" in strict.err
