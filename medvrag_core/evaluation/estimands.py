"""What is estimated: questions in sets, arms as arrays of right and wrong, and the two ways to average over sets."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from medvrag_core.errors import InputError
from medvrag_core.evaluation.scoring import require_one_arm, score
from medvrag_core.records import Trace

Estimand = Literal["macro", "question_weighted"]
ESTIMANDS: tuple[Estimand, ...] = ("macro", "question_weighted")
"""The unweighted mean over sets and the mean over questions. They can rank the same steps differently: both count."""

MIRAGE_SIZES = {"medqa": 1273, "medmcqa": 4183, "pubmedqa": 500, "mmlu": 1089}
"""Questions of the four sets of the paper's main table, 7,045 together (paper section 4.1)."""

ONE_SET = "all"
SetRule = Callable[[str], str]
"""From the id of a question to the name of its set."""


def one_set(question_id: str) -> str:
    """The default rule: all questions are one set."""
    return ONE_SET


def set_by_prefix(question_id: str) -> str:
    """The part of the id before its first colon.

    >>> set_by_prefix("mmlu:anatomy-000")
    'mmlu'
    """
    name, colon, rest = question_id.partition(":")
    if not (colon and name.strip() and rest):
        raise InputError(
            f"question '{question_id}' names no set", way_out="write ids as set:id, or give a file of sets"
        )
    return name


def set_by_mapping(sets: Mapping[str, str], source: str = "the mapping of sets") -> SetRule:
    """A rule out of question id to set; an id that is not there raises InputError."""

    def rule(question_id: str) -> str:
        try:
            return sets[question_id]
        except KeyError:
            raise InputError(f"{source}: question '{question_id}' is in no set", way_out="add it to the file") from None

    return rule


def find_set_rule(name: str) -> SetRule:
    """``one``, ``prefix``, or a JSON file (see :func:`read_sets`)."""
    if name in ("one", "prefix"):
        return one_set if name == "one" else set_by_prefix
    return set_by_mapping(read_sets(Path(name)), name)


