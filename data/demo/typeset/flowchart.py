"""Flowcharts drawn top-down in layers, with arrows routed between the boxes."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from reportlab.lib.colors import white

from medvrag_core.errors import InputError
from typeset.draw import INK, LEADING, LINE, PALE, TINT, arrow, longest_word, put_lines, text_width, wrap
from typeset.figure_kinds import Flowchart

_PAD = 5.0
_SLOT_GAP = 9.0
_LABEL = 6.6
_LABEL_LEADING = 7.6
_LANE = 9.0


@dataclass
class _Cell:
    """A box, or a point that a long arrow passes through (``lines`` empty)."""

    name: str
    layer: int
    lines: list[str]
    width: float
    height: float
    x: float = 0.0
    top: float = 0.0


@dataclass
class _Link:
    """One piece of an arrow between neighboring layers."""

    upper: _Cell
    lower: _Cell
    label: list[str]
    head: bool
    x0: float = 0.0
    x1: float = 0.0
    track: int = 0


class FlowchartArt:
    """A flowchart laid out for a given width in points.

    Layers follow the longest path from the first boxes. Arrows that go back up run in a lane on the right.
    Raises :class:`InputError` when a layer holds more boxes than fit side by side.
    """

    def __init__(self, figure: Flowchart, width: float) -> None:
        self.figure = figure
        self.width = width
        down, self.back = _split_back_edges(figure)
        self.lanes = _LANE * len(self.back)
        layers = _layer_numbers(figure, down)
        self.rows: list[list[_Cell]] = [[] for _ in range(max(layers.values()) + 1)]
        self.cells: dict[str, _Cell] = {}
        for name in figure.nodes:
            cell = _Cell(name, layers[name], [""], 0.0, 0.0)
            self.cells[name] = cell
            self.rows[layers[name]].append(cell)
        self.links: list[_Link] = []
        for edge in down:
            self._link(edge)
        self._order()
        self._size_boxes()
        self._place_across()
        self._ports()
        self.height = self._place_down()

    def _link(self, edge: tuple[str, ...]) -> None:
        start, end = self.cells[edge[0]], self.cells[edge[1]]
        label = wrap(edge[2], 62, _LABEL) if len(edge) == 3 else []
        upper = start
        for layer in range(start.layer + 1, end.layer):
            point = _Cell(f"{edge[0]}>{edge[1]}", layer, [], 4.0, 0.0)
            self.rows[layer].append(point)
            self.links.append(_Link(upper, point, label, head=False))
            upper, label = point, []
        self.links.append(_Link(upper, end, label, head=True))

    def _neighbors(self, cell: _Cell) -> tuple[list[_Cell], list[_Cell]]:
        return (
            [link.upper for link in self.links if link.lower is cell],
            [link.lower for link in self.links if link.upper is cell],
        )

    def _order(self) -> None:
        """Sort each layer by the mean place of its neighbors, downward and upward in turn."""
        for sweep in range(6):
            side = sweep % 2
            rows = self.rows if side == 0 else self.rows[::-1]
            for before, row in pairwise(rows):
                place = {id(cell): position / max(len(before) - 1, 1) for position, cell in enumerate(before)}
                own = {id(cell): position / max(len(row) - 1, 1) for position, cell in enumerate(row)}

                def key(
                    cell: _Cell, place: dict[int, float] = place, own: dict[int, float] = own, s: int = side
                ) -> float:
                    near = [place[id(other)] for other in self._neighbors(cell)[s] if id(other) in place]
                    return sum(near) / len(near) if near else own[id(cell)]

                row.sort(key=key)

    def _size_boxes(self) -> None:
        room = self.width - self.lanes
        for row in self.rows:
            boxes = [cell for cell in row if cell.lines]
            points = len(row) - len(boxes)
            share = (room - _SLOT_GAP * (len(row) - 1) - 4.0 * points) / max(len(boxes), 1)
            for cell in boxes:
                text = self.figure.nodes[cell.name]
                decision = self.figure.shape.get(cell.name) == "decision"
                side = 2 * _PAD + (10.0 if decision else 0.0)
                cell.width = min(share, 150.0)
                if longest_word(text) + side > cell.width + 0.01:
                    raise InputError(
                        f"figure '{self.figure.anchor}', field 'nodes': '{cell.name}' does not fit, "
                        f"{len(boxes)} boxes stand side by side",
                        way_out="write span: page, or fewer words",
                    )
                cell.lines = wrap(text, cell.width - side)
                cell.width = max(text_width(line) for line in cell.lines) + side
                cell.width = min(max(cell.width, 44.0), share)
                cell.height = len(cell.lines) * LEADING + 2 * _PAD - 2

    def _place_across(self) -> None:
        room = self.width - self.lanes
        for row in self.rows:
            slack = room - sum(cell.width for cell in row)
            x = slack / (len(row) + 1)
            for cell in row:
                cell.x = x + cell.width / 2
                x += cell.width + slack / (len(row) + 1)
        for sweep in range(8):
            side = sweep % 2
            for row in self.rows if side == 0 else self.rows[::-1]:
                wanted = []
                for cell in row:
                    near = self._neighbors(cell)[side] or [cell]
                    wanted.append(sum(other.x for other in near) / len(near))
                _settle(row, wanted, room)
        cells = [cell for row in self.rows for cell in row]
        left = min(cell.x - cell.width / 2 for cell in cells)
        right = max(cell.x + cell.width / 2 for cell in cells)
        for cell in cells:
            cell.x += (room - left - right) / 2

    def _ports(self) -> None:
        """Spread the ends of arrows along the edge of a box so that no two share a line."""
        for cell in (cell for row in self.rows for cell in row):
            for links, end in (
                ([link for link in self.links if link.upper is cell], "x0"),
                ([link for link in self.links if link.lower is cell], "x1"),
            ):
                links.sort(key=lambda link: link.lower.x if end == "x0" else link.upper.x)
                step = min(cell.width * 0.8 / max(len(links), 1), 30.0) if cell.lines else 0.0
                for number, link in enumerate(links):
                    setattr(link, end, cell.x + (number - (len(links) - 1) / 2) * step)
        for link in self.links:
            if abs(link.x0 - link.x1) < 4.0:
                alone_above = sum(other.upper is link.upper for other in self.links) == 1
                link.x0, link.x1 = (link.x1, link.x1) if alone_above else (link.x0, link.x0)

    def _place_down(self) -> float:
        y = 0.0
        self.gaps: list[float] = []
        for number, row in enumerate(self.rows):
            height = max(cell.height for cell in row)
            for cell in row:
                cell.top = -y - (height - cell.height) / 2
            y += height
            if number + 1 < len(self.rows):
                here = [link for link in self.links if link.upper.layer == number]
                tracks = _assign_tracks(here)
                label = max((len(link.label) for link in here), default=0) * _LABEL_LEADING
                self.gaps.append(10.0 + 5.0 * max(tracks - 1, 0) + label + (2.0 if label else 0.0))
                y += self.gaps[-1]
        for cell in (cell for row in self.rows for cell in row):
            cell.top += y + 1
        self.bands = [(max(cell.top for cell in row), min(cell.top - cell.height for cell in row)) for row in self.rows]
        return y + 2

    def paint(self, canvas: Any) -> None:
        """Draw arrows, boxes and labels, in this order, so that labels stay on top."""
        for link in self.links:
            arrow_points = self._route(link)
            if link.head:
                arrow(canvas, arrow_points)
            else:
                canvas.setStrokeColor(LINE)
                canvas.setLineWidth(0.8)
                for start, end in pairwise(arrow_points):
                    canvas.line(*start, *end)
        for lane, edge in enumerate(self.back):
            self._paint_back(canvas, edge, lane)
        for cell in self.cells.values():
            self._paint_box(canvas, cell)
        for link in self.links:
            if link.label:
                self._paint_label(canvas, link)

    def _route(self, link: _Link) -> list[tuple[float, float]]:
        bottom = link.upper.top - link.upper.height
        # A point of a long arrow has no box: its line runs through the whole band of the layer.
        end = link.lower.top if link.lower.lines else self.bands[link.lower.layer][1]
        turn = self.bands[link.upper.layer][1] - 5.0 - 5.0 * link.track
        start = bottom if link.upper.lines else self.bands[link.upper.layer][1]
        if abs(link.x0 - link.x1) < 0.5:
            return [(link.x0, start), (link.x1, end)]
        return [(link.x0, start), (link.x0, turn), (link.x1, turn), (link.x1, end)]

    def _paint_label(self, canvas: Any, link: _Link) -> None:
        width = max(text_width(line, _LABEL) for line in link.label)
        bottom = self.bands[link.upper.layer + 1][0]
        top = bottom + 4.0 + len(link.label) * _LABEL_LEADING
        right_of = [
            other.x1 for other in self.links if other.upper.layer == link.upper.layer and other.x1 > link.x1 + 1
        ]
        fits_right = link.x1 + 4 + width <= min([self.width - self.lanes, *right_of])
        x = link.x1 + 3 if fits_right else link.x1 - 3 - width
        x = max(x, 0.0)
        canvas.setFillColor(white)
        canvas.rect(x - 0.5, top - len(link.label) * _LABEL_LEADING, width + 1, len(link.label) * _LABEL_LEADING, 0, 1)
        put_lines(canvas, link.label, x, top, size=_LABEL, leading=_LABEL_LEADING, align="left", color=LINE)

    def _paint_box(self, canvas: Any, cell: _Cell) -> None:
        left, bottom = cell.x - cell.width / 2, cell.top - cell.height
        shape = self.figure.shape.get(cell.name, "process")
        canvas.setStrokeColor(LINE)
        canvas.setLineWidth(0.8)
        canvas.setFillColor({"process": PALE, "decision": TINT, "terminal": white}[shape])
        if shape == "decision":
            path = canvas.beginPath()
            path.moveTo(left, bottom + cell.height / 2)
            path.lineTo(left + 5, cell.top)
            path.lineTo(left + cell.width - 5, cell.top)
            path.lineTo(left + cell.width, bottom + cell.height / 2)
            path.lineTo(left + cell.width - 5, bottom)
            path.lineTo(left + 5, bottom)
            path.close()
            canvas.drawPath(path, stroke=1, fill=1)
        else:
            canvas.roundRect(left, bottom, cell.width, cell.height, 6 if shape == "terminal" else 2, 1, 1)
        put_lines(canvas, cell.lines, cell.x, cell.top - _PAD + 1, color=INK)

    def _paint_back(self, canvas: Any, edge: tuple[str, ...], lane: int) -> None:
        start, end = self.cells[edge[0]], self.cells[edge[1]]
        x = self.width - self.lanes + _LANE * (lane + 0.6)
        y0, y1 = start.top - start.height / 2, end.top - end.height / 2 + 2 * lane
        arrow(canvas, [(start.x + start.width / 2, y0), (x, y0), (x, y1), (end.x + end.width / 2, y1)])
        if len(edge) == 3:
            lines = wrap(edge[2], 60, _LABEL)
            put_lines(
                canvas, lines, x - 3, y0 + 2 + len(lines) * _LABEL_LEADING, size=_LABEL, align="right", color=LINE
            )


def _split_back_edges(figure: Flowchart) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """Separate edges that close a cycle (found by depth-first search in the order written) from the rest."""
    back: list[tuple[str, ...]] = []
    state: dict[str, int] = {}

    def visit(name: str) -> None:
        state[name] = 1
        for edge in figure.edges:
            if edge[0] == name:
                if state.get(edge[1]) == 1:
                    back.append(edge)
                elif edge[1] not in state:
                    visit(edge[1])
        state[name] = 2

    for name in figure.nodes:
        if name not in state:
            visit(name)
    return [edge for edge in figure.edges if edge not in back], back


def _layer_numbers(figure: Flowchart, edges: list[tuple[str, ...]]) -> dict[str, int]:
    layers = dict.fromkeys(figure.nodes, 0)
    for _ in figure.nodes:
        for start, end, *_label in edges:
            layers[end] = max(layers[end], layers[start] + 1)
    return layers


def _settle(row: list[_Cell], wanted: list[float], room: float) -> None:
    """Move the cells of a row near the wanted centers, in order, without overlap and inside ``room``."""
    edge = 0.0
    for cell, x in zip(row, wanted, strict=True):
        cell.x = max(x, edge + cell.width / 2)
        edge = cell.x + cell.width / 2 + _SLOT_GAP
    limit = room
    for cell in reversed(row):
        cell.x = min(cell.x, limit - cell.width / 2)
        limit = cell.x - cell.width / 2 - _SLOT_GAP


def _assign_tracks(links: list[_Link]) -> int:
    """Give horizontal pieces that overlap, and do not start from one box, different heights."""
    tracks: list[list[_Link]] = []
    for link in sorted(links, key=lambda link: (abs(link.x0 - link.x1), link.x0)):
        if abs(link.x0 - link.x1) < 0.5:
            continue
        low, high = sorted((link.x0, link.x1))
        for number, track in enumerate(tracks):
            clear = all(
                other.upper is link.upper or high + 3 < min(other.x0, other.x1) or low - 3 > max(other.x0, other.x1)
                for other in track
            )
            if clear:
                track.append(link)
                link.track = number
                break
        else:
            link.track = len(tracks)
            tracks.append([link])
    return len(tracks)
