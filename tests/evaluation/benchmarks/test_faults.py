"""Faults of questions: each kind is found, nothing else is, and what the real sets hold is told exactly."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvrag_core.errors import InputError
from medvrag_core.evaluation.benchmarks.faults import (
    MEANING,
    FaultKind,
    QuestionFaults,
    check_questions,
    option_kind,
    suspect_gold,
    without_faults,
)
from medvrag_core.evaluation.benchmarks.load import load_sets
from medvrag_core.records import Question

OPTIONS = {"A": "5 mg", "B": "10 mg", "C": "15 mg", "D": "20 mg"}
GOOD = Question(id="1", question="Which dose?", options=OPTIONS, answer="B", dataset="medqa")


def changed(number: int, **fields: Any) -> Question:
    return GOOD.model_copy(update={"id": str(number), "question": f"Which dose, {number}?"} | fields)


def kinds(*questions: Question) -> list[tuple[str, tuple[str, ...]]]:
    return [(fault.kind, fault.ids) for fault in check_questions(questions).faults]


def test_every_kind_has_a_meaning() -> None:
    assert tuple(MEANING) == get_args(FaultKind)


def test_sound_questions_have_no_fault() -> None:
    assert kinds(*(changed(n) for n in range(5))) == []
    with pytest.raises(InputError, match="no question"):
        check_questions([])


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"answer": None}, "no_gold"),
        ({"answer": "E"}, "gold_no_option"),
        ({"question": " \n"}, "blank_question"),
        ({"options": OPTIONS | {"C": " "}}, "blank_option"),
        ({"options": {"B": "10 mg"}}, "too_few_options"),
        ({"options": OPTIONS | {"C": "20  mg "}}, "repeated_option"),
        ({"options": OPTIONS | {"C": "10 mg"}}, "repeated_gold_option"),
    ],
)
def test_a_fault_of_one_question(fields: dict[str, Any], kind: str) -> None:
    assert kinds(GOOD, changed(2, **fields)) == [(kind, ("2",))]
    assert ("2" in suspect_gold([GOOD, changed(2, **fields)])) == (kind in ("gold_no_option", "repeated_gold_option"))


def test_genotypes_that_differ_in_case_are_different_options() -> None:
    assert kinds(changed(1, options={"A": "TT", "B": "Tt", "C": "tt"})) == []


TWIN = {"question": "WHICH  dose:"}


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({}, "repeated_question"),
        ({"options": {"A": "10 mg", "B": "5 MG", "C": "20 mg", "D": "15 mg"}, "answer": "A"}, "repeated_question"),
        ({"answer": None}, "repeated_question"),
        ({"answer": "A"}, "conflicting_gold"),
        ({"options": {"A": "10 mg", "B": "5 mg", "C": "20 mg", "D": "15 mg"}}, "conflicting_gold"),
        ({"options": OPTIONS | {"D": "25 mg"}}, "same_words"),
        ({"context": "Given at night."}, "same_words"),
        ({"context": "Given at night.", "answer": "A"}, "same_words"),
    ],
)
@pytest.mark.parametrize("dataset", ["medqa", "mmlu"])
def test_a_question_that_comes_again(fields: dict[str, Any], kind: str, dataset: str) -> None:
    twin = changed(2, **{**TWIN, "dataset": dataset, **fields})
    found = check_questions([GOOD, twin])
    (fault,) = [fault for fault in found.faults if fault.kind != "no_gold"]
    assert (fault.kind, fault.ids, fault.across_sets) == (kind, ("1", "2"), dataset == "mmlu")
    assert fault.datasets == tuple(dict.fromkeys(("medqa", dataset)))
    assert set(suspect_gold([GOOD, twin])) == ({"1", "2"} if kind == "conflicting_gold" else set())


def test_a_conflict_says_what_stands_against_what() -> None:
    reasons = suspect_gold([GOOD, changed(2, **TWIN, answer="D"), changed(3)])
    assert reasons == dict.fromkeys(
        "12", "the same question with the same options and another gold answer: '10 mg' against '20 mg'"
    )


def test_what_is_kept_can_be_asked_and_is_asked_once() -> None:
    asked = [
        changed(0, **TWIN, answer=None),
        GOOD,
        changed(2, **TWIN),
        changed(3, answer=None),
        changed(4, options=OPTIONS | {"C": "10 mg"}),
        changed(5, options=OPTIONS | {"D": "15 mg"}),
        changed(6, question="Which dose?", options=OPTIONS | {"D": "25 mg"}),
        changed(7, question="Which day?"),
        changed(8, question="Which day?", answer="A"),
    ]
    assert [q.id for q in without_faults(asked, check_questions(asked))] == ["1", "5", "6"]


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["Yes", "no"], "yes/no"),
        (["maybe", "NO", "yes "], "yes/no/maybe"),
        (["a", "b", "c", "d"], "four options"),
        (["a", "b", "c", "d", "e"], "five options"),
        (["yes", "no", "maybe", "never"], "four options"),
        (["yes", "perhaps"], "other"),
    ],
)
def test_kinds_of_options(texts: list[str], kind: str) -> None:
    question = GOOD.model_copy(update={"options": dict(zip("ABCDE", texts, strict=False))})
    assert option_kind(question) == kind
    (facts,) = check_questions([question]).sets
    assert facts.option_kinds == {kind: 1}


questions = st.lists(
    st.builds(
        Question,
        id=st.uuids().map(str),
        question=st.sampled_from(["Which?", "which", "Why?", " "]),
        options=st.dictionaries(st.sampled_from("ABC"), st.sampled_from(["x", "y", "X", ""]), max_size=3),
        answer=st.sampled_from(["A", "B", "C", None]),
        dataset=st.sampled_from(["medqa", "mmlu", ""]),
        context=st.sampled_from(["", "c"]),
    ),
    min_size=1,
    max_size=8,
)


@given(asked=questions)
def test_any_questions_are_counted_whole_and_what_is_kept_is_sound(asked: list[Question]) -> None:
    found = check_questions(asked)
    assert sum(facts.questions for facts in found.sets) == len(asked)
    for facts in found.sets:
        assert sum(facts.option_kinds.values()) == facts.questions
        assert sum(facts.gold.values()) <= facts.questions and 0 <= facts.always_one_label <= 1
    assert QuestionFaults.from_json(found.to_json()) == found
    kept = without_faults(asked, found)
    if kept:
        left = {fault.kind for fault in check_questions(kept).faults}
        assert left <= {"repeated_option", "same_words"}
    # What is left out has a fault of its own, or is a copy of what is kept, or of what is left out.
    assert {q.id for q in asked} - {q.id for q in kept} <= {i for fault in found.faults for i in fault.ids}
    assert set(suspect_gold(asked)).isdisjoint(q.id for q in kept)


def test_the_faults_of_mirage(asked: list[Question], found: QuestionFaults) -> None:
    assert Counter((fault.kind, *fault.datasets) for fault in found.faults) == {
        ("repeated_option", "medmcqa"): 17,
        ("repeated_gold_option", "medmcqa"): 4,
        ("repeated_question", "medmcqa"): 12,
        ("repeated_question", "mmlu"): 78,
        ("repeated_question", "bioasq"): 3,
        ("conflicting_gold", "medmcqa"): 1,
        ("same_words", "medmcqa"): 7,
        ("same_words", "mmlu"): 1,
        ("same_words", "medmcqa", "mmlu"): 1,
    }
    assert {len(fault.ids) for fault in found.of("repeated_question", "conflicting_gold")} == {2}
    pairs = [fault.ids for fault in found.of("repeated_question") if fault.datasets == ("mmlu",)]
    subjects = Counter(tuple(name.partition("-")[0] for name in pair) for pair in pairs)
    assert subjects == {("clinical_knowledge", "college_medicine"): 78}
    assert len(suspect_gold(asked)) == 6
    assert len(without_faults(asked, found)) == 7_663 - 6 - 93
    (doxycycline,) = found.of("conflicting_gold")
    assert doxycycline.detail == "'20 mg doxycycline' against '60 mg doxycycline'"


def test_both_settings_of_pubmedqa_share_their_words_and_nothing_else(real: Path) -> None:
    both = [q for name in ("pubmedqa", "pubmedqa_abstract") for q in load_sets([name], real)]
    found = check_questions(both)
    assert [fault.kind for fault in found.faults] == ["same_words"] * 500
    assert all(fault.across_sets for fault in found.faults)
    assert [facts.with_context for facts in found.sets] == [0, 500]
