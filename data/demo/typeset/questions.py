"""Read question files and turn their anchors into page ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from medvrag_core.errors import InputError
from medvrag_core.records import Evidence, Question, Record, describe_validation_error
from medvrag_core.strict_json import read_text
from typeset.parse import load_yaml

Anchors = Mapping[str, Mapping[str, int]]
"""Article id to anchor to page number."""

_OF_ANSWERABLE = ("answer", "gold", "evidence", "hops")
_OF_ANSWERABLE_ONLY = (*_OF_ANSWERABLE, "support", "distractors", "bridge")


class QuestionSource(Record):
    """A question as its author writes it.

    ``support`` holds, for each entry of ``gold``, what the answer hangs on as it is printed there. ``distractors`` says
    of each wrong option why it is wrong; ``bridge`` is the word by which the first page leads to the second, and
    ``tempting`` names pages with a wrong answer. ``unanswerable`` says what the corpus lacks. None of these, nor
    ``rationale``, reaches a question file that systems are asked from.
    """

    id: str = Field(min_length=1)
    question: str = Field(min_length=1)
    options: Annotated[dict[str, str], Field(min_length=2)]
    answer: str = ""
    gold: tuple[str, ...] = ()
    support: tuple[str, ...] = ()
    evidence: Evidence | None = None
    hops: int | None = Field(None, ge=1)
    difficulty: Literal["easy", "medium", "hard"] | None = None
    split: Literal["dev", "test"] | None = None
    distractors: dict[str, str] = Field(default_factory=dict)
    bridge: str = ""
    tempting: tuple[str, ...] = ()
    unanswerable: str = ""
    rationale: str = ""


def read_questions(path: Path) -> list[QuestionSource]:
    """Read one question file; raises :class:`InputError` naming the file, the question and the field."""
    data = load_yaml(read_text(path), path.name)
    if not isinstance(data, list) or not data:
        raise InputError(f"{path.name}: holds no list of questions", way_out="begin each question with '- id:'")
    questions: list[QuestionSource] = []
    for number, entry in enumerate(data, 1):
        name = entry.get("id", f"number {number}") if isinstance(entry, dict) else f"number {number}"
        where = f"{path.name}, question {name}"
        try:
            question = QuestionSource.model_validate(entry)
        except ValidationError as error:
            raise InputError(f"{where}: {describe_validation_error(error)}") from None
        labels = list(question.options)
        if labels != [chr(ord("A") + place) for place in range(len(labels))]:
            raise InputError(
                f"{where}, field 'options': labels are {', '.join(labels)}", way_out="use A, B, C in order"
            )
        _check_form(question, where)
        questions.append(question)
    return questions


def _check_form(question: QuestionSource, where: str) -> None:
    if question.unanswerable:
        for name in _OF_ANSWERABLE_ONLY:
            if getattr(question, name):
                raise InputError(
                    f"{where}, field '{name}': the question is unanswerable", way_out=f"remove {name}, or unanswerable"
                )
        return
    for name in _OF_ANSWERABLE:
        if not getattr(question, name):
            raise InputError(f"{where}: field '{name}' is missing", way_out="or say under unanswerable what is lacking")
    if question.answer not in question.options:
        raise InputError(
            f"{where}, field 'answer': '{question.answer}' is not among the options",
            way_out=f"use one of {', '.join(question.options)}",
        )


def read_all(files: Iterable[Path]) -> list[tuple[str, QuestionSource]]:
    """All questions with the names of their files; ids are checked to be unique over all files."""
    owner: dict[str, str] = {}
    found: list[tuple[str, QuestionSource]] = []
    for path in files:
        for question in read_questions(path):
            if question.id in owner:
                raise InputError(
                    f"{path.name}, question {question.id}, field 'id': already used in {owner[question.id]}",
                    way_out="give each question its own id",
                )
            owner[question.id] = path.name
            found.append((path.name, question))
    return found


def resolve(question: QuestionSource, anchors: Anchors, file: str) -> Question:
    """The question with gold pages in place of anchors; raises :class:`InputError` naming the field at fault."""
    where = f"{file}, question {question.id}"
    for anchor in question.tempting:
        page_of(anchor, anchors, f"{where}, field 'tempting'")
    pages = [page_of(anchor, anchors, f"{where}, field 'gold'") for anchor in question.gold]
    distinct = tuple(dict.fromkeys(pages))
    if question.hops is not None and len(distinct) != question.hops:
        _refuse_hops(question, pages, where)
    return Question(
        id=question.id,
        question=question.question,
        options=question.options,
        answer=question.answer or None,
        gold_pages=distinct,
        evidence=question.evidence,
        hops=question.hops,
        difficulty=question.difficulty or "",
        split=question.split or "dev",
        unanswerable=bool(question.unanswerable),
    )


def page_of(anchor: str, anchors: Anchors, where: str) -> str:
    """The id of the page on which ``article#anchor`` was set; raises :class:`InputError` beginning with ``where``."""
    article, _, name = anchor.partition("#")
    if article not in anchors:
        raise InputError(f"{where}: there is no article '{article}' ('{anchor}')")
    if name not in anchors[article]:
        known = ", ".join(sorted(anchors[article]))
        raise InputError(f"{where}: article '{article}' has no anchor '{name}'", way_out=f"it has {known}")
    return f"{article}#p{anchors[article][name]}"


def _refuse_hops(question: QuestionSource, pages: list[str], where: str) -> None:
    distinct = len(set(pages))
    placed = ", ".join(f"{gold} on {page}" for gold, page in zip(question.gold, pages, strict=True))
    if distinct < len(pages):
        shared = next(page for page in pages if pages.count(page) > 1)
        raise InputError(
            f"{where}, field 'hops': is {question.hops}, but several of its anchors were set on the same page "
            f"{shared} ({placed})",
            way_out=f"write hops: {distinct}, or name an anchor on another page",
        )
    raise InputError(
        f"{where}, field 'hops': is {question.hops}, but its anchors lie on {distinct} pages ({placed})",
        way_out=f"write hops: {distinct}, or correct the field 'gold'",
    )
