"""What is placed on pages: one item for each block, with its footnotes, and how a paragraph or table is cut in two."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from reportlab.lib.colors import HexColor
from reportlab.platypus import Flowable, TableStyle
from reportlab.platypus import Paragraph as Text

from medvrag_core.errors import InputError
from typeset import style
from typeset.figures import FigureFlowable
from typeset.fonts import SANS, SERIF
from typeset.markup import lift_notes, markup
from typeset.paper import Paper
from typeset.parse import Block, Paragraph, Source, TableBlock
from typeset.tables import RULE, build_table

INSIDE = 3.5
"""Points between the parts of a table or figure."""
_HIGH = 10_000.0
_RULE = 7.0
_LEAST_ROWS = 3


@dataclass(frozen=True)
class Note:
    """A footnote with its number in the article."""

    number: int
    text: Any

    def height(self, width: float) -> float:
        """Height in points when set ``width`` points wide."""
        return float(self.text.wrap(width, _HIGH)[1])


@dataclass(frozen=True)
class Item:
    """One block with its flowables for a width (points); a float is kept in one piece unless it ``breaks``."""

    flowables: tuple[Any, ...]
    width: float
    anchor: str = ""
    floating: bool = False
    heading: bool = False
    before: float = 0.0
    notes: tuple[Note, ...] = ()
    turned: bool = False
    breaks: bool = False
    label: str = ""

    @property
    def height(self) -> float:
        """Height in points, without the space before it and without its footnotes."""
        heights = [flowable.wrap(self.width, _HIGH)[1] for flowable in self.flowables]
        return float(sum(heights) + INSIDE * (len(heights) - 1))

    def cut(self, room: float) -> tuple[Item, Item] | None:
        """The part of a paragraph that fits ``room`` and the rest, or ``None`` when too little would fit."""
        if room <= 0 or self.floating:
            return None
        parts = self.flowables[0].split(self.width, room)
        if len(parts) != 2:
            return None
        here = _marks(parts[0])
        first = tuple(note for note in self.notes if note.number in here)
        rest = tuple(note for note in self.notes if note.number not in here)
        return (
            replace(self, flowables=(parts[0],), notes=first),
            replace(self, flowables=(parts[1],), notes=rest, anchor="", before=0.0),
        )

    def broken(self, room: float) -> tuple[Item, Item] | None:
        """The rows of a long table that fit ``room`` and the rest under the header again, or ``None``."""
        if not self.breaks:
            return None
        caption, table, *note = self.flowables
        parts = table.split(self.width, room - caption.wrap(self.width, _HIGH)[1] - INSIDE)
        if len(parts) != 2 or len(parts[0]._cellvalues) < _LEAST_ROWS:
            return None
        parts[0].setStyle(TableStyle([("LINEBELOW", (0, -1), (-1, -1), 0.6, RULE)]))
        again = Text(f"<b>{self.label}</b> (continued)", style.CAPTION)
        return (
            replace(self, flowables=(caption, parts[0])),
            replace(self, flowables=(again, parts[1], *note), anchor=""),
        )


def _marks(paragraph: Any) -> set[int]:
    """Numbers of the footnotes that a part of a cut paragraph refers to: its raised digits."""
    # The parts hold words: their widths, each followed by pairs of a style and a text.
    pieces = [piece for word in paragraph.frags if isinstance(word, list) for piece in word[1:]]
    return {int(text) for part, text in pieces if part.rise > 0}


class NoteRule(Flowable):  # type: ignore[misc]
    """The short rule above footnotes."""

    def wrap(self, available_width: float, available_height: float) -> tuple[float, float]:
        """Size in points."""
        return available_width, _RULE

    def draw(self) -> None:
        """Draw on the flowable's canvas."""
        canvas: Any = self.canv
        canvas.setStrokeColor(HexColor("#9aa5b1"))
        canvas.setLineWidth(0.4)
        canvas.line(0, 2.5, 42, 2.5)


class Turned(Flowable):  # type: ignore[misc]
    """Flowables stacked on a page that is read from the right: turned by 90 degrees, text layer and all."""

    def __init__(self, item: Item, width: float) -> None:
        super().__init__()
        self._item = item
        self.width, self.height = width, item.width

    def wrap(self, available_width: float, available_height: float) -> tuple[float, float]:
        """Size in points, whatever is available."""
        return self.width, self.height

    def draw(self) -> None:
        """Draw on the flowable's canvas."""
        canvas: Any = self.canv
        canvas.saveState()
        canvas.translate(self.width, 0)
        canvas.rotate(90)
        top = self.width
        for number, flowable in enumerate(self._item.flowables):
            top -= flowable.wrapOn(canvas, self._item.width, _HIGH)[1] + (INSIDE if number else 0.0)
            flowable.drawOn(canvas, 0, top)
        canvas.restoreState()


def items_of(source: Source, paper: Paper) -> Iterator[Item]:
    """Every block of an article in order, its references last.

    Raises :class:`InputError` naming the file and the block that cannot be drawn.
    """
    notes = 0
    for block in source.blocks:
        item = _item(block, source.file, paper, notes)
        notes += len(item.notes)
        yield item
    if source.head.references:
        level = style.HEADINGS[2]
        yield Item((Text("References", level),), paper.column, heading=True, before=level.spaceBefore)
    for number, reference in enumerate(source.head.references, 1):
        text = Text(markup(reference, SERIF), style.REFERENCE, bulletText=f"{number}.")
        yield Item((text,), paper.column, before=style.REFERENCE.spaceBefore)


def _item(block: Block, file: str, paper: Paper, notes: int) -> Item:
    if isinstance(block, Paragraph):
        return _prose(block, paper, notes)
    label = f"{'Table' if isinstance(block, TableBlock) else 'Figure'} {block.number}."
    caption = Text(f"<b>{label}</b> {markup(block.caption, SANS)}", style.CAPTION)
    width = paper.text_width if block.span == "page" else paper.column
    if isinstance(block, TableBlock):
        if block.rotate:
            width = paper.top - paper.bottom
        note = (Text(markup(block.note, SANS), style.NOTE),) if block.note else ()
        parts = (caption, build_table(block, width, file), *note)
        turned, breaks = block.rotate, block.breaks
        return Item(parts, width, block.anchor, floating=True, turned=turned, breaks=breaks, label=label)
    try:
        figure = FigureFlowable(block, width)
    except InputError as error:
        raise InputError(f"{file}: {error.problem}", way_out=error.way_out) from None
    return Item((figure, caption), width, block.anchor, floating=True)


def _prose(block: Paragraph, paper: Paper, before: int) -> Item:
    if block.role == "heading":
        level = style.HEADINGS.get(block.level, style.HEADINGS[3])
        text = Text(markup(block.text, SANS), level)
        return Item((text,), paper.column, block.anchor, heading=True, before=level.spaceBefore)
    words, notes = lift_notes(block.text, before + 1)
    if block.role == "bullet":
        form, text = style.BULLET, Text(markup(words, SERIF), style.BULLET, bulletText="•")
    else:
        form, text = style.BODY, Text(markup(words, SERIF), style.BODY)
    set_notes = tuple(
        Note(number, Text(f'<super size="5.6" rise="2.6">{number}</super> {markup(note, SERIF)}', style.FOOTNOTE))
        for number, note in enumerate(notes, before + 1)
    )
    return Item((text,), paper.column, block.anchor, before=form.spaceBefore, notes=set_notes)
