"""One question set by its name, from ``benchmark.json`` or from raw files, with its size checked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from medvrag_core.errors import InputError
from medvrag_core.evaluation.benchmarks.raw import (
    as_object,
    pmids,
    read_bioasq,
    read_medmcqa,
    read_medqa,
    read_mmlu,
    read_object,
    read_pubmedqa,
)
from medvrag_core.evaluation.benchmarks.registry import find_benchmark, load_registry
from medvrag_core.evaluation.questions import usable_question
from medvrag_core.records import Question

MIRAGE_SIZES = {"medqa": 1273, "medmcqa": 4183, "pubmedqa": 500, "mmlu": 1089}
"""Questions of the four sets of the paper's main table, 7,045 together (paper section 4.1)."""

MAIN_SETS = tuple(MIRAGE_SIZES)
"""The sets of the paper's main table; BioASQ stands beside it."""

BENCHMARK_SETS = (*MAIN_SETS, "bioasq")
"""The sets of MIRAGE, 7,663 questions."""

SIZES = {**MIRAGE_SIZES, "bioasq": 618, "pubmedqa_abstract": 500}
"""Questions of every set that can be loaded. ``pubmedqa`` is the question alone (MIRAGE), ``pubmedqa_abstract`` is
the same 500 questions with the abstract as context: another task, and never averaged under one name."""


def load_sets(names: Sequence[str], data: Path, *, any_size: bool = False) -> list[Question]:
    """The questions of several sets, one after the other.

    Parameters
    ----------
    names : of :data:`SIZES`
    data : a ``benchmark.json`` of MIRAGE, or a folder of raw files as ``medvrag benchmarks fetch`` lays them out;
        packed files (``.gz``) stand in for plain ones
    any_size : take sets that do not have their known size

    Raises
    ------
    InputError : a set is unknown, named twice or of another size, a file is missing or unusable, or sets share an id
    """
    for name in names:
        if name not in SIZES:
            raise InputError(f"'{name}' is no question set", way_out=f"choose of {', '.join(SIZES)}")
        if names.count(name) > 1:
            raise InputError(f"'{name}' is named twice", way_out="name each set once")
    if not data.exists():
        raise InputError(
            f"{data}: no such file or folder", way_out="get the sets with `medvrag benchmarks fetch` first"
        )
    mirage = read_mirage(data) if data.is_file() else None
    questions: list[Question] = []
    owner: dict[str, str] = {}
    for name in names:
        found = read_raw(name, data) if mirage is None else _of_mirage(mirage, name, data)
        if not found:
            raise InputError(f"{data}: holds no question of '{name}'", way_out="leave that set out, or fetch it again")
        if not any_size:
            require_size(name, found)
        for question in found:
            if question.id in owner:
                raise InputError(
                    f"id '{question.id}' is in {owner[question.id]} and in {name}",
                    way_out="write the sets into files of their own, and answer them in runs of their own",
                )
            owner[question.id] = name
        questions += found
    return questions


def read_mirage(path: Path) -> dict[str, list[Question]]:
    """All sets of a ``benchmark.json`` (also packed): set to id to ``question``, ``options``, ``answer``.

    Raises
    ------
    InputError : the file is missing or no such object, a set is unknown, a question is unusable; set and id are named
    """
    sets = {}
    for name, items in read_object(path).items():
        if name not in BENCHMARK_SETS:
            raise InputError(f"{path}: '{name}' is no set of MIRAGE", way_out="give MIRAGE's benchmark.json")
        made = []
        for identifier, item in as_object(items, f"{path}, {name}").items():
            where = f"{path}, {name}, question {identifier}"
            fields = {key: as_object(item, where).get(key) for key in ("question", "options", "answer")}
            sources = pmids(item.get("PMID", []), f"{where}: field 'PMID'")
            made.append(usable_question(fields | {"id": identifier, "dataset": name, "sources": sources}, where))
        sets[name] = made
    return sets


def read_raw(name: str, folder: Path) -> list[Question]:
    """One set from the raw files below ``folder``, at the places that the registry names.

    PubMedQA is read from the test items; without those from all labelled items and the official answers, and without
    the answers from all 1,000 labelled items, which the check of sizes then refuses.
    """
    if name == "medqa":
        return read_medqa(_found(folder, name)[0])
    if name == "medmcqa":
        return read_medmcqa(_found(folder, name)[0])
    if name == "mmlu":
        return read_mmlu(_found(folder, name))
    if name == "bioasq":
        return read_bioasq(_found(folder, name))
    abstract = name == "pubmedqa_abstract"
    labelled, truth = (_existing(folder, file) for file in _files("pubmedqa_labelled"))
    if _existing(folder, _files("pubmedqa")[0]) is None and labelled is not None:
        return read_pubmedqa(labelled, truth, abstract=abstract)
    return read_pubmedqa(_found(folder, "pubmedqa")[0], abstract=abstract)


def require_size(name: str, questions: Sequence[Question]) -> None:
    """Refuse a set that does not have its known size: another split or copy gives numbers nobody can compare."""
    if len(questions) == SIZES[name]:
        return
    hint = ""
    if name.startswith("pubmedqa") and len(questions) == 1000:
        hint = ": all labelled items in place of the test items; put test_ground_truth.json beside them"
    raise InputError(
        f"{name}: {SIZES[name]:,} questions expected, {len(questions):,} found{hint}",
        way_out="take the split that the registry names, or give --any-size if you mean another one",
    )


def _of_mirage(mirage: dict[str, list[Question]], name: str, path: Path) -> list[Question]:
    if name not in mirage:
        raise InputError(
            f"{path}: holds no set '{name}', only {', '.join(mirage) or 'other things'}",
            way_out="give the folder of raw files" if name == "pubmedqa_abstract" else "give MIRAGE's benchmark.json",
        )
    return mirage[name]


def _files(name: str) -> list[str]:
    return [file.file for file in find_benchmark(load_registry(), name).files]


def _existing(folder: Path, file: str) -> Path | None:
    """A file as it is or packed."""
    return next((path for path in (folder / file, folder / f"{file}.gz") if path.is_file()), None)


def _found(folder: Path, name: str) -> list[Path]:
    """All files of a registered set, in the order of the registry."""
    paths = []
    for file in _files(name):
        path = _existing(folder, file)
        if path is None:
            raise InputError(
                f"{folder / file}: no such file, nor one packed as .gz",
                way_out=f"get it with `medvrag benchmarks fetch {name} --to {folder}`",
            )
        paths.append(path)
    return paths
