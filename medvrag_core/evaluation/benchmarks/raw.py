"""The five sets of MIRAGE from the files in which their authors published them.

Ids, order, texts and answers are those that MIRAGE's own ``rawdata/build.py`` makes of the same files, so that results
can be joined with anybody's. Contexts and snippets are left out but for the set that is named after them: in MIRAGE a
system has to find the evidence itself.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from medvrag_core.errors import InputError
from medvrag_core.evaluation.questions import usable_question
from medvrag_core.records import Question
from medvrag_core.strict_json import json_lines, read_text, strict_json

LETTERS = "ABCD"
YES_NO_MAYBE = {"A": "yes", "B": "no", "C": "maybe"}
YES_NO = {"A": "yes", "B": "no"}


def read_medqa(path: Path) -> list[Question]:
    """MedQA-US: JSON lines with ``question``, ``options``, ``answer_idx``; ids are places in the file, ``0000`` on.

    Raises
    ------
    InputError : a field is missing or unusable, or ``answer`` is not the text of the option ``answer_idx``
    """
    questions = []
    for place, (_, where, row) in enumerate(json_lines(path)):
        letter, options = _text(row, "answer_idx", where), row.get("options")
        fields = {"id": f"{place:04d}", "question": _text(row, "question", where), "options": options, "answer": letter}
        question = usable_question(fields | {"dataset": "medqa"}, where)
        if question.options[letter] != row.get("answer"):
            raise InputError(f"{where}: field 'answer' is not the text of option {letter}, which 'answer_idx' names")
        questions.append(question)
    return questions


def read_medmcqa(path: Path) -> list[Question]:
    """MedMCQA: JSON lines with ``question``, ``opa`` … ``opd``, ``cop``, ``id``.

    ``cop`` counts from 1 in the original files and from 0 in some copies (medmcqa/medmcqa#9). Which it is, is read
    off the whole file: read wrongly, every gold answer would be another one and nothing would look broken.

    Raises
    ------
    InputError : a field is missing or unusable, ``cop`` is missing or -1 as in the test split, or the file holds
        neither a 0 nor a 4, so that both readings are possible
    """
    rows = [(where, row) for _, where, row in json_lines(path)]
    first = _first_number([_option_number(row, where) for where, row in rows], path)
    questions = []
    for where, row in rows:
        fields = {
            "id": _text(row, "id", where),
            "question": _text(row, "question", where),
            "options": {letter: _text(row, f"op{letter.lower()}", where) for letter in LETTERS},
            "answer": LETTERS[row["cop"] - first],
            "dataset": "medmcqa",
        }
        questions.append(usable_question(fields, where))
    return questions


def read_pubmedqa(path: Path, truth: Path | None = None, *, abstract: bool = False) -> list[Question]:
    """PubMedQA: an object from PMID to ``QUESTION``, ``CONTEXTS``, ``final_decision``.

    Parameters
    ----------
    path : the test items, or all labelled items
    truth : the official answers of the test items, an object from PMID to yes, no or maybe; names the items to take
    abstract : give each question the abstract as its context. That is another task than MIRAGE's and bears the name
        ``pubmedqa_abstract``. The conclusion (``LONG_ANSWER``), which gives the answer away, is never part of it

    Raises
    ------
    InputError : a field is missing or unusable, an item of ``truth`` is missing or labelled otherwise, or a context
        holds the conclusion
    """
    items = read_object(path)
    wanted = dict.fromkeys(items) if truth is None else read_object(truth)
    questions = []
    for pmid, official in wanted.items():
        where = f"{path}, item {pmid}"
        if pmid not in items:
            raise InputError(f"{truth}: item {pmid} is not in {path}", way_out="take both files from one source")
        item = as_object(items[pmid], where)
        decision = _text(item, "final_decision", where)
        if official not in (None, decision):
            raise InputError(f"{where}: field 'final_decision' is '{decision}', {truth} says '{official}'")
        fields = {
            "id": pmid,
            "question": _text(item, "QUESTION", where),
            "options": YES_NO_MAYBE,
            "answer": _letter(decision, YES_NO_MAYBE, f"{where}: field 'final_decision'"),
            "dataset": "pubmedqa_abstract" if abstract else "pubmedqa",
            "context": _abstract(item, where) if abstract else "",
            "sources": pmids([pmid], where),
        }
        questions.append(usable_question(fields, where))
    return questions


def read_mmlu(paths: Sequence[Path]) -> list[Question]:
    """MMLU: files ``<subject>_test.csv`` without a header: question, four options, letter.

    The id is the subject and the place in its file, ``anatomy-000`` on. Raises InputError for a row without six cells.
    """
    questions = []
    for path in paths:
        subject = path.name.partition("_test.csv")[0]
        rows = csv.reader(io.StringIO(read_text(path), newline=""), strict=True)
        try:
            for place, row in enumerate(rows):
                where = f"{path}, line {rows.line_num}"
                if len(row) != 6:
                    raise InputError(f"{where}: has {len(row)} cells", way_out="needs question, A, B, C, D, answer")
                fields = {
                    "id": f"{subject}-{place:03d}",
                    "question": row[0],
                    "options": dict(zip(LETTERS, row[1:5], strict=True)),
                    "answer": row[5],
                    "dataset": "mmlu",
                }
                questions.append(usable_question(fields, where))
        except csv.Error as error:
            raise InputError(f"{path}, line {rows.line_num}: not valid CSV ({error})") from None
    return questions


def read_bioasq(paths: Sequence[Path]) -> list[Question]:
    """BioASQ golden files: the yes/no questions, each id once.

    Raises
    ------
    InputError : a field is missing or unusable, an answer is neither yes nor no, or an id comes back with another text
        or answer
    """
    questions: dict[str, Question] = {}
    for path in paths:
        rows = read_object(path).get("questions")
        if not isinstance(rows, list):
            raise InputError(f"{path}: field 'questions' must be a list", way_out="give a BioASQ golden file")
        for place, row in enumerate(rows):
            where = f"{path}, question {place}"
            if _text(as_object(row, where), "type", where) != "yesno":
                continue
            said = _text(row, "exact_answer", where).lower()
            fields = {
                "id": _text(row, "id", where),
                "question": _text(row, "body", where),
                "options": YES_NO,
                "answer": _letter(said, YES_NO, f"{where}: field 'exact_answer'"),
                "dataset": "bioasq",
                "sources": pmids(row.get("documents", []), f"{where}: field 'documents'"),
            }
            question = usable_question(fields, where)
            if questions.setdefault(question.id, question) != question:
                raise InputError(f"{where}: id '{question.id}' was used before with another text or answer")
    return list(questions.values())


def _option_number(row: dict[str, Any], where: str) -> int:
    number = row.get("cop")
    if number in (None, -1):
        raise InputError(f"{where}: field 'cop' gives no answer", way_out="the test split has none; take dev.json")
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= 4:
        raise InputError(f"{where}: field 'cop' must be a number from 1 to 4 (or 0 to 3 throughout), found {number!r}")
    return number


def _first_number(numbers: Sequence[int], path: Path) -> int:
    """What the first option is called in a file of option numbers, 0 or 1."""
    seen = set(numbers)
    if {0, 4} <= seen:
        raise InputError(f"{path}: field 'cop' is 0 in some lines and 4 in others", way_out="do not mix copies")
    if not {0, 4} & seen:
        raise InputError(
            f"{path}: field 'cop' is never 0 and never 4, so it may count from 0 or from 1",
            way_out="give the whole file, cut it after the conversion",
        )
    return 0 if 0 in seen else 1


def _abstract(item: dict[str, Any], where: str) -> str:
    """The sections of the abstract, a blank line between them, without the conclusion."""
    sections = item.get("CONTEXTS")
    if not isinstance(sections, list) or not all(isinstance(s, str) and s.strip() for s in sections) or not sections:
        raise InputError(f"{where}: field 'CONTEXTS' must be a list of texts")
    context = "\n\n".join(sections)
    conclusion = item.get("LONG_ANSWER")
    if isinstance(conclusion, str) and conclusion.strip() and conclusion.strip() in context:
        raise InputError(f"{where}: field 'CONTEXTS' holds the conclusion", way_out="take it out: it is the answer")
    return context


def _letter(said: str, options: dict[str, str], what: str) -> str:
    for letter, text in options.items():
        if text == said:
            return letter
    raise InputError(f"{what}: '{said}' is none of {', '.join(options.values())}")


def pmids(ids: Any, where: str) -> tuple[str, ...]:
    """PubMed ids of articles, written as numbers or as addresses that end in one, as ids of ``Question.sources``.

    Raises
    ------
    InputError : there is no list of such ids

    >>> pmids([12377809, "http://www.ncbi.nlm.nih.gov/pubmed/28293123", "28293123"], "here")
    ('PMID:12377809', 'PMID:28293123')
    """
    found = (
        [re.fullmatch(r"(?:https?://\S*/)?0*([1-9]\d{0,8})/?", str(i)) for i in ids]
        if isinstance(ids, list)
        else [None]
    )
    if None in found:
        raise InputError(
            f"{where}: holds something that is no PubMed id", way_out="give a list of numbers or addresses"
        )
    return tuple(dict.fromkeys(f"PMID:{match.group(1)}" for match in found if match is not None))


def read_object(path: Path) -> dict[str, Any]:
    """A file that holds one JSON object; raises InputError."""
    return as_object(strict_json(read_text(path), str(path), way_out="give a file as it was published"), str(path))


def as_object(value: Any, where: str) -> dict[str, Any]:
    """A JSON object as it is; InputError for anything else."""
    if not isinstance(value, dict):
        raise InputError(f"{where}: must be a JSON object, found {type(value).__name__}")
    return value


def _text(row: dict[str, Any], name: str, where: str) -> str:
    value = row.get(name)
    if not isinstance(value, str):
        raise InputError(f"{where}: field '{name}' is {'missing' if value is None else 'no text'}")
    return value
