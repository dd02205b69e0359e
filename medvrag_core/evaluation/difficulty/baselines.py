"""Answers that need no reading: what a set of questions gives away by letters, lengths and words of its options.

Such a rule should stand at the guessing level; one that stands above it says that the options tell the answer.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from statistics import fmean

from pydantic import Field

from medvrag_core.errors import InputError
from medvrag_core.evaluation.statistics.shares import Share, share_of
from medvrag_core.records import Question, Record
from medvrag_core.settings import EvaluationSettings

_WORD = re.compile(r"[^\W_]+")


class Baseline(Record):
    """How often a rule that reads no page, and no question, is right."""

    name: str
    rule: str
    right: Share
    chance: float = Field(description="expected share of a guess, mean of 1 / options")
    p_value: float = Field(description="exact binomial test against that share, two-sided")


def baselines(
    questions: Sequence[Question], settings: EvaluationSettings, *, seen: Sequence[Question]
) -> list[Baseline]:
    """The rules on ``questions``; what a rule must know of answers it learns from ``seen``, which are others.

    Raises
    ------
    InputError : a list is empty, a question has no answer, or one stands in both lists
    """
    if not questions or not seen or any(question.answer is None for question in (*questions, *seen)):
        raise InputError("baselines need questions with answers, some to learn from and others to be tried on")
    if both := {question.id for question in questions} & {question.id for question in seen}:
        raise InputError(f"question '{min(both)}' would be learned from and tried on")
    letters = Counter(question.answer for question in seen)
    letter = min(letters, key=lambda name: (-letters[name], str(name)))
    rules: list[tuple[str, str, Callable[[Question], str]]] = [
        (
            "most frequent letter",
            f"always {letter}, the most frequent answer of other questions",
            lambda question: str(letter) if letter in question.options else next(iter(question.options)),
        ),
        ("longest option", "the option with the most characters; of several the first", longest_option),
        ("shortest option", "the option with the fewest characters; of several the first", shortest_option),
        ("most like the others", "the option that shares most words with the other options", central_option),
    ]
    return [_tried(name, rule, choose, questions, settings) for name, rule, choose in rules]


def longest_option(question: Question) -> str:
    """Label of the option with the most characters.

    >>> longest_option(Question(id="q", question="?", options={"A": "5 mg", "B": "10 mg"}))
    'B'
    """
    return max(question.options, key=lambda label: len(question.options[label]))


def shortest_option(question: Question) -> str:
    """Label of the option with the fewest characters."""
    return min(question.options, key=lambda label: len(question.options[label]))


def central_option(question: Question) -> str:
    """Label of the option whose words the other options have most: distractors are made from the answer, people say.

    >>> central_option(Question(id="q", question="?", options={"A": "iron", "B": "oral iron", "C": "oral zinc"}))
    'B'
    """
    words = {label: set(_WORD.findall(text.lower())) for label, text in question.options.items()}

    def shared(label: str) -> float:
        others = [other for name, other in words.items() if name != label]
        return fmean(len(words[label] & other) / max(1, len(words[label] | other)) for other in others)

    return max(question.options, key=shared)


def _tried(
    name: str, rule: str, choose: Callable[[Question], str], questions: Sequence[Question], settings: EvaluationSettings
) -> Baseline:
    from scipy.stats import binomtest

    right = sum(choose(question) == question.answer for question in questions)
    chance = fmean(1 / len(question.options) for question in questions)
    return Baseline(
        name=name,
        rule=rule,
        right=share_of(right, len(questions), confidence=settings.confidence),
        chance=chance,
        p_value=float(binomtest(right, len(questions), chance).pvalue),
    )