def read_sets(path: Path) -> dict[str, str]:
    """Question id to set from a JSON object: ``{"id": "set"}``, ``{"set": ["id"]}`` or ``{"set": {"id": ...}}``.

    Raises InputError when the file is missing or has another form, or when an id stands in two sets.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file", way_out="give one, prefix, or a JSON file of sets")
    try:
        data = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not valid JSON ({error})") from None
    if not isinstance(data, dict) or not data:
        raise InputError(f"{path}: must be a JSON object that is not empty", way_out='write {"set": ["id", "id"]}')
    sets: dict[str, str] = {}
    for key, value in data.items():
        for question_id, name in _entries(path, key, value):
            if sets.setdefault(question_id, name) != name:
                raise InputError(f"{path}: question '{question_id}' is in '{sets[question_id]}' and in '{name}'")
    return sets


def _entries(path: Path, key: str, value: Any) -> list[tuple[str, str]]:
    if isinstance(value, str):
        return [(key, value)]
    if isinstance(value, dict) or (isinstance(value, list) and all(isinstance(i, str) for i in value)):
        return [(question_id, key) for question_id in value]
    raise InputError(f"{path}: entry '{key}' is neither a set's name nor a list of ids")


@dataclass(frozen=True)
class Arm:
    """Right and wrong of one arm in one or more runs (seeds), questions in the order of their ids.

    Attributes
    ----------
    name : the system
    ids : question ids, sorted
    sets : name of the set of every question
    right : bool, shape (runs, n)
    labels : label or outcome of every question in every run, shape (runs, n)
    gold : gold answers
    fingerprints : settings behind each run
    """

    name: str
    ids: tuple[str, ...]
    sets: tuple[str, ...]
    right: NDArray[np.bool_]
    labels: NDArray[np.str_]
    gold: tuple[str | None, ...]
    fingerprints: tuple[str, ...]

    @property
    def runs(self) -> int:
        """Number of runs."""
        return int(self.right.shape[0])


def arm_of(runs: Sequence[Sequence[Trace]], set_of: SetRule = one_set) -> Arm:
    """Arrays out of the traces of one arm, a list of traces a run; unparsed replies and errors are wrong.

    Seeds differ in their settings, so only the system must be the same. Raises InputError when it is not, or when
    the runs answered different questions.
    """
    if not runs:
        raise InputError("an arm needs at least one run")
    tables = []
    for traces in runs:
        require_one_arm(traces)
        tables.append({t.question.id: t for t in traces})
    first = tables[0]
    ids = tuple(sorted(first))
    names = sorted({t.system for traces in runs for t in traces})
    if len(names) > 1:
        raise InputError(
            f"runs of different systems in one arm: {', '.join(names)}", way_out="give seeds of one system"
        )
    gold = tuple(first[i].question.answer for i in ids)
    for number, table in enumerate(tables[1:], start=2):
        odd = sorted(first.keys() ^ table.keys())
        if odd:
            raise InputError(
                f"run {number} of '{names[0]}' did not answer the questions of run 1 ({len(odd)} differ, "
                f"for example '{odd[0]}')",
                way_out="run all seeds on one question file",
            )
        changed = [i for i, answer in zip(ids, gold, strict=True) if table[i].question.answer != answer]
        if changed:
            raise InputError(f"gold answer of question '{changed[0]}' differs between runs of '{names[0]}'")
    return Arm(
        name=names[0],
        ids=ids,
        sets=tuple(set_of(i) for i in ids),
        right=np.array([[score(table[i]) for i in ids] for table in tables], dtype=bool),
        labels=np.array([[_ending(table[i]) for i in ids] for table in tables]),
        gold=gold,
        fingerprints=tuple(traces[0].fingerprint for traces in runs),
    )


def _ending(trace: Trace) -> str:
    return trace.label if trace.label is not None else f"({trace.outcome})"


@dataclass(frozen=True)
class Pairs:
    """Question-wise differences of two arms, in sets; the question is the unit, its seeds are averaged.

    Attributes
    ----------
    names : the sets, sorted
    of : int, shape (n,), the set of every question
    a, b : float, shape (n,), share of runs in which the arm is right
    """

    names: tuple[str, ...]
    of: NDArray[np.intp]
    a: NDArray[np.float64]
    b: NDArray[np.float64]

    @property
    def sizes(self) -> NDArray[np.intp]:
        """Questions of every set, shape (sets,)."""
        return np.bincount(self.of, minlength=len(self.names))

    @property
    def differences(self) -> NDArray[np.float64]:
        """``b - a`` a question, shape (n,); rounded, so that equal shares are equal numbers."""
        return np.round(self.b - self.a, 9)

    def within(self, number: int) -> Pairs:
        """One set alone."""
        here = self.of == number
        return Pairs((self.names[number],), np.zeros(int(here.sum()), np.intp), self.a[here], self.b[here])


def paired(a: Arm, b: Arm) -> Pairs:
    """Differences of two arms; raises InputError unless both answered the same questions with the same gold answers."""
    only_a, only_b = sorted(set(a.ids) - set(b.ids)), sorted(set(b.ids) - set(a.ids))
    if only_a or only_b:
        parts = [
            f"only '{arm}' answered {', '.join(ids[:5])}{f' and {len(ids) - 5} more' if len(ids) > 5 else ''}"
            for arm, ids in ((a.name, only_a), (b.name, only_b))
            if ids
        ]
        raise InputError(f"the arms answered different questions: {'; '.join(parts)}", way_out="run both on one file")
    for question_id, first, second in zip(a.ids, a.gold, b.gold, strict=True):
        if first != second:
            raise InputError(f"gold answer of question '{question_id}' differs between the arms")
    names, of = np.unique(a.sets, return_inverse=True)
    return Pairs(tuple(map(str, names)), of.astype(np.intp), a.right.mean(axis=0), b.right.mean(axis=0))


def set_weights(sizes: Sequence[int] | NDArray[np.intp], estimand: Estimand) -> NDArray[np.float64]:
    """Weight of every set's mean in the estimand, shape (sets,), sum 1.

    >>> set_weights([100, 300], "macro").tolist(), set_weights([100, 300], "question_weighted").tolist()
    ([0.5, 0.5], [0.25, 0.75])
    """
    n = np.asarray(sizes, dtype=float)
    return np.full(len(n), 1 / len(n)) if estimand == "macro" else n / n.sum()
