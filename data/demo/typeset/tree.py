"""Decision trees from left to right, with the answer or probability of every branch on its line."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from reportlab.lib.colors import white

from medvrag_core.errors import InputError
from typeset.axes import SMALL, SMALL_LEADING
from typeset.draw import INK, LEADING, LINE, PALE, TINT, arrow, longest_word, put_lines, text_width, wrap
from typeset.figure_kinds import Tree

_PAD = 4.0
_BETWEEN = 6.0
_TRUNK = 6.0
_HEAD = 7.0


@dataclass
class _Node:
    name: str
    layer: int
    label: list[str]
    children: list[_Node] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    y: float = 0.0
    height: float = 0.0


class TreeArt:
    """The tree for a width in points; leaves stand below each other in the order of their edges.

    Raises :class:`InputError` when the words of a layer do not fit beside the others.
    """

    def __init__(self, figure: Tree, width: float) -> None:
        self.figure = figure
        self.width = width
        self.label_width = 58.0 if width < 250 else 84.0
        self.root = self._node(next(iter(figure.nodes)), 0, "")
        self.layers = self._by_layer()
        gaps = [
            max((text_width(line, SMALL) for node in layer for line in node.label), default=0.0) + _TRUNK + _HEAD + 6
            for layer in self.layers[1:]
        ]
        self.widths = self._box_widths(width - sum(gaps))
        # What the boxes leave free makes the branches longer, within reason.
        slack = (width - sum(self.widths) - sum(gaps)) / max(len(gaps), 1)
        self.gaps = [0.0, *(gap + min(slack, 30.0) for gap in gaps)]
        for layer, box in zip(self.layers, self.widths, strict=True):
            for node in layer:
                node.lines = wrap(figure.nodes[node.name], box - 2 * _PAD)
                node.height = len(node.lines) * LEADING + 2 * _PAD - 1
        self.height = self._stack(self.root, 0.0) + 1
        self._center(self.root)

    def _node(self, name: str, layer: int, label: str) -> _Node:
        node = _Node(name, layer, wrap(label, self.label_width, SMALL) if label else [])
        node.children = [
            self._node(edge[1], layer + 1, edge[2] if len(edge) == 3 else "")
            for edge in self.figure.edges
            if edge[0] == name
        ]
        return node

    def _by_layer(self) -> list[list[_Node]]:
        layers, ahead = [], [self.root]
        while ahead:
            layers.append(ahead)
            ahead = [child for node in ahead for child in node.children]
        return layers

    def _box_widths(self, room: float) -> list[float]:
        texts = [[self.figure.nodes[node.name] for node in layer] for layer in self.layers]
        least = [max(longest_word(text) for text in layer) + 2 * _PAD + 0.5 for layer in texts]
        if sum(least) > room:
            raise InputError(
                f"figure '{self.figure.anchor}', field 'nodes': {len(self.layers)} layers do not fit side by side",
                way_out="write span: page, or fewer words",
            )
        # What is left goes to the layers by the length of their texts.
        wish = [
            max(max(text_width(text) for text in layer) + 2 * _PAD + 0.5 - low, 0.0)
            for layer, low in zip(texts, least, strict=True)
        ]
        share = min(1.0, (room - sum(least)) / (sum(wish) or 1.0))
        return [min(low + more * share, 150.0) if low <= 150.0 else low for low, more in zip(least, wish, strict=True)]

    def _stack(self, node: _Node, y: float) -> float:
        """Give the leaves below ``node`` their middles, measured downward from ``y``; returns where the next begins."""
        # The label of a branch stands above its line, so it needs the upper half of the cell for itself.
        need = max(node.height, 2 * (len(node.label) * SMALL_LEADING + 2)) + _BETWEEN
        if not node.children:
            node.y = y + need / 2
            return y + need
        end = y
        for child in node.children:
            end = self._stack(child, end)
        node.y = (node.children[0].y + node.children[-1].y) / 2
        if end - y < need:
            shift = (need - (end - y)) / 2
            self._move(node, shift)
            return y + need
        return end

    def _move(self, node: _Node, shift: float) -> None:
        node.y += shift
        for child in node.children:
            self._move(child, shift)

    def _center(self, node: _Node) -> None:
        node.y = self.height - node.y
        for child in node.children:
            self._center(child)

    def _left(self, layer: int) -> float:
        return sum(self.widths[:layer]) + sum(self.gaps[: layer + 1])

    def paint(self, canvas: Any) -> None:
        """Draw the branches, their labels and the boxes."""
        for layer in self.layers:
            for node in layer:
                for child in node.children:
                    self._paint_branch(canvas, node, child)
        for layer in self.layers:
            for node in layer:
                self._paint_box(canvas, node)

    def _paint_branch(self, canvas: Any, node: _Node, child: _Node) -> None:
        start = self._left(node.layer) + self.widths[node.layer]
        end = self._left(child.layer)
        bend = start + _TRUNK
        arrow(canvas, [(start, node.y), (bend, node.y), (bend, child.y), (end, child.y)])
        top = child.y + len(child.label) * SMALL_LEADING + 1
        put_lines(canvas, child.label, bend + 3, top, size=SMALL, leading=SMALL_LEADING, align="left", color=LINE)

    def _paint_box(self, canvas: Any, node: _Node) -> None:
        left, width = self._left(node.layer), self.widths[node.layer]
        shape = self.figure.shape.get(node.name, "process")
        canvas.setStrokeColor(LINE)
        canvas.setLineWidth(0.8)
        canvas.setFillColor({"process": PALE, "decision": TINT, "terminal": white}[shape])
        radius = 6 if shape == "terminal" else 2
        canvas.roundRect(left, node.y - node.height / 2, width, node.height, radius, 1, 1)
        top = node.y + node.height / 2 - _PAD + 1
        put_lines(canvas, node.lines, left + width / 2, top, color=INK)
