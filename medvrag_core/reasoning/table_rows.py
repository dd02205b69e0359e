"""Reads rows of a table with their column heads, so that each cell stands beside what it is a value of."""

from __future__ import annotations

import re
from collections.abc import Sequence

CELL_BREAK = " | "
_NUMBER = re.compile(r"^[<>≤≥~±(−–-]{0,2}\s?\d")
_YEAR = re.compile(r"^\(?(?:19|20)\d\d\)?$")


def split_cells(line: str) -> list[str]:
    """Cells of a row that is written on one line."""
    return [cell.strip() for cell in line.replace("\t", CELL_BREAK).split(CELL_BREAK.strip())]


def with_heads(rows: Sequence[Sequence[str]]) -> list[str]:
    """Each row with the heads of its columns set before its cells; head rows come back as they are.

    A head row may have as many cells as the body, one less (no head over the row labels), or fewer cells that
    span equal numbers of columns.

    >>> with_heads([["Region", "Tea", "Coffee"], ["Asia", "0.64", "0.22"], ["Europe", "1.08", "1.07"]])[1:]
    ['Asia Tea 0.64 Coffee 0.22', 'Europe Tea 1.08 Coffee 1.07']
    """
    count = head_count(rows)
    out = [CELL_BREAK.join(row) for row in rows[:count]]
    for row in rows[count:]:
        heads = [_spread(head, len(row)) for head in rows[:count]]
        cells = [
            " ".join([*(head[column] for head in heads if head[column]), cell]) if column else cell
            for column, cell in enumerate(row)
        ]
        out.append(" ".join(cells))
    return out


def head_count(rows: Sequence[Sequence[str]]) -> int:
    """Number of head rows: those above the first row of numbers, or one where no row holds numbers."""
    for count, row in enumerate(rows):
        numbers = sum(bool(_NUMBER.match(cell)) and not _YEAR.match(cell) for cell in row)
        if numbers >= 2 or (numbers == 1 and len(row) <= 3):
            return min(count, 4)
    return min(1, len(rows))


def _spread(head: Sequence[str], width: int) -> list[str]:
    """Heads laid over ``width`` columns; empty where the shape does not tell."""
    if len(head) == width:
        return list(head)
    for skipped, cells in ((1, list(head)), (1, list(head[1:]))):
        columns = width - skipped
        if cells and columns > 0 and columns % len(cells) == 0:
            return [""] * skipped + [cell for cell in cells for _ in range(columns // len(cells))]
    return [""] * width
