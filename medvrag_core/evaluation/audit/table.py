"""Accuracy tables as printed: rows are arms, columns are question sets, cells keep their text."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path

from medvrag_core.errors import InputError
from medvrag_core.evaluation.audit.rounded import Rounded, exact, is_missing, printed
from medvrag_core.records import Record

AVERAGE_COLUMNS = ("average", "avg", "avg.", "mean")
SIZE_ROWS = ("n", "size", "sizes", "questions")
LARGEST_TABLE_BYTES = 200_000


class ArmRow(Record):
    """One row as printed. ``own`` marks arms that the authors ran themselves; only those are judged."""

    arm: str
    cells: dict[str, str]
    average: str | None = None
    own: bool = True


class AccuracyTable(Record):
    """A printed accuracy table; accuracies in percent, or all in shares of one (``unit`` says which)."""

    name: str
    sets: tuple[str, ...]
    sizes: dict[str, int]
    rows: tuple[ArmRow, ...]
    unit: str = "percent"

    def row(self, arm: str) -> ArmRow:
        """The row of an arm; raises :class:`InputError` when there is none."""
        for row in self.rows:
            if row.arm == arm:
                return row
        raise InputError(f"{self.name}: has no arm '{arm}'")

    def cell(self, arm: str, set_name: str) -> Rounded | None:
        """Accuracy in points of a hundred; ``None`` where nothing is printed."""
        text = self.row(arm).cells.get(set_name)
        return None if text is None else self._points(text, f"{self.name}, {arm}, {set_name}")

    def average(self, arm: str) -> Rounded | None:
        """The printed average in points of a hundred."""
        text = self.row(arm).average
        return None if text is None else self._points(text, f"{self.name}, {arm}, average")

    def known(self, arm: str) -> dict[str, Rounded]:
        """All printed cells of an arm by set, in the order of the columns."""
        found = {name: self.cell(arm, name) for name in self.sets}
        return {name: value for name, value in found.items() if value is not None}

    def with_cell(self, arm: str, column: str, text: str) -> AccuracyTable:
        """A copy with one cell (or ``average``) printed differently; for what-if questions."""
        self.row(arm)
        rows = []
        for row in self.rows:
            if row.arm == arm:
                changed = {"average": text} if column == "average" else {"cells": {**row.cells, column: text}}
                row = row.model_copy(update=changed)
            rows.append(row)
        return self.model_copy(update={"rows": tuple(rows)})

    def _points(self, text: str, source: str) -> Rounded:
        value = printed(text, source=source) * (100 if self.unit == "share" else 1)
        if not 0 <= value.value <= 100:
            raise InputError(f"{source}: {text} is no accuracy", way_out="accuracies go from 0 to 100, or from 0 to 1")
        return value


def plain_mean(table: AccuracyTable, arm: str) -> Rounded | None:
    """Mean of an arm's cells, every set counting the same; ``None`` unless all sets are printed."""
    cells = table.known(arm)
    if not cells or len(cells) < len(table.sets):
        return None
    result = exact(0)
    for value in cells.values():
        result = result + value / len(cells)
    return result


def question_mean(table: AccuracyTable, arm: str) -> Rounded | None:
    """Mean of an arm's cells, every question counting the same; ``None`` unless all cells and sizes are known."""
    cells = table.known(arm)
    if not cells or len(cells) < len(table.sets) or any(name not in table.sizes for name in table.sets):
        return None
    n = sum(table.sizes[name] for name in table.sets)
    result = exact(0)
    for name, value in cells.items():
        result = result + value * Fraction(table.sizes[name], n)
    return result


def read_table(path: Path, sizes: Mapping[str, int] | None = None) -> AccuracyTable:
    """Read a CSV (or, by its ending, TSV) file: first column the arm, then one column a set.

    A column named ``average`` (``avg``, ``mean``) is the printed average. A first row named ``n`` (or
    ``size``, ``questions``) gives the numbers of questions; ``sizes`` adds to it and goes before it.
    Empty cells and dashes mean "not printed". If no number exceeds 1, the table is in shares of one.

    Raises
    ------
    InputError : the file is unreadable, a row has the wrong length, a cell is not one number, an arm or
        column stands twice, or ``sizes`` names a set that is not in the table
    """
    lines = _lines(path)
    header, body = [name.strip() for name in lines[0]], lines[1:]
    if len(header) < 2 or not body:
        raise InputError(f"{path}: needs a header (arm, then one column a set) and at least one row")
    averages = [name for name in header[1:] if name.lower() in AVERAGE_COLUMNS]
    names = tuple(name for name in header[1:] if name not in averages)
    _refuse_repeats(path, "column", header)
    if not names or len(averages) > 1:
        raise InputError(f"{path}: needs one column a set and at most one average")
    known: dict[str, int] = {}
    rows = []
    for number, line in enumerate(body, start=2):
        if len(line) != len(header):
            raise InputError(f"{path}: row {number} has {len(line)} cells, the header {len(header)}")
        cells = {name: text.strip() for name, text in zip(header[1:], line[1:], strict=True) if not is_missing(text)}
        if number == 2 and line[0].strip().lower() in SIZE_ROWS:
            known = {name: _size(text, f"{path}, sizes, {name}") for name, text in cells.items() if name in names}
            continue
        average = cells.pop(averages[0], None) if averages else None
        rows.append(ArmRow(arm=line[0].strip() or f"row {number}", cells=cells, average=average))
    _refuse_repeats(path, "arm", [row.arm for row in rows])
    unknown = sorted(set(sizes or ()) - set(names))
    if unknown:
        raise InputError(f"{path}: has no set '{unknown[0]}'", way_out=f"its sets are {', '.join(names)}")
    return _checked(path, names, {**known, **(sizes or {})}, rows)


def _checked(path: Path, names: tuple[str, ...], sizes: dict[str, int], rows: list[ArmRow]) -> AccuracyTable:
    values = [
        printed(text, source=f"{path}, {row.arm}, {name}").value for row in rows for name, text in row.cells.items()
    ]
    if not values:
        raise InputError(f"{path}: no cell holds a number")
    unit = "share" if max(values) <= 1 else "percent"
    table = AccuracyTable(name=path.name, sets=names, sizes=sizes, rows=tuple(rows), unit=unit)
    for row in rows:
        table.known(row.arm)
        table.average(row.arm)
    return table


def _lines(path: Path) -> list[list[str]]:
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    if path.stat().st_size > LARGEST_TABLE_BYTES:
        raise InputError(f"{path}: is larger than a printed table can be")
    try:
        text = path.read_bytes().decode("utf-8-sig")
        reader = csv.reader(io.StringIO(text), delimiter="\t" if path.suffix.lower() == ".tsv" else ",", strict=True)
        lines = [line for line in reader if any(cell.strip() for cell in line)]
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: not a CSV file in UTF-8 ({error})") from None
    if not lines:
        raise InputError(f"{path}: is empty")
    return lines


def _size(text: str, source: str) -> int:
    digits = text.replace(",", "").replace(" ", "")
    if not digits.isascii() or not digits.isdigit() or not 0 < len(digits) < 12 or int(digits) == 0:
        raise InputError(f"{source}: '{text[:40]}' is not a number of questions")
    return int(digits)


def _refuse_repeats(path: Path, what: str, names: list[str]) -> None:
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise InputError(f"{path}: {what} '{repeated[0]}' stands twice")
