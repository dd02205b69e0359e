"""Question and query files: one JSON object a line; every fault names file, line and field."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from medvrag_core.errors import InputError
from medvrag_core.records import Query, Question, describe_validation_error
from medvrag_core.runs.publish import write_text
from medvrag_core.strict_json import json_lines

GOLD_PAGE = re.compile(r"\S(.*\S)?#p[1-9][0-9]*")
_R = TypeVar("_R", Question, Query)
_QUESTION_HELP = (
    "a line needs id, question, options (letter to text) and answer; gold_pages, dataset, context and sources are "
    "optional"
)


def read_questions(path: Path, *, require_answer: bool = True, usable: bool = True) -> list[Question]:
    """Read multiple-choice questions; a name that ends in ``.gz`` is unpacked on the way.

    Two forms are understood, also mixed in one file: the fields of
    :class:`~medvrag_core.records.Question`, and the form of page-annotated article
    questions (``_id``, ``text``, ``metadata``). Of the latter, ``metadata`` holds ``options``, ``answer``,
    ``evidence``, ``doc`` and ``page``; the gold page is ``doc#p<page>``. Pages of ``also_pages`` repeat the answer but
    are not what the question was written from, so they are not gold here.

    Other fields are ignored unless they look like a misspelt known one. With ``usable=False`` only the form of
    the fields is checked, so that :mod:`medvrag_core.evaluation.benchmarks.faults` can list all that is wrong.

    Raises
    ------
    InputError : the file is missing, empty, too large or not UTF-8, a line is no JSON object, a field is
        missing or unusable, the answer is no option, a gold page is not ``stem#pN``, an id repeats
    """
    questions: list[Question] = []
    seen: dict[str, int] = {}
    for line, where, data in json_lines(path):
        question = _question(data, where, require_answer=require_answer, usable=usable)
        _refuse_repeat(seen, question.id, line, where)
        questions.append(question)
    return questions


def read_queries(path: Path) -> list[Query]:
    """Read free-text queries: ``id`` (or ``_id``) and ``text`` a line; raises :class:`InputError`."""
    queries: list[Query] = []
    seen: dict[str, int] = {}
    for line, where, data in json_lines(path):
        fields = _with_text_id({"id": data.get("id", data.get("_id")), "text": data.get("text")})
        for name, value in fields.items():
            if value is None:
                raise InputError(f"{where}: field '{name}' is missing", way_out="a line needs id and text")
        query = _validated(Query, fields, where)
        _check_id(query.id, where, spaces=False)
        if not query.text.strip():
            raise InputError(f"{where}: field 'text' is empty")
        _refuse_repeat(seen, query.id, line, where)
        queries.append(query)
    return queries


def write_questions(path: Path, questions: Sequence[Question]) -> None:
    """Publish questions in the form that :func:`read_questions` reads."""
    lines = [json.dumps(q.model_dump(mode="json", exclude_defaults=True), ensure_ascii=False) for q in questions]
    write_text(path, "".join(line + "\n" for line in lines))


def question_named(questions: Sequence[Question], question_id: str) -> Question:
    """The question with this id; the first one for an empty id.

    Raises
    ------
    InputError : there is no such question, or none at all

    >>> asked = [Question(id="q1", question="?", options={"A": "x", "B": "y"})]
    >>> question_named(asked, "q1") == question_named(asked, "")
    True
    """
    for question in questions:
        if question_id in ("", question.id):
            return question
    raise InputError(
        f"there is no question '{question_id}' among {len(questions)}",
        way_out="name one of the question file, or leave it empty for the first (in chapters: -p example_id=)",
    )


def usable_question(fields: dict[str, Any], where: str, *, require_answer: bool = True) -> Question:
    """A question that a system can be asked.

    Raises
    ------
    InputError : a field is missing or unusable; the message begins with ``where`` and names the field
    """
    if require_answer and fields.get("answer") is None:
        raise InputError(f"{where}: field 'answer' is missing", way_out=_QUESTION_HELP)
    question = _validated(Question, fields, where)
    _require_usable(question, where)
    return question


def _question(data: dict[str, Any], where: str, *, require_answer: bool, usable: bool = True) -> Question:
    fields = _article_fields(data, where) if _is_article_form(data) else dict(data)
    fields = _with_text_id(fields)
    _drop_unknown(fields, where)
    if not usable:
        return _validated(Question, fields, where)
    return usable_question(fields, where, require_answer=require_answer)


def _require_usable(question: Question, where: str) -> None:
    _check_id(question.id, where, spaces=True)
    if question.dataset:
        _check_id(question.dataset, where, spaces=False, field="dataset")
    if not question.question.strip():
        raise InputError(f"{where}: field 'question' is empty")
    if len(question.options) < 2:
        raise InputError(f"{where}: field 'options' holds {len(question.options)} option(s)", way_out="give at least 2")
    for label, text in question.options.items():
        if not label.strip() or label != label.strip() or not text.strip():
            raise InputError(f"{where}: field 'options': letter '{label}' or its text is blank or padded")
    if question.answer is not None and question.answer not in question.options:
        labels = ", ".join(question.options)
        raise InputError(f"{where}: field 'answer': '{question.answer}' is not among the options {labels}")
    for page in question.gold_pages:
        if not GOLD_PAGE.fullmatch(page):
            raise InputError(
                f"{where}: field 'gold_pages': '{page}' is not a page id",
                way_out="write file stem, #p and page number from 1, as in PMC5502154#p6",
            )


def _with_text_id(fields: dict[str, Any]) -> dict[str, Any]:
    """Numbers are common as ids; they mean their digits."""
    identifier = fields.get("id")
    is_number = isinstance(identifier, int) and not isinstance(identifier, bool)
    return fields | {"id": str(identifier)} if is_number else fields


def _is_article_form(data: dict[str, Any]) -> bool:
    return "metadata" in data and "text" in data


def _article_fields(data: dict[str, Any], where: str) -> dict[str, Any]:
    metadata = data["metadata"]
    if not isinstance(metadata, dict):
        raise InputError(f"{where}: field 'metadata' must be an object")
    for name in ("options", "answer", "doc", "page"):
        if name not in metadata:
            raise InputError(f"{where}: field 'metadata.{name}' is missing")
    return {
        "id": data.get("_id", data.get("id")),
        "question": data["text"],
        "options": metadata["options"],
        "answer": metadata["answer"],
        "gold_pages": (f"{metadata['doc']}#p{metadata['page']}",),
        "evidence": metadata.get("evidence"),
    }


def _drop_unknown(fields: dict[str, Any], where: str) -> None:
    known = list(Question.model_fields)
    for name in [name for name in fields if name not in known]:
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.8)
        if near:
            raise InputError(f"{where}: unknown field '{name}'", way_out=f"did you mean '{near[0]}'?")
        del fields[name]


def _validated(record: type[_R], fields: dict[str, Any], where: str) -> _R:
    try:
        return record.model_validate(fields)
    except ValidationError as error:
        raise InputError(f"{where}: {describe_validation_error(error)}", way_out=_QUESTION_HELP) from None


def _check_id(identifier: str, where: str, *, spaces: bool, field: str = "id") -> None:
    if not 0 < len(identifier) <= 200 or identifier != identifier.strip() or not identifier.isprintable():
        raise InputError(
            f"{where}: field '{field}': {identifier!r} is no usable {field}",
            way_out="use 1 to 200 printable characters",
        )
    if not spaces and len(identifier.split()) > 1:
        raise InputError(f"{where}: field '{field}': {identifier!r} holds a space, which run files cannot hold")


def _refuse_repeat(seen: dict[str, int], identifier: str, line: int, where: str) -> None:
    if identifier in seen:
        raise InputError(f"{where}: id '{identifier}' was already used on line {seen[identifier]}")
    seen[identifier] = line
