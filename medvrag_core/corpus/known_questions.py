"""Questions as a corpus is checked against them: their text, and the articles they were made from."""

from __future__ import annotations

from pathlib import Path

from medvrag_core.errors import InputError
from medvrag_core.records import Record
from medvrag_core.strict_json import json_lines


class KnownQuestion(Record):
    """``name`` is the id, after the set where it has one (``pubmedqa/12377809``); ``sources`` are ids of articles."""

    name: str
    text: str
    sources: tuple[str, ...] = ()


def read_known_questions(path: Path) -> list[KnownQuestion]:
    """Questions or queries of a file of JSON lines, packed (``.gz``) or not.

    Read are ``id`` (or ``_id``), ``question`` (or ``text``), ``dataset`` and ``sources``. A question of PubMedQA has
    its PMID as its id.

    Raises
    ------
    InputError : the file or a line is unusable; file, line and field are named
    """
    return [_known(data, where) for _, where, data in json_lines(path)]


def _known(data: dict[str, object], where: str) -> KnownQuestion:
    identifier = data.get("id", data.get("_id"))
    text = data.get("question", data.get("text"))
    if not isinstance(identifier, str | int) or isinstance(identifier, bool) or not str(identifier).strip():
        raise InputError(f"{where}: field 'id' is missing or no text")
    if not isinstance(text, str) or not text.strip():
        raise InputError(f"{where}: field 'question' is missing or no text")
    dataset, sources = data.get("dataset", ""), data.get("sources", [])
    if not isinstance(dataset, str):
        raise InputError(f"{where}: field 'dataset' must be a text")
    if not isinstance(sources, list) or not all(isinstance(source, str) for source in sources):
        raise InputError(f"{where}: field 'sources' must be a list of texts")
    if not sources and dataset.startswith("pubmedqa") and str(identifier).isdigit():
        sources = [f"PMID:{identifier}"]
    return KnownQuestion(
        name=f"{dataset}/{identifier}" if dataset else str(identifier), text=text, sources=tuple(sources)
    )
