"""What is wrong with questions: repeats, options that stand twice, gold that is missing or contradicts itself.

Nothing is mended here. A fault names the questions it touches, so that they can be left out or told apart; whether a
gold answer is *medically* right, no check of this kind can tell.
"""

from __future__ import annotations

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Literal, get_args

from medvrag_core.errors import InputError
from medvrag_core.reasoning.sameness import folded
from medvrag_core.records import Question, Record

FaultKind = Literal[
    "no_gold",
    "gold_no_option",
    "blank_question",
    "blank_option",
    "too_few_options",
    "repeated_option",
    "repeated_gold_option",
    "repeated_question",
    "conflicting_gold",
    "same_words",
]
MEANING: dict[FaultKind, str] = {
    "no_gold": "no gold answer",
    "gold_no_option": "the gold answer is none of the options",
    "blank_question": "the question has no text",
    "blank_option": "an option has no text",
    "too_few_options": "fewer than two options",
    "repeated_option": "two options have one text; the gold answer is not among them",
    "repeated_gold_option": "another option has the text of the gold answer",
    "repeated_question": "the same question with the same options and the same gold answer",
    "conflicting_gold": "the same question with the same options and another gold answer",
    "same_words": "the same question with other options, or with another context",
}
SUSPECT: tuple[FaultKind, ...] = ("gold_no_option", "repeated_gold_option", "conflicting_gold")
"""Faults that make the gold answer itself doubtful."""

OptionKind = Literal["four options", "five options", "yes/no/maybe", "yes/no", "other"]


class Fault(Record):
    """One fault with the questions it touches, in the order of the file, and the sets they come from."""

    kind: FaultKind
    ids: tuple[str, ...]
    datasets: tuple[str, ...]
    detail: str

    @property
    def across_sets(self) -> bool:
        """Whether questions of more than one set are touched."""
        return len(self.datasets) > 1


class SetFacts(Record):
    """What one set is made of: options by kind, gold labels by count, and how many questions bring a context.

    ``gold`` counts answers that are options.
    """

    dataset: str
    questions: int
    option_kinds: dict[OptionKind, int]
    gold: dict[str, int]
    with_context: int

    @property
    def always_one_label(self) -> float:
        """Accuracy of answering every question with the most frequent gold label, 0 to 1."""
        return max(self.gold.values(), default=0) / self.questions


class QuestionFaults(Record):
    """Facts by set and all faults found; kinds of faults in the order of :data:`MEANING`."""

    sets: tuple[SetFacts, ...]
    faults: tuple[Fault, ...]

    def of(self, *kinds: FaultKind) -> tuple[Fault, ...]:
        """The faults of some kinds."""
        return tuple(fault for fault in self.faults if fault.kind in kinds)


def check_questions(questions: Sequence[Question]) -> QuestionFaults:
    """Look for every kind of fault within and across sets.

    Question texts are compared without letter case, spacing and punctuation: copies of a question often differ in the
    colon at the end. Options of one question are compared with their case, since ``Tt`` and ``TT`` are two genotypes.
    Questions count as the same only with the same options, in whatever order, and the same context.

    Raises
    ------
    InputError : there is no question

    Examples
    --------
    >>> question = Question(id="1", question="Dose?", options={"A": "5 mg", "B": "5 mg"}, answer="B")
    >>> check_questions([question]).faults[0].kind
    'repeated_gold_option'
    """
    if not questions:
        raise InputError("there is no question to check")
    faults = [fault for question in questions for fault in _own_faults(question)] + list(_shared_faults(questions))
    order = {kind: place for place, kind in enumerate(get_args(FaultKind))}
    by_set: dict[str, list[Question]] = defaultdict(list)
    for question in questions:
        by_set[question.dataset].append(question)
    return QuestionFaults(
        sets=tuple(_facts(name, members) for name, members in by_set.items()),
        faults=tuple(sorted(faults, key=lambda fault: order[fault.kind])),
    )


def suspect_gold(questions: Sequence[Question]) -> dict[str, str]:
    """Ids of questions whose gold answer is doubtful by the data alone, with the reason.

    >>> question = Question(id="1", question="Dose?", options={"A": "5 mg", "B": "5 mg"}, answer="B")
    >>> suspect_gold([question])
    {'1': "another option has the text of the gold answer: A and B are both '5 mg'"}
    """
    reasons: dict[str, str] = {}
    for fault in check_questions(questions).of(*SUSPECT):
        for identifier in fault.ids:
            reasons.setdefault(identifier, f"{MEANING[fault.kind]}: {fault.detail}")
    return reasons


