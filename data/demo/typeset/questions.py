"""Read question files and turn their anchors into page ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError

from medvrag_core.errors import InputError
from medvrag_core.records import Evidence, Question, Record, describe_validation_error
from typeset.parse import load_yaml

Anchors = Mapping[str, Mapping[str, int]]
"""Article id to anchor to page number."""


class QuestionSource(Record):
    """A question as its author writes it; ``rationale`` is for reviewers only."""

    id: str = Field(min_length=1)
    question: str = Field(min_length=1)
    options: Annotated[dict[str, str], Field(min_length=2)]
    answer: str
    gold: tuple[str, ...] = Field(min_length=1)
    evidence: Evidence
    hops: int = Field(ge=1)
    rationale: str = ""


def read_questions(path: Path) -> list[QuestionSource]:
    """Read one question file; raises :class:`InputError` naming the file, the question and the field."""
    data = load_yaml(path.read_text(encoding="utf-8"), path.name)
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
        if question.answer not in question.options:
            raise InputError(
                f"{where}, field 'answer': '{question.answer}' is not among the options",
                way_out=f"use one of {', '.join(labels)}",
            )
        questions.append(question)
    return questions


def resolve_all(files: Iterable[Path], anchors: Anchors) -> list[Question]:
    """All questions of ``files`` with gold pages; ids are checked to be unique over all files."""
    owner: dict[str, str] = {}
    resolved: list[Question] = []
    for path in files:
        for question in read_questions(path):
            if question.id in owner:
                raise InputError(
                    f"{path.name}, question {question.id}, field 'id': already used in {owner[question.id]}",
                    way_out="give each question its own id",
                )
            owner[question.id] = path.name
            resolved.append(_resolve(question, anchors, path.name))
    return resolved


def _resolve(question: QuestionSource, anchors: Anchors, file: str) -> Question:
    where = f"{file}, question {question.id}"
    pages: list[str] = []
    for gold in question.gold:
        article, _, anchor = gold.partition("#")
        if article not in anchors:
            raise InputError(f"{where}, field 'gold': there is no article '{article}' ('{gold}')")
        if anchor not in anchors[article]:
            known = ", ".join(sorted(anchors[article]))
            raise InputError(
                f"{where}, field 'gold': article '{article}' has no anchor '{anchor}'", way_out=f"it has {known}"
            )
        pages.append(f"{article}#p{anchors[article][anchor]}")
    distinct = tuple(dict.fromkeys(pages))
    if len(distinct) != question.hops:
        placed = ", ".join(f"{gold} on {page}" for gold, page in zip(question.gold, pages, strict=True))
        if len(distinct) < len(pages):
            shared = next(page for page in pages if pages.count(page) > 1)
            raise InputError(
                f"{where}, field 'hops': is {question.hops}, but several of its anchors were set on the same page "
                f"{shared} ({placed})",
                way_out=f"write hops: {len(distinct)}, or name an anchor on another page",
            )
        raise InputError(
            f"{where}, field 'hops': is {question.hops}, but its anchors lie on {len(distinct)} pages ({placed})",
            way_out=f"write hops: {len(distinct)}, or correct the field 'gold'",
        )
    return Question(
        id=question.id,
        question=question.question,
        options=question.options,
        answer=question.answer,
        gold_pages=distinct,
        evidence=question.evidence,
        hops=question.hops,
    )
