"""Tables with a header row and horizontal rules, sized so that no word leaves its cell."""

from __future__ import annotations

import math
from typing import Any

from reportlab.lib.colors import HexColor
from reportlab.lib.styles import ParagraphStyle
from reportlab.platypus import Paragraph, Table, TableStyle

from medvrag_core.errors import InputError
from typeset.draw import longest_word, text_width
from typeset.fonts import SANS, register
from typeset.markup import markup, plain
from typeset.parse import TableBlock

_PAD = 3.0
_SIZES = (7.6, 7.2, 6.8)
RULE = HexColor("#34607f")


def column_widths(block: TableBlock, width: float, size: float) -> list[float] | None:
    """Widths in points that sum to ``width``; ``None`` when the longest words do not fit at ``size``."""
    columns = list(zip(*block.rows, strict=True))
    least = [
        max(
            longest_word(plain(head), size, bold=True),
            *(longest_word(plain(cell), size, bold="*" in cell) for cell in cells),
        )
        + 2 * _PAD
        + 0.5
        for head, cells in zip(block.columns, columns, strict=True)
    ]
    if sum(least) > width:
        return None
    if block.widths:
        share = list(block.widths)
    else:
        # The square root keeps a column of long texts from starving the short ones.
        share = [
            math.sqrt(max(text_width(plain(cell), size) for cell in (head, *cells)))
            for head, cells in zip(block.columns, columns, strict=True)
        ]
    wanted = [width * part / sum(share) for part in share]
    fixed = [False] * len(wanted)
    # Columns narrower than their longest word take what they need; the others share the rest.
    while True:
        short = [at for at, want in enumerate(wanted) if not fixed[at] and want < least[at]]
        if not short:
            return wanted
        for at in short:
            wanted[at], fixed[at] = least[at], True
        rest = width - sum(want for want, done in zip(wanted, fixed, strict=True) if done)
        total = sum(part for part, done in zip(share, fixed, strict=True) if not done)
        for at, part in enumerate(share):
            if not fixed[at]:
                wanted[at] = rest * part / total


def build_table(block: TableBlock, width: float, file: str) -> Any:
    """The table as a reportlab flowable of ``width`` points.

    Raises :class:`InputError` naming the file and the table when its words do not fit.
    """
    register()
    for size in _SIZES:
        widths = column_widths(block, width, size)
        if widths is not None:
            break
    else:
        raise InputError(
            f"{file}, table '{block.anchor}': the longest words of its {len(block.columns)} columns do not fit",
            way_out="write span: page, or fewer columns",
        )
    cell = ParagraphStyle("cell", fontName=SANS, fontSize=size, leading=size * 1.2)
    head = ParagraphStyle("head", parent=cell, fontName=f"{SANS}-Bold")
    rows = [[Paragraph(markup(text, SANS), head) for text in block.columns]]
    rows += [[Paragraph(markup(text, SANS), cell) for text in row] for row in block.rows]
    return Table(
        rows,
        colWidths=widths,
        repeatRows=1,
        style=TableStyle(
            [
                ("VALIGN", (0, 0), (-1, -1), "TOP"),
                ("LEFTPADDING", (0, 0), (-1, -1), _PAD),
                ("RIGHTPADDING", (0, 0), (-1, -1), _PAD),
                ("TOPPADDING", (0, 0), (-1, -1), 1.8),
                ("BOTTOMPADDING", (0, 0), (-1, -1), 2.4),
                ("BACKGROUND", (0, 0), (-1, 0), HexColor("#e6eef5")),
                ("LINEABOVE", (0, 0), (-1, 0), 0.9, RULE),
                ("LINEBELOW", (0, 0), (-1, 0), 0.6, RULE),
                ("LINEBELOW", (0, 1), (-1, -2), 0.25, HexColor("#c4ced8")),
                ("LINEBELOW", (0, -1), (-1, -1), 0.9, RULE),
            ]
        ),
    )