def without_faults(questions: Sequence[Question], found: QuestionFaults) -> list[Question]:
    """The questions that can be asked, whose gold is not suspect, and of repeated ones the first.

    Repeated options beside the gold answer and questions that only share their words stay: they can be answered.
    """
    stay = ("repeated_option", "same_words", "repeated_question")
    gone = {identifier for fault in found.faults if fault.kind not in stay for identifier in fault.ids}
    for fault in found.of("repeated_question"):
        gone.update([identifier for identifier in fault.ids if identifier not in gone][1:])
    return [question for question in questions if question.id not in gone]


def option_kind(question: Question) -> OptionKind:
    """The form of a question by its options.

    >>> option_kind(Question(id="1", question="Is it?", options={"A": "Yes", "B": "no", "C": "maybe"}))
    'yes/no/maybe'
    """
    texts = {text.strip().casefold() for text in question.options.values()}
    if texts == {"yes", "no", "maybe"}:
        return "yes/no/maybe"
    if texts == {"yes", "no"}:
        return "yes/no"
    by_number: dict[int, OptionKind] = {4: "four options", 5: "five options"}
    return by_number.get(len(question.options), "other")


def _own_faults(question: Question) -> Iterator[Fault]:
    def fault(kind: FaultKind, detail: str) -> Fault:
        return Fault(kind=kind, ids=(question.id,), datasets=(question.dataset,), detail=detail)

    options, gold = question.options, question.answer
    if gold is None:
        yield fault("no_gold", "field 'answer' is missing")
    elif gold not in options:
        yield fault("gold_no_option", f"'{gold}' is not among {', '.join(options)}")
    if not question.question.strip():
        yield fault("blank_question", "field 'question' is blank")
    if len(options) < 2:
        yield fault("too_few_options", f"{len(options)} option(s)")
    if blank := [label for label, text in options.items() if not text.strip()]:
        yield fault("blank_option", f"option {', '.join(blank)}")
    labels_of: dict[str, list[str]] = defaultdict(list)
    for label, text in options.items():
        labels_of[_plain(text)].append(label)
    for text, labels in labels_of.items():
        if text and len(labels) > 1:
            both = "both" if len(labels) == 2 else "all"
            detail = f"{' and '.join(labels)} are {both} '{text}'"
            yield fault("repeated_gold_option" if gold in labels else "repeated_option", detail)


def _shared_faults(questions: Sequence[Question]) -> Iterator[Fault]:
    by_words: dict[str, dict[tuple[object, ...], list[Question]]] = defaultdict(lambda: defaultdict(list))
    for question in questions:
        if words := folded(question.question):
            options = tuple(sorted(folded(text) for text in question.options.values()))
            by_words[words][options, question.context].append(question)
    for same_words in by_words.values():
        for same in same_words.values():
            golds = {folded(q.options[q.answer]) for q in same if q.answer in q.options}
            if len(golds) > 1:
                yield _shared("conflicting_gold", same, " against ".join(map(_gold_text, same)))
            elif len(same) > 1:
                yield _shared("repeated_question", same, same[0].question)
        if len(same_words) > 1:
            members = [question for same in same_words.values() for question in same]
            yield _shared("same_words", members, members[0].question)


def _shared(kind: FaultKind, members: Sequence[Question], detail: str) -> Fault:
    datasets = tuple(dict.fromkeys(question.dataset for question in members))
    return Fault(kind=kind, ids=tuple(question.id for question in members), datasets=datasets, detail=detail)


def _gold_text(question: Question) -> str:
    return f"'{question.options[question.answer]}'" if question.answer in question.options else "none"


def _facts(name: str, members: Sequence[Question]) -> SetFacts:
    return SetFacts(
        dataset=name,
        questions=len(members),
        option_kinds=dict(Counter(map(option_kind, members)).most_common()),
        gold=dict(sorted(Counter(q.answer for q in members if q.answer in q.options).items())),
        with_context=sum(bool(q.context) for q in members),
    )


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).split())
