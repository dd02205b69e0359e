"""The paper's printed numbers as data, each with the place it stands in."""

from __future__ import annotations

from functools import cache
from importlib import resources
from pathlib import Path

import yaml
from pydantic import ValidationError

from medvrag_core.errors import InputError
from medvrag_core.evaluation.audit.rounded import Rounded, printed
from medvrag_core.evaluation.audit.table import AccuracyTable
from medvrag_core.records import Record, describe_validation_error


class PrintedNumber(Record):
    """A number outside of the accuracy table."""

    text: str
    where: str


class QuotedStep(Record):
    """A difference of two rows that the text quotes; ``column`` is a set, or ``average``."""

    text: str
    where: str
    first: str
    second: str
    column: str


class SharedAverage(Record):
    """An average over some of the sets."""

    text: str
    where: str
    arm: str
    sets: tuple[str, ...]


class Wins(Record):
    """The sets in which ``arm`` is said to beat ``over``."""

    where: str
    arm: str
    over: str
    sets: tuple[str, ...]


class SourceRow(Record):
    """What the named source of a copied row prints."""

    arm: str
    source: str
    cells: dict[str, str]


class Setting(Record):
    """What others reached on a set without retrieval, in the setting that the paper names."""

    where: str
    arm: str
    set_name: str
    source: str
    published: dict[str, str]


class SingleSetEffect(Record):
    """A difference on one set that the text gives a meaning."""

    where: str
    claim: str
    first: str
    second: str
    set_name: str


class Paper(Record):
    """All numbers of one paper that the audit reads."""

    table: AccuracyTable
    sequence: tuple[str, ...]
    steps: tuple[QuotedStep, ...]
    shared_averages: tuple[SharedAverage, ...]
    wins: tuple[Wins, ...]
    sources: tuple[SourceRow, ...]
    settings: tuple[Setting, ...]
    effects: tuple[SingleSetEffect, ...]
    numbers: dict[str, PrintedNumber]

    def number(self, name: str) -> Rounded:
        """A printed number; raises :class:`InputError` when the data have none of that name."""
        return printed(self._entry(name).text, source=name)

    def count(self, name: str) -> int:
        """A number that is a count or a setting, taken as exact."""
        value = self.number(name).value
        if value.denominator != 1 or value < 1:
            raise InputError(f"number '{name}' is no count: {self._entry(name).text}")
        return int(value)

    def shown(self, name: str) -> str:
        """The number as printed."""
        return self._entry(name).text

    def where(self, *names: str) -> str:
        """The places of some numbers, each once."""
        return ", ".join(dict.fromkeys(self._entry(name).where for name in names))

    def with_number(self, name: str, text: str) -> Paper:
        """A copy in which one number is printed differently; for what-if questions."""
        changed = self._entry(name).model_copy(update={"text": text})
        return self.model_copy(update={"numbers": {**self.numbers, name: changed}})

    def with_cell(self, arm: str, column: str, text: str) -> Paper:
        """A copy in which one cell of the table is printed differently."""
        return self.model_copy(update={"table": self.table.with_cell(arm, column, text)})

    def _entry(self, name: str) -> PrintedNumber:
        if name not in self.numbers:
            raise InputError(f"the numbers of the paper hold no '{name}'")
        return self.numbers[name]


def load_paper(path: Path | None = None) -> Paper:
    """Read the numbers that ship with the package, or another file of the same form.

    Raises :class:`InputError` naming the file and the field.
    """
    if path is None:
        return _shipped()
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    return _parse(path.read_text(encoding="utf-8"), str(path))


@cache
def _shipped() -> Paper:
    text = (resources.files("medvrag_core.evaluation.audit") / "paper.yaml").read_text(encoding="utf-8")
    return _parse(text, "paper.yaml")


def _parse(text: str, source: str) -> Paper:
    try:
        return Paper.model_validate(yaml.safe_load(text))
    except yaml.YAMLError as error:
        raise InputError(f"{source}: not valid YAML ({str(error).splitlines()[0]})") from None
    except ValidationError as error:
        raise InputError(f"{source}: {describe_validation_error(error)}") from None
