"""Controls that act on questions before any stage: which of them an arm asks, and under which labels options stand."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from medvrag_core.errors import InputError
from medvrag_core.records import Question
from medvrag_core.settings import ControlSettings
from medvrag_core.systems.draws import drawn_order
from medvrag_core.systems.precedent import Precedent

_BY_PLACE = re.compile(
    r"\b(?:all|none|any|both|either|neither)\s+of\s+(?:the|these|them)\b|\b(?:of|the|listed)\s+(?:above|below)\b",
    re.IGNORECASE,
)
_BY_LABEL = re.compile(
    r"\b(?:options?|choices?)\s+\(?[a-j]\b|(?<![\w'])[a-j]\)?\s*(?:,|&|/|\band\b|\bor\b)\s*\(?[a-j]\b", re.IGNORECASE
)


def questions_of_arm(
    control: ControlSettings, questions: Sequence[Question], precedents: Mapping[str, Precedent]
) -> list[Question]:
    """The questions that an arm asks, as it asks them.

    Parameters
    ----------
    precedents : answers of ``control.iterated_in`` to all of ``questions``, by question id

    Raises
    ------
    InputError
        No question is left.
    """
    asked = [q for q in questions if not control.iterated_in or precedents[q.id].rounds > 1]
    if control.iterated_in and not asked:
        raise InputError(
            f"'{control.iterated_in}' took one round for each of the {len(questions)} questions: none is left to ask",
            way_out="ask more questions, or leave this arm out",
        )
    return [shuffled(q, control.seed) for q in asked] if control.options == "shuffled" else asked


def shuffled(question: Question, seed: int) -> Question:
    """The question with its option texts under other labels, and its gold answer with its text.

    The permutation depends on seed, question id and texts, not on the order given: shuffling twice is shuffling once.
    Options that speak of their place ("none of the above") keep it; where one speaks of labels ("both A and C") the
    question stays as it is.

    >>> options = {"A": "w", "B": "x", "C": "y", "D": "none of the above"}
    >>> other = shuffled(Question(id="q1", question="?", options=options, answer="C"), 42)
    >>> other.options["D"], other.options[other.answer], sorted(other.options.values()) == sorted(options.values())
    ('none of the above', 'y', True)
    """
    options = question.options
    if any(_BY_LABEL.search(text) for text in options.values()):
        return question
    free = [label for label, text in options.items() if not _BY_PLACE.search(text)]
    place = {text: rank for rank, text in enumerate(drawn_order({options[label] for label in free}, seed, question.id))}
    # The sort is stable: of equal texts the order given stands, and the gold answer stays with its own.
    came_from = dict(zip(free, sorted(free, key=lambda label: place[options[label]]), strict=True))
    moved = {label: options[came_from.get(label, label)] for label in options}
    answer = next((new for new, old in came_from.items() if old == question.answer), question.answer)
    return question.model_copy(update={"options": moved, "answer": answer})
