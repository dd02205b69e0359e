"""Shuffled options: a permutation that keeps gold answer, places that mean something, and itself."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from medvrag_core.records import Question
from medvrag_core.systems.question_controls import shuffled

TEXTS = st.lists(st.text("abcde fgh", min_size=1, max_size=6), min_size=2, max_size=7)


@st.composite
def questions(draw: st.DrawFn, texts: st.SearchStrategy[list[str]] = TEXTS) -> Question:
    """Options may repeat."""
    options = dict(zip("ABCDEFG", draw(texts), strict=False))
    answer = draw(st.sampled_from([None, *options]))
    return Question(id=draw(st.text(max_size=5)), question="?", options=options, answer=answer)


@given(questions(), st.integers(0, 9))
def test_it_is_a_permutation_that_keeps_the_gold_text(question: Question, seed: int) -> None:
    other = shuffled(question, seed)
    assert list(other.options) == list(question.options)
    assert sorted(other.options.values()) == sorted(question.options.values())
    assert (other.answer is None) == (question.answer is None)
    if question.answer is not None and other.answer is not None:
        assert other.options[other.answer] == question.options[question.answer]
    assert other.model_copy(update={"options": question.options, "answer": question.answer}) == question


@given(questions(), st.integers(0, 9))
def test_shuffling_twice_is_shuffling_once(question: Question, seed: int) -> None:
    """So a stored question can be replayed."""
    once = shuffled(question, seed)
    assert shuffled(once, seed) == once


@given(questions(st.lists(st.text("abcdefgh", min_size=2, max_size=6), min_size=2, max_size=6, unique=True)), st.data())
def test_the_order_given_does_not_matter(question: Question, data: st.DataObject) -> None:
    """The shuffled question is the same whatever the order its options came in."""
    texts = data.draw(st.permutations(list(question.options.values())))
    options = dict(zip(question.options, texts, strict=True))
    gold = question.options.get(question.answer or "")
    answer = next((label for label, text in options.items() if text == gold), None)
    moved = question.model_copy(update={"options": options, "answer": answer})
    assert shuffled(moved, 42) == shuffled(question, 42)


def test_every_place_is_as_likely() -> None:
    """Over 2,400 questions each text comes to each place about 600 times; five standard deviations are 106."""
    options = {"A": "one", "B": "two", "C": "three", "D": "four"}
    counts = dict.fromkeys(((label, text) for label in options for text in options.values()), 0)
    for number in range(2_400):
        for place in shuffled(Question(id=str(number), question="?", options=options), 42).options.items():
            counts[place] += 1
    assert all(abs(count - 600) < 106 for count in counts.values())


def test_the_seed_and_the_question_change_it() -> None:
    options = dict(zip("ABCDEFGH", "stuvwxyz", strict=True))
    orders = {
        tuple(shuffled(Question(id=name, question="?", options=options), seed).options.values())
        for name in ("q1", "q2")
        for seed in (1, 2)
    }
    assert len(orders) == 4


def test_options_that_speak_of_their_place_keep_it() -> None:
    for last in ("None of the above", "All of the above.", "both of these", "Any of them"):
        for number in range(20):
            options = {"A": "w", "B": "x", "C": "y", "D": last}
            assert shuffled(Question(id=str(number), question="?", options=options), 42).options["D"] == last


def test_a_question_whose_options_name_labels_stays_as_it_is() -> None:
    for text in ("Both A and C", "a & b", "Option B only", "A, B and D", "(a) or (b)"):
        question = Question(id="q", question="?", options={"A": "w", "B": "x", "C": "y", "D": text}, answer="C")
        assert all(shuffled(question, seed) == question for seed in range(20))


def test_numbers_and_comparisons_are_no_labels() -> None:
    options = {"A": "above 140 mmHg", "B": "below 120 mmHg", "C": "p < 0.05", "D": "a fever"}
    orders = {tuple(shuffled(Question(id="q", question="?", options=options), seed).options) for seed in range(9)}
    texts = {
        tuple(shuffled(Question(id="q", question="?", options=options), seed).options.values()) for seed in range(9)
    }
    assert len(orders) == 1 and len(texts) > 4


def test_all_questions_of_mirage_keep_their_gold_text_and_nearly_all_are_shuffled(shared_data: Path) -> None:
    path = shared_data / "benchmarks" / "mirage" / "benchmark.json.gz"
    sets = json.loads(gzip.decompress(path.read_bytes()))
    asked = [
        Question(id=f"{name}:{i}", question=q["question"], options=q["options"], answer=q["answer"])
        for name, questions in sets.items()
        for i, q in questions.items()
    ]
    for question in asked:
        other = shuffled(question, 42)
        assert other.options[other.answer or ""] == question.options[question.answer or ""]
    still = sum(all(shuffled(question, seed) == question for seed in range(6)) for question in asked)
    assert len(asked) == 7_663 and still < 0.03 * len(asked)
