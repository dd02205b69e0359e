"""Lay an article out on pages of one or two columns.

Layout is computed before anything is drawn: it yields the place of every block, and from
it the page of every anchor. Tables and figures float: one that does not fit goes to the
top of the next column (or page, when it spans both columns) and text fills the gap. A turned table gets the page after
the one on which it was due. Footnotes stand at the foot of the column that refers to them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from reportlab.platypus import Paragraph as Text

from medvrag_core.errors import InputError
from typeset import style
from typeset.fonts import SANS, SERIF, register
from typeset.items import INSIDE, Item, Note, NoteRule, Turned, items_of
from typeset.markup import markup
from typeset.paper import Paper
from typeset.parse import Head, Source

_AROUND_FLOAT = 9.0
_AFTER_HEADING = 30.0
_HIGH = 10_000.0
_FORMS = {
    "review": "REVIEW",
    "guideline": "GUIDELINE SUMMARY",
    "trial": "TRIAL REPORT",
    "cases": "CASE SERIES",
    "protocol": "PROTOCOL",
    "handbook": "HANDBOOK",
}


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

    head: Head
    paper: Paper
    placed: list[Placed] = field(default_factory=list)
    anchors: dict[str, int] = field(default_factory=dict)
    pages: int = 0


@dataclass(frozen=True)
class _State:
    """What is still to be set: text in order, then floats waiting for a column, a page top, or a page of their own."""

    queue: tuple[Item, ...]
    column_floats: tuple[Item, ...] = ()
    page_floats: tuple[Item, ...] = ()
    turned: tuple[Item, ...] = ()

    @property
    def is_done(self) -> bool:
        return not (self.queue or self.column_floats or self.page_floats or self.turned)


@dataclass
class _Filled:
    """The outcome of filling the columns of one page; ``foot`` is the upper edge of its highest footnotes."""

    state: _State
    placed: list[Placed]
    anchors: list[str]
    lowest: float
    foot: float


def lay_out_article(source: Source) -> Layout:
    """Place every block of ``source``.

    Raises :class:`InputError` naming the file and the block that cannot be placed.
    """
    register()
    paper = Paper.of(source.head)
    layout = Layout(source.head, paper)
    state = _State(tuple(items_of(source, paper)))
    for item in state.queue:
        _check_size(item, paper, source.file)
    while not state.is_done:
        layout.pages += 1
        top = paper.top
        if layout.pages == 1:
            top = _stack(layout, _title_block(source), top) - 10
        state, top = _place_page_floats(layout, state, top, paper.bottom)
        filled = _balanced(state, paper, layout.pages, top)
        if not filled.placed and filled.state == state and top == paper.top:
            raise InputError(f"{source.file}: nothing fits on page {layout.pages}")
        layout.placed += filled.placed
        layout.anchors.update(dict.fromkeys(filled.anchors, layout.pages))
        state = filled.state
        if not state.queue and not state.column_floats:
            # A wide float left at the end goes below the last text when there is room.
            state, _ = _place_page_floats(layout, state, filled.lowest - _AROUND_FLOAT, filled.foot)
        if not state.page_floats:
            # Wide tables and figures that came before a turned one go before it.
            for item in state.turned:
                _place_turned(layout, item)
            state = replace(state, turned=())
    return layout


def _check_size(item: Item, paper: Paper, file: str) -> None:
    room = paper.text_width if item.turned else paper.top - paper.bottom
    if (item.floating or item.anchor) and not item.breaks and item.height > room:
        way_out = (
            "write breaks: true" if item.turned else "write span: page, breaks: true for a table, or split it in two"
        )
        raise InputError(
            f"{file}, '{item.anchor}': {item.height:.0f} points high, there is room for {room:.0f}", way_out=way_out
        )


def _title_block(source: Source) -> tuple[Any, ...]:
    head = source.head
    return (
        Text(_FORMS[head.form], style.KICKER),
        Text(markup(head.title, SANS), style.TITLE),
        Text(f"<b>Abstract.</b> {markup(head.abstract, SERIF)}", style.ABSTRACT),
        Text(f"<b>Keywords:</b> {markup(', '.join(head.keywords), SANS)}", style.KEYWORDS),
    )


def _stack(layout: Layout, flowables: Iterable[Any], top: float) -> float:
    """Place flowables over the full text width from ``top`` down; returns the new top."""
    width = layout.paper.text_width
    for flowable in flowables:
        top -= flowable.wrap(width, _HIGH)[1]
        layout.placed.append(Placed(layout.pages, layout.paper.margin, top, width, flowable))
        top -= max(INSIDE, flowable.getSpaceAfter())
    return top


def _place_page_floats(layout: Layout, state: _State, top: float, floor: float) -> tuple[_State, float]:
    while state.page_floats:
        item, *rest = state.page_floats
        if item.height > top - floor:
            parts = item.broken(top - floor)
            if parts is None:
                break
            item, rest = parts[0], [parts[1], *rest]
        if item.anchor:
            layout.anchors[item.anchor] = layout.pages
        top = _stack(layout, item.flowables, top) - _AROUND_FLOAT - 2
        state = replace(state, page_floats=tuple(rest))
    return state, top


def _place_turned(layout: Layout, item: Item) -> None:
    """Give a turned table a page of its own, or as many as it breaks into."""
    paper, rest = layout.paper, item
    while True:
        layout.pages += 1
        parts = rest.broken(paper.text_width) if rest.height > paper.text_width else None
        now = parts[0] if parts else rest
        if now.anchor:
            layout.anchors[now.anchor] = layout.pages
        turned = Turned(now, paper.text_width)
        layout.placed.append(Placed(layout.pages, paper.margin, paper.bottom, paper.text_width, turned))
        if parts is None:
            return
        rest = parts[1]


def _balanced(state: _State, paper: Paper, page: int, top: float) -> _Filled:
    """Fill the page; when all the text fits, use the lowest height that still holds it, so columns end level."""
    full = _fill(state, paper, page, top, top - paper.bottom)
    if paper.columns == 1 or full.state.queue or full.state.column_floats:
        return full
    height = 60.0
    while height < top - paper.bottom:
        trial = _fill(state, paper, page, top, height)
        if not trial.state.queue and not trial.state.column_floats:
            return trial
        height += 6.0
    return full


class _Column:
    """One column while it is filled: how far text has come, and what its footnotes take at the foot of the page."""

    def __init__(self, page: int, x: float, paper: Paper, top: float, height: float) -> None:
        self._page, self._x, self._paper = page, x, paper
        self.top, self.y, self.height = top, top, height
        self.after_float = self.has_text = False
        self.placed: list[Placed] = []
        self._trailing: list[Item] = []
        self._notes: list[Note] = []

    def gap(self, item: Item) -> float:
        """Space between what stands above and ``item``."""
        if self.y == self.top:
            return 0.0
        return _AROUND_FLOAT if item.floating or self.after_float else item.before

    def room(self, item: Item) -> float:
        """Points that ``item`` may take, its footnotes set already."""
        notes = self._notes_height([*self._notes, *item.notes])
        return self.y - self.gap(item) - max(self.top - self.height, self._paper.bottom + notes)

    def put(self, item: Item, before: float) -> None:
        """Place an item below what stands."""
        self.y -= before
        for number, flowable in enumerate(item.flowables):
            self.y -= flowable.wrap(item.width, _HIGH)[1] + (INSIDE if number else 0.0)
            self.placed.append(Placed(self._page, self._x, self.y, item.width, flowable))
        self._notes += item.notes
        self._trailing = [*self._trailing, item] if item.heading else []
        self.after_float = item.floating
        self.has_text |= not item.floating

    def take_back_headings(self) -> list[Item]:
        """Remove headings that nothing followed; those that stand alone in a whole column stay."""
        alone = self.top == self._paper.top and len(self._trailing) == len(self.placed)
        if alone or not self._trailing:
            return []
        del self.placed[-len(self._trailing) :]
        # Where the next text goes no longer matters: the column is full.
        self.y = self.placed[-1].y if self.placed else self.top
        return self._trailing

    def close(self) -> float:
        """Place the footnotes; returns their upper edge."""
        edge = y = self._paper.bottom + self._notes_height(self._notes)
        for flowable in [NoteRule(), *(note.text for note in self._notes)] if self._notes else []:
            y -= flowable.wrap(self._paper.column, _HIGH)[1]
            self.placed.append(Placed(self._page, self._x, y, self._paper.column, flowable))
        return edge

    def _notes_height(self, notes: list[Note]) -> float:
        if not notes:
            return 0.0
        width = self._paper.column
        return float(NoteRule().wrap(width, 0)[1]) + sum(note.height(width) for note in notes)


def _fill(state: _State, paper: Paper, page: int, top: float, height: float) -> _Filled:
    queue, waiting = list(state.queue), list(state.column_floats)
    wide, turned = list(state.page_floats), list(state.turned)
    placed: list[Placed] = []
    anchors: list[str] = []
    lowest, foot = top, paper.bottom
    # A height below the full one is a trial of level columns, in which no table is to break.
    may_break = height == top - paper.bottom
    for number in range(paper.columns):
        column = _Column(page, paper.column_left(number), paper, top, height)
        last = number == paper.columns - 1

        def put(item: Item, before: float | None = None, column: _Column = column) -> None:
            column.put(item, column.gap(item) if before is None else before)
            if item.anchor:
                anchors.append(item.anchor)

        while True:
            # One column takes all floats that wait; of two, each takes one, so that text stays near.
            at_top = column.y == top or (paper.columns == 1 and column.after_float and not column.has_text)
            if waiting and (at_top or not queue):
                if waiting[0].height <= column.room(waiting[0]):
                    put(waiting.pop(0))
                    continue
                parts = waiting[0].broken(column.room(waiting[0])) if may_break else None
                if parts:
                    put(parts[0])
                    waiting[0] = parts[1]
                    break
            if not queue:
                break
            item = queue[0]
            room = column.room(item)
            if item.floating:
                queue.pop(0)
                if item.turned:
                    turned.append(item)
                elif item.width > paper.column:
                    wide.append(item)
                elif not waiting and item.height <= room:
                    put(item)
                elif not waiting and may_break and (parts := item.broken(room)):
                    put(parts[0])
                    waiting.append(parts[1])
                    break
                else:
                    waiting.append(item)
                continue
            if item.height + _company(queue, last_column=last) <= room:
                put(item)
                queue.pop(0)
                continue
            parts = None if item.heading else item.cut(room)
            if parts and item.anchor:
                # An anchored paragraph stays on one page, or its page would not hold all of it.
                busy = waiting[0].height + _AROUND_FLOAT if waiting else 0.0
                if last or parts[1].height > height - busy:
                    parts = None
            if parts:
                put(parts[0])
                queue[0] = parts[1]
                break
            ahead = next((at for at, other in enumerate(queue) if other.floating), None)
            if ahead is None or waiting or queue[ahead].turned or queue[ahead].width > paper.column:
                break
            if queue[ahead].height > column.room(queue[ahead]) or column.y == top:
                break
            # The next float closes a gap that the text cannot fill.
            put(queue.pop(ahead), _AROUND_FLOAT)
        if queue:
            taken = column.take_back_headings()
            queue[:0] = taken
            anchors[:] = [anchor for anchor in anchors if anchor not in {item.anchor for item in taken}]
        lowest, foot = min(lowest, column.y), max(foot, column.close())
        placed += column.placed
    left = _State(tuple(queue), tuple(waiting), tuple(wide), tuple(turned))
    return _Filled(left, placed, anchors, lowest, foot)


def _company(queue: list[Item], *, last_column: bool) -> float:
    """Room that the first item wants below it: a heading takes the start of its text along (points)."""
    if not queue[0].heading:
        return 0.0
    follower = next((item for item in queue[1:] if not item.floating), None)
    if follower is None:
        return 0.0
    if follower.heading or (follower.anchor and last_column):
        return follower.height + follower.before
    return _AFTER_HEADING
