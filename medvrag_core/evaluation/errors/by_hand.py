"""What people say about errors: questions whose gold is in doubt, and classes given by hand, checked against ours.

The paper's classes were given by a single rater (section 4.5). Ours are computed; a file of labels by hand says how
far they can be trusted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from medvrag_core.errors import InputError
from medvrag_core.evaluation.benchmarks.faults import suspect_gold
from medvrag_core.evaluation.errors.taxonomy import ERROR_CLASSES, ErrorClass
from medvrag_core.evaluation.labels.agreement import kappas
from medvrag_core.evaluation.statistics.means import Estimate, interval_around, resampled_sums
from medvrag_core.evaluation.statistics.shares import Share, share_of
from medvrag_core.records import Question, Record, describe_validation_error
from medvrag_core.settings import EvaluationSettings
from medvrag_core.strict_json import json_lines


class SuspectGold(Record):
    """A question whose gold option is in doubt, for example after an expert relabeled it."""

    id: str = Field(min_length=1)
    reason: str = Field(min_length=1)


class ErrorLabel(Record):
    """The class that a person gives a wrong answer."""

    id: str = Field(min_length=1, description="of the question")
    error_class: ErrorClass
    rater: str = Field(min_length=1)


class HumanCheck(Record):
    """Computed classes against those of one person, on the wrong answers that the person labeled."""

    rater: str
    n: int
    not_labeled: int = Field(description="wrong answers without a label")
    confusion: dict[ErrorClass, dict[ErrorClass, int]] = Field(description="computed class to the person's, counts")
    agree: Share
    kappa: Estimate | None = Field(description="Cohen's kappa, bootstrap over questions; null where it is undefined")
    computed: dict[ErrorClass, Share] = Field(description="classes of the labeled answers as computed")
    by_hand: dict[ErrorClass, Share] = Field(
        description="as the person has them; where a random sample was labeled, the estimate for all wrong answers"
    )


def suspect_questions(questions: Sequence[Question], more: str | Path = "") -> dict[str, str]:
    """Questions whose gold is in doubt by checks of the data, and by a file; id to reason, the checks' reason first.

    Parameters
    ----------
    more : file of JSON lines with ``id`` and ``reason``; ids of other questions are no matter; empty: none

    Raises
    ------
    InputError : there is no question; the file is missing, or a line of it is unusable or repeats an id
    """
    told = {line.id: line.reason for line in _read(Path(more), SuspectGold)} if more else {}
    return told | suspect_gold(questions)


def read_error_labels(path: str | Path, *, rater: str | None = None) -> list[ErrorLabel]:
    """Labels of one person: JSON lines with ``id``, ``error_class`` and ``rater``.

    Raises
    ------
    InputError : the file is missing, a line is unusable or repeats an id, or the labels of ``rater`` are not those of
        one person
    """
    labels = [label for label in _read(Path(path), ErrorLabel, unique=("rater", "id")) if rater in (None, label.rater)]
    raters = sorted({label.rater for label in labels})
    if len(raters) != 1:
        found = f"labels of {', '.join(raters)}" if raters else f"no label of '{rater}'"
        raise InputError(f"{path}: {found}", way_out="name one rater")
    return labels


def human_check(
    classes: Mapping[str, ErrorClass], labels: Sequence[ErrorLabel], settings: EvaluationSettings | None = None
) -> HumanCheck:
    """Compare computed classes with those of one person.

    Parameters
    ----------
    classes : question id to computed class, of all wrong answers of one system
    labels : of one person, see :func:`read_error_labels`

    Raises
    ------
    InputError : there is no label, or one for a question that was not answered wrong
    """
    strangers = sorted({label.id for label in labels} - classes.keys())
    if strangers or not labels:
        problem = f"question '{strangers[0]}' is no wrong answer of this system" if strangers else "there is no label"
        raise InputError(problem, way_out="label the wrong answers of the run that is checked")
    settings = settings or EvaluationSettings()
    n, size = len(labels), len(ERROR_CLASSES)
    cells = np.zeros((n, size * size))
    for row, label in enumerate(labels):
        cells[row, ERROR_CLASSES.index(classes[label.id]) * size + ERROR_CLASSES.index(label.error_class)] = 1
    table = cells.sum(axis=0).reshape(size, size).astype(int)
    kappa, *drawn = kappas(np.vstack([cells.sum(axis=0), resampled_sums(cells, settings)]).reshape(-1, size, size))
    draws = np.array(drawn)

    def shares(counts: NDArray[np.int_]) -> dict[ErrorClass, Share]:
        found = zip(ERROR_CLASSES, counts.tolist(), strict=True)
        return {name: share_of(count, n, confidence=settings.confidence) for name, count in found if count}

    return HumanCheck(
        rater=labels[0].rater,
        n=n,
        not_labeled=len(classes) - n,
        confusion={
            name: {other: int(k) for other, k in zip(ERROR_CLASSES, row, strict=True) if k}
            for name, row in zip(ERROR_CLASSES, table, strict=True)
            if row.any()
        },
        agree=share_of(int(np.trace(table)), n, confidence=settings.confidence),
        kappa=interval_around(float(kappa), draws[np.isfinite(draws)], n, settings, lowest=-1.0)
        if np.isfinite(kappa)
        else None,
        computed=shares(table.sum(axis=1)),
        by_hand=shares(table.sum(axis=0)),
    )


_L = TypeVar("_L", SuspectGold, ErrorLabel)


def _read(path: Path, kind: type[_L], unique: tuple[str, ...] = ("id",)) -> list[_L]:
    lines: list[_L] = []
    seen: dict[tuple[str, ...], int] = {}
    for number, where, data in json_lines(path):
        try:
            line = kind.model_validate(data)
        except ValidationError as error:
            fields = ", ".join(kind.model_fields)
            raise InputError(f"{where}: {describe_validation_error(error)}", way_out=f"a line needs {fields}") from None
        key = tuple(str(getattr(line, name)) for name in unique)
        if key in seen:
            raise InputError(f"{where}: question '{line.id}' stands in line {seen[key]} already")
        seen[key] = number
        lines.append(line)
    return lines
