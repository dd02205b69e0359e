"""Relaxed exact match for answers in free text, as chart and plot questions are scored (VisRAG, section 3.3).

A number is right within 5 % of the gold number (Masry et al. 2022, Methani et al. 2020); any other text must be the
gold text, letter case, articles and punctuation aside. Percent signs and thousands separators are no part of a number,
and the words zero to ten are numbers, as in VisRAG's own evaluation; ChartQA's script instead takes "5%" for 0.05. A
gold of 0 has no 5 %: only 0 is right.

The rule is generous where numbers are names: within 5 % of the year 2010 lies 1950. So it is for files of answers to
such questions (``medvrag score --scorer relaxed``), and never for options.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from pydantic import Field, field_validator

from medvrag_core.evaluation.scorers.base import ScoredReply, end_of
from medvrag_core.models.reply_text import without_reasoning
from medvrag_core.reasoning.replies import tagged
from medvrag_core.reasoning.sameness import folded
from medvrag_core.records import Record

TOLERANCE = Decimal("0.05")
"""Of the gold number; decimal, so that 1.05 is within 5 % of 1."""

_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NUMBER_WORDS = {word: str(value) for value, word in enumerate(_WORDS)}
_ARTICLES = frozenset({"a", "an", "the"})
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_BARE_POINT = re.compile(r"(?<!\d)\.(?=\d)")
_NUMBER = re.compile(r"([+-]?)\s?((?:\d{1,30}(?:\.\d{0,30})?|\.\d{1,30}))\s?(?:%|percent|per cent)?")
_RAISED = {ord(sign): f" {value}" for signs in ("⁰¹²³⁴⁵⁶⁷⁸⁹", "₀₁₂₃₄₅₆₇₈₉") for value, sign in enumerate(signs)}
_WRAPPERS = " \t\r\n*_`\"'“”‘’"


class FreeTextReply(Record):
    """One raw reply to a question without options.

    ``reply`` is null where a fault left none; ``gold`` are the answers that count as right, in a file also one of them,
    a text or a number, or null.
    """

    id: str
    reply: str | None
    gold: tuple[str, ...] | None = Field(None, description="texts; a file may also give one, or a number")
    finish_reason: str | None = None

    @field_validator("gold", mode="before")
    @classmethod
    def _as_texts(cls, value: Any) -> Any:
        given = value if isinstance(value, list | tuple) else [value]
        texts = tuple(str(one) if isinstance(one, int | float) and not isinstance(one, bool) else one for one in given)
        return None if value is None else texts


def score_free_text(reply: FreeTextReply) -> ScoredReply:
    """Score one reply; its answer block counts where it has one, else all of it.

    The ``label`` is the answer as it was read. ``reason`` is ``within_tolerance`` for a number that is right by the
    5 % alone, and where there is no answer as for the other scorers.

    >>> score_free_text(FreeTextReply(id="q", reply="<answer>1,040</answer>", gold=("1000",))).reason
    'within_tolerance'
    """
    text = None if reply.reply is None else answer_text(reply.reply)
    reason = "no_reply" if text is None else end_of(reply.finish_reason) or ("" if text else "empty")
    if text is None or reason:
        right = False if reply.gold is not None else None
        return ScoredReply(id=reply.id, label=None, reason=reason, correct=right)
    if reply.gold is None:
        return ScoredReply(id=reply.id, label=text, reason="", correct=None)
    exact = any(same_answer(text, gold) for gold in reply.gold)
    near = not exact and any(within_tolerance(text, gold) for gold in reply.gold)
    return ScoredReply(id=reply.id, label=text, reason="within_tolerance" if near else "", correct=exact or near)


def relaxed_match(answer: str, gold: str | Sequence[str]) -> bool:
    """Whether an answer is one of the gold answers, or a number within 5 % of one.

    >>> relaxed_match("1.05", "1"), relaxed_match("1.06", "1"), relaxed_match("The left ventricle.", "left ventricle")
    (True, False, True)
    """
    golds = [gold] if isinstance(gold, str) else gold
    return any(same_answer(answer, one) or within_tolerance(answer, one) for one in golds)


def same_answer(answer: str, gold: str) -> bool:
    """Whether two texts are the same number or, normalized, the same words; symmetric."""
    ours, theirs = number_in(answer), number_in(gold)
    if ours is not None and theirs is not None:
        return ours == theirs
    return normalized(answer) == normalized(gold)


def within_tolerance(answer: str, gold: str) -> bool:
    """Whether both are numbers, and the answer is within 5 % of the gold one; not symmetric."""
    ours, theirs = number_in(answer), number_in(gold)
    return ours is not None and theirs is not None and abs(ours - theirs) <= TOLERANCE * abs(theirs)


def number_in(text: str) -> Decimal | None:
    """The number that a text is, and is nothing else than; None for a number with a unit.

    >>> number_in("1,234.5 %"), number_in("-.5"), number_in("Seven"), number_in("5 mg")
    (Decimal('1234.5'), Decimal('-0.5'), Decimal('7'), None)
    """
    plain = text.casefold().replace("−", "-").strip(_WRAPPERS).rstrip(".,;:!")
    found = _NUMBER.fullmatch(_THOUSANDS.sub("", _NUMBER_WORDS.get(plain, plain)))
    return None if found is None else Decimal(found.group(1) + found.group(2))


def normalized(text: str) -> str:
    """Words of a text without letter case, articles and punctuation; numbers keep their value and signs.

    >>> normalized("The Lungs, and a kidney"), normalized("One of 1,000")
    ('lungs and kidney', '1 of 1000')
    """
    # Raised digits apart, which would else make 102 of ten squared.
    words = folded(_BARE_POINT.sub("0.", _THOUSANDS.sub("", text.translate(_RAISED)))).split()
    # An answer that is an article, such as the letter of an option, is kept.
    kept = [word for word in words if word not in _ARTICLES] or words
    return " ".join(_NUMBER_WORDS.get(word, word) for word in kept) or " ".join(text.split())


def answer_text(reply: str) -> str:
    """What a reply answers: its last answer block, or without one the whole of it, reasoning aside."""
    spoken = without_reasoning(reply)
    closed, _ = tagged(spoken, "answer")
    return " ".join((closed[-1] if closed else spoken).split())
