"""Lay an article out on two-column pages and write it as PDF.

Layout is computed before anything is drawn: it yields the place of every block, and from
it the page of every anchor. Tables and figures float: one that does not fit goes to the
top of the next column (or page, when it spans both columns) and text fills the gap.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from reportlab.lib.colors import HexColor
from reportlab.lib.units import mm
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import Paragraph as Text

from medvrag_core.errors import InputError
from typeset import style
from typeset.figures import FigureFlowable
from typeset.fonts import SANS, SERIF, register
from typeset.markup import markup, plain
from typeset.parse import Block, Paragraph, Source, TableBlock
from typeset.tables import build_table

JOURNAL = "MedVRAG Teaching Reviews"
NOTICE = "Teaching material for software research, not medical advice."
PAGE_WIDTH, PAGE_HEIGHT = 170 * mm, 240 * mm
MARGIN = 14 * mm
TOP, BOTTOM = PAGE_HEIGHT - 19 * mm, 17 * mm
GUTTER = 6 * mm
TEXT_WIDTH = PAGE_WIDTH - 2 * MARGIN
COLUMN = (TEXT_WIDTH - GUTTER) / 2
_AROUND_FLOAT = 9.0
_INSIDE_FLOAT = 3.5
_AFTER_HEADING = 30.0


@dataclass(frozen=True)
class _Item:
    """One block with its flowables for a width (points); a float is kept in one piece."""

    flowables: tuple[Any, ...]
    width: float
    anchor: str = ""
    floating: bool = False
    heading: bool = False
    before: float = 0.0

    @property
    def height(self) -> float:
        heights = [flowable.wrap(self.width, PAGE_HEIGHT)[1] for flowable in self.flowables]
        return float(sum(heights) + _INSIDE_FLOAT * (len(heights) - 1))


@dataclass(frozen=True)
class Placed:
    """A flowable with its lower left corner (points) and page number from 1."""

    page: int
    x: float
    y: float
    width: float
    flowable: Any


@dataclass
class Layout:
    """A laid out article: what goes where, how many pages, and the page of each anchor."""

    source: Source
    placed: list[Placed] = field(default_factory=list)
    anchors: dict[str, int] = field(default_factory=dict)
    pages: int = 0


@dataclass(frozen=True)
class _State:
    """What is still to be set: text in order, then floats waiting for a column or a page top."""

    queue: tuple[_Item, ...]
    column_floats: tuple[_Item, ...] = ()
    page_floats: tuple[_Item, ...] = ()


@dataclass
class _Filled:
    """The outcome of filling the two columns of one page."""

    state: _State
    placed: list[Placed]
    anchors: list[str]
    lowest: float


def lay_out_article(source: Source) -> Layout:
    """Place every block of ``source``.

    Raises :class:`InputError` naming the file and the block that cannot be placed.
    """
    register()
    layout = Layout(source)
    state = _State(tuple(_item(block, source.file) for block in source.blocks))
    for item in state.queue:
        room = TOP - BOTTOM
        if (item.floating or item.anchor) and item.height > room:
            raise InputError(
                f"{source.file}, '{item.anchor}': {item.height:.0f} points high, a column holds {room:.0f}",
                way_out="write span: page, or split it in two",
            )
    while state.queue or state.column_floats or state.page_floats:
        layout.pages += 1
        top = TOP
        if layout.pages == 1:
            top = _stack(layout, _title_block(source), top) - 10
        state, top = _place_page_floats(layout, state, top)
        filled = _balanced(state, layout.pages, top)
        if not filled.placed and filled.state == state and top == TOP:
            raise InputError(f"{source.file}: nothing fits on page {layout.pages}")
        layout.placed += filled.placed
        layout.anchors.update(dict.fromkeys(filled.anchors, layout.pages))
        state = filled.state
        if not state.queue and not state.column_floats:
            # A wide float left at the end goes below the last text when there is room.
            state, _ = _place_page_floats(layout, state, filled.lowest - _AROUND_FLOAT)
    return layout


def _item(block: Block, file: str) -> _Item:
    if isinstance(block, Paragraph):
        if block.role == "heading":
            level = style.HEADINGS.get(block.level, style.HEADINGS[3])
            return _Item((Text(markup(block.text, SANS), level),), COLUMN, block.anchor, False, True, level.spaceBefore)
        if block.role == "bullet":
            text = Text(markup(block.text, SERIF), style.BULLET, bulletText="•")
            return _Item((text,), COLUMN, block.anchor, before=style.BULLET.spaceBefore)
        return _Item(
            (Text(markup(block.text, SERIF), style.BODY),), COLUMN, block.anchor, before=style.BODY.spaceBefore
        )
    width = TEXT_WIDTH if block.span == "page" else COLUMN
    label = "Table" if isinstance(block, TableBlock) else "Figure"
    caption = Text(f"<b>{label} {block.number}.</b> {markup(block.caption, SANS)}", style.CAPTION)
    if isinstance(block, TableBlock):
        note = (Text(markup(block.note, SANS), style.NOTE),) if block.note else ()
        return _Item((caption, build_table(block, width, file), *note), width, block.anchor, floating=True)
    try:
        figure = FigureFlowable(block, width)
    except InputError as error:
        raise InputError(f"{file}: {error.problem}", way_out=error.way_out) from None
    return _Item((figure, caption), width, block.anchor, floating=True)


def _title_block(source: Source) -> tuple[Any, ...]:
    head = source.head
    return (
        Text("REVIEW", style.KICKER),
        Text(markup(head.title, SANS), style.TITLE),
        Text(f"<b>Abstract.</b> {markup(head.abstract, SERIF)}", style.ABSTRACT),
        Text(f"<b>Keywords:</b> {markup(', '.join(head.keywords), SANS)}", style.KEYWORDS),
    )


def _stack(layout: Layout, flowables: Iterable[Any], top: float) -> float:
    """Place flowables over the full text width from ``top`` down; returns the new top."""
    for flowable in flowables:
        top -= flowable.wrap(TEXT_WIDTH, PAGE_HEIGHT)[1]
        layout.placed.append(Placed(layout.pages, MARGIN, top, TEXT_WIDTH, flowable))
        top -= max(_INSIDE_FLOAT, flowable.getSpaceAfter())
    return top


def _place_page_floats(layout: Layout, state: _State, top: float) -> tuple[_State, float]:
    while state.page_floats and state.page_floats[0].height <= top - BOTTOM:
        item, *rest = state.page_floats
        layout.anchors[item.anchor] = layout.pages
        top = _stack(layout, item.flowables, top) - _AROUND_FLOAT - 2
        state = replace(state, page_floats=tuple(rest))
    return state, top


def _balanced(state: _State, page: int, top: float) -> _Filled:
    """Fill the page; when all the text fits, use the lowest height that still holds it, so columns end level."""
    full = _fill(state, page, top, top - BOTTOM)
    if full.state.queue or full.state.column_floats:
        return full
    height = 60.0
    while height < top - BOTTOM:
        trial = _fill(state, page, top, height)
        if not trial.state.queue and not trial.state.column_floats:
            return trial
        height += 6.0
    return full


def _fill(state: _State, page: int, top: float, height: float) -> _Filled:
    queue, waiting, wide = list(state.queue), list(state.column_floats), list(state.page_floats)
    placed: list[Placed] = []
    anchors: list[str] = []
    lowest = top

    def put(item: _Item, x: float, y: float, before: float) -> float:
        nonlocal lowest
        y -= before
        for number, flowable in enumerate(item.flowables):
            y -= flowable.wrap(item.width, PAGE_HEIGHT)[1] + (_INSIDE_FLOAT if number else 0.0)
            placed.append(Placed(page, x, y, item.width, flowable))
        if item.anchor:
            anchors.append(item.anchor)
        lowest = min(lowest, y)
        return y

    for column in (0, 1):
        x = MARGIN + column * (COLUMN + GUTTER)
        floor, y, after_float = top - height, top, False

        def gap(item: _Item, y: float = 0.0, after_float: bool = False) -> float:
            if y == top:
                return 0.0
            return _AROUND_FLOAT if item.floating or after_float else item.before

        while True:
            if waiting and (y == top or not queue) and waiting[0].height + gap(waiting[0], y) <= y - floor:
                y = put(waiting[0], x, y, gap(waiting[0], y))
                waiting.pop(0)
                after_float = True
                continue
            if not queue:
                break
            item = queue[0]
            before = gap(item, y, after_float)
            room = y - floor - before
            if item.floating:
                queue.pop(0)
                if item.width > COLUMN:
                    wide.append(item)
                elif not waiting and item.height <= room:
                    y, after_float = put(item, x, y, before), True
                else:
                    waiting.append(item)
                continue
            if item.height + _company(queue, last_column=column == 1) <= room:
                y, after_float = put(item, x, y, before), False
                queue.pop(0)
                continue
            parts = [] if item.heading else _split(item, room)
            if parts and item.anchor:
                # An anchored paragraph stays on one page, or its page would not hold all of it.
                busy = waiting[0].height + _AROUND_FLOAT if waiting else 0.0
                if column == 1 or parts[1].height > height - busy:
                    parts = []
            if parts:
                put(parts[0], x, y, before)
                queue[0] = parts[1]
                break
            ahead = next((at for at, other in enumerate(queue) if other.floating), None)
            if ahead is None or waiting or queue[ahead].width > COLUMN:
                break
            if queue[ahead].height + _AROUND_FLOAT > y - floor or y == top:
                break
            # The next float closes a gap that the text cannot fill.
            y, after_float = put(queue.pop(ahead), x, y, _AROUND_FLOAT), True
    return _Filled(_State(tuple(queue), tuple(waiting), tuple(wide)), placed, anchors, lowest)


def _company(queue: list[_Item], *, last_column: bool) -> float:
    """Room that the first item wants below it: a heading takes the start of its text along (points)."""
    if not queue[0].heading:
        return 0.0
    follower = next((item for item in queue[1:] if not item.floating), None)
    if follower is None:
        return 0.0
    if follower.heading or (follower.anchor and last_column):
        return follower.height + follower.before
    return _AFTER_HEADING


def _split(item: _Item, room: float) -> list[_Item]:
    """The part of a paragraph that fits ``room`` and the rest; empty when too little would fit."""
    if room <= 0:
        return []
    parts = item.flowables[0].split(item.width, room)
    if len(parts) != 2:
        return []
    return [replace(item, flowables=(parts[0],)), replace(item, flowables=(parts[1],), anchor="", before=0.0)]


def write_pdf(layout: Layout, path: Path) -> None:
    """Draw a layout to ``path``; the same layout gives the same bytes."""
    head = layout.source.head
    canvas = Canvas(str(path), pagesize=(PAGE_WIDTH, PAGE_HEIGHT), invariant=1, pageCompression=1)
    canvas.setTitle(plain(head.title))
    canvas.setAuthor(JOURNAL)
    canvas.setSubject(NOTICE)
    canvas.setKeywords(list(head.keywords))
    for page in range(1, layout.pages + 1):
        _running_lines(canvas, head.running, page, layout.pages)
        for item in layout.placed:
            if item.page == page:
                item.flowable.wrapOn(canvas, item.width, PAGE_HEIGHT)
                item.flowable.drawOn(canvas, item.x, item.y)
        canvas.showPage()
    canvas.save()


def _running_lines(canvas: Canvas, running: str, page: int, pages: int) -> None:
    canvas.setFillColor(HexColor("#4a5661"))
    canvas.setStrokeColor(HexColor("#9aa5b1"))
    canvas.setLineWidth(0.4)
    canvas.setFont(SANS, 7.4)
    left, right = MARGIN, PAGE_WIDTH - MARGIN
    canvas.drawString(left, PAGE_HEIGHT - 12.5 * mm, JOURNAL)
    canvas.drawRightString(right, PAGE_HEIGHT - 12.5 * mm, running)
    canvas.line(left, PAGE_HEIGHT - 14 * mm, right, PAGE_HEIGHT - 14 * mm)
    canvas.line(left, 13.5 * mm, right, 13.5 * mm)
    canvas.drawString(left, 10 * mm, NOTICE)
    canvas.drawRightString(right, 10 * mm, f"{page} of {pages}")
