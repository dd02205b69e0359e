"""What is estimated: questions in sets, arms as arrays of right and wrong, and the two ways to average over sets."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from medvrag_core.errors import InputError
from medvrag_core.evaluation.endings import Answered
from medvrag_core.evaluation.scorers.base import ScorerName, score_reply
from medvrag_core.evaluation.scorers.report import reply_of
from medvrag_core.evaluation.scoring import require_one_arm, score
from medvrag_core.records import Question

Estimand = Literal["macro", "question_weighted"]
ESTIMANDS: tuple[Estimand, ...] = ("macro", "question_weighted")
"""The unweighted mean over sets and the mean over questions. They can rank the same steps differently: both count."""

ONE_SET = "all"
SetRule = Callable[[Question], str]
"""From a question to the name of its set."""


def set_by_dataset(question: Question) -> str:
    """The default rule: the dataset that the question names; all questions are one set where none does."""
    return question.dataset or ONE_SET


def one_set(question: Question) -> str:
    """All questions are one set."""
    return ONE_SET


def set_by_prefix(question: Question) -> str:
    """The part of the id before its first colon.

    >>> set_by_prefix(Question(id="mmlu:anatomy-000", question="?", options={}))
    'mmlu'
    """
    name, colon, rest = question.id.partition(":")
    if not (colon and name.strip() and rest):
        raise InputError(
            f"question '{question.id}' names no set", way_out="write ids as set:id, or give a file of sets"
        )
    return name


def set_by_mapping(sets: Mapping[str, str], source: str = "the mapping of sets") -> SetRule:
    """A rule out of question id to set; an id that is not there raises InputError."""

    def rule(question: Question) -> str:
        try:
            return sets[question.id]
        except KeyError:
            raise InputError(f"{source}: question '{question.id}' is in no set", way_out="add it to the file") from None

    return rule


def find_set_rule(name: str) -> SetRule:
    """``dataset``, ``one``, ``prefix``, or a JSON file (see :func:`read_sets`)."""
    rules: dict[str, SetRule] = {"dataset": set_by_dataset, "one": one_set, "prefix": set_by_prefix}
    return rules[name] if name in rules else set_by_mapping(read_sets(Path(name)), name)


def read_sets(path: Path) -> dict[str, str]:
    """Question id to set from a JSON object: ``{"id": "set"}``, ``{"set": ["id"]}`` or ``{"set": {"id": ...}}``.

    Raises InputError when the file is missing or has another form, or when an id stands in two sets.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file", way_out="give dataset, one, prefix, or a JSON file of sets")
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
    labels : text of the option chosen, or the outcome in parentheses, shape (runs, n); texts, so that arms and runs
        can show their options in different orders
    gold : text of the gold option of every question
    fingerprints : settings behind each run
    """

    name: str
    ids: tuple[str, ...]
    sets: tuple[str, ...]
    right: NDArray[np.bool_]
    labels: NDArray[np.str_]
    gold: tuple[str, ...]
    fingerprints: tuple[str, ...]

    @property
    def runs(self) -> int:
        """Number of runs."""
        return int(self.right.shape[0])

    def only(self, keep: NDArray[np.bool_]) -> Arm:
        """The questions of ``keep``, shape (n,)."""
        chosen = np.flatnonzero(keep)
        return replace(
            self,
            right=self.right[:, chosen],
            labels=self.labels[:, chosen],
            ids=tuple(self.ids[i] for i in chosen),
            sets=tuple(self.sets[i] for i in chosen),
            gold=tuple(self.gold[i] for i in chosen),
        )


def arm_of(
    runs: Sequence[Sequence[Answered]], set_of: SetRule = set_by_dataset, *, scorer: ScorerName = "strict"
) -> Arm:
    """Arrays out of one arm's answers, a list a run; unparsed replies and errors are wrong.

    Seeds differ in their settings, so only the system must be the same. Under ``strict`` the stored labels count,
    under another scorer the last replies are read anew.

    Raises
    ------
    InputError : runs of several systems, or runs that answered different questions; a question without gold answer,
        or without dataset where others name one
    """
    if not runs:
        raise InputError("an arm needs at least one run")
    tables = []
    for answers in runs:
        require_one_arm(answers)
        tables.append({t.question.id: t for t in answers})
    first = tables[0]
    ids = tuple(sorted(first))
    names = sorted({t.system for answers in runs for t in answers})
    if len(names) > 1:
        raise InputError(
            f"runs of different systems in one arm: {', '.join(names)}", way_out="give seeds of one system"
        )
    gold = tuple(_gold(first[i].question) for i in ids)
    for number, table in enumerate(tables[1:], start=2):
        odd = sorted(first.keys() ^ table.keys())
        if odd:
            raise InputError(
                f"run {number} of '{names[0]}' did not answer the questions of run 1 ({len(odd)} differ, "
                f"for example '{odd[0]}')",
                way_out="run all seeds on one question file",
            )
        changed = [i for i, answer in zip(ids, gold, strict=True) if _gold(table[i].question) != answer]
        if changed:
            raise InputError(f"gold answer of question '{changed[0]}' differs between runs of '{names[0]}'")
    sets = tuple(set_of(first[i].question) for i in ids)
    if set_of is set_by_dataset and ONE_SET in sets and len(set(sets)) > 1:
        raise InputError(
            f"question '{ids[sets.index(ONE_SET)]}' names no dataset, others do",
            way_out="name the dataset of every question, or choose other sets: one, prefix, or a file",
        )
    read = [[_read(table[i], scorer) for i in ids] for table in tables]
    return Arm(
        name=names[0],
        ids=ids,
        sets=sets,
        right=np.array([[right for right, _ in row] for row in read], dtype=bool),
        labels=np.array([[label for _, label in row] for row in read]),
        gold=gold,
        fingerprints=tuple(answers[0].fingerprint for answers in runs),
    )


def _gold(question: Question) -> str:
    try:
        return question.options[question.answer or ""]
    except KeyError:
        raise InputError(
            f"question '{question.id}' has no gold answer among its options", way_out="add the field 'answer'"
        ) from None


def _read(answer: Answered, scorer: ScorerName) -> tuple[bool, str]:
    """Right or not, and the text of the option chosen, or the outcome in parentheses."""
    right, label, why = score(answer), answer.label, str(answer.outcome)
    if scorer != "strict":
        scored = score_reply(reply_of(answer), scorer)
        right, label, why = scored.correct is True, scored.label, scored.reason
    return right, f"({why})" if label is None else answer.question.options[label]


@dataclass(frozen=True)
class Pairs:
    """Question-wise differences of two arms, in sets; the question is the unit, its seeds are averaged.

    Attributes
    ----------
    names : the sets, sorted
    of : int, shape (n,), the set of every question
    a, b : float, shape (n,), share of runs in which the arm is right
    cluster : int, shape (n,), the cluster of every question; None where every question stands for itself
    """

    names: tuple[str, ...]
    of: NDArray[np.intp]
    a: NDArray[np.float64]
    b: NDArray[np.float64]
    cluster: NDArray[np.intp] | None = None

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
        cluster = None if self.cluster is None else self.cluster[here]
        return Pairs((self.names[number],), np.zeros(int(here.sum()), np.intp), self.a[here], self.b[here], cluster)


def paired(a: Arm, b: Arm, clusters: NDArray[np.intp] | None = None) -> Pairs:
    """Differences of two arms; raises InputError unless both answered the same questions with the same gold answers.

    Gold answers are compared by the text of the option, since an arm may show the options in another order.
    ``clusters`` holds the cluster of every question, shape (n,).
    """
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
            raise InputError(
                f"gold answer of question '{question_id}' differs between the arms", way_out="run both on one file"
            )
    if a.sets != b.sets:
        raise InputError("the arms have the same questions in different sets", way_out="run both on one file")
    names, of = np.unique(a.sets, return_inverse=True)
    return Pairs(tuple(map(str, names)), of.astype(np.intp), a.right.mean(axis=0), b.right.mean(axis=0), clusters)


def set_weights(sizes: Sequence[int] | NDArray[np.intp], estimand: Estimand) -> NDArray[np.float64]:
    """Weight of every set's mean in the estimand, shape (sets,), sum 1.

    >>> set_weights([100, 300], "macro").tolist(), set_weights([100, 300], "question_weighted").tolist()
    ([0.5, 0.5], [0.25, 0.75])
    """
    n = np.asarray(sizes, dtype=float)
    return np.full(len(n), 1 / len(n)) if estimand == "macro" else n / n.sum()
