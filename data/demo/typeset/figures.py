"""Figures as flowables: vector drawings, or images whose words are not in the text layer."""

from __future__ import annotations

import io
from typing import Any

import pymupdf
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import Flowable

from typeset.charts import BarsArt, CurveArt
from typeset.diagrams import PanelsArt, TimelineArt
from typeset.draw import Art
from typeset.ecg import EcgArt
from typeset.figure_kinds import (
    AnyFigure,
    Bars,
    Curve,
    Ecg,
    Flowchart,
    Forest,
    Growth,
    Nomogram,
    Panels,
    Ranges,
    Survival,
    Timeline,
    Tree,
)
from typeset.flowchart import FlowchartArt
from typeset.fonts import register
from typeset.plots import ForestArt, GrowthArt, NomogramArt, SurvivalArt
from typeset.ranges import RangesArt
from typeset.tree import TreeArt

RASTER_DPI = 200


def lay_out(figure: AnyFigure, width: float) -> Art:
    """The drawing of ``figure`` for ``width`` points; its height follows from its content."""
    register()
    match figure:
        case Flowchart():
            return FlowchartArt(figure, width)
        case Tree():
            return TreeArt(figure, width)
        case Bars():
            return BarsArt(figure, width)
        case Curve():
            return CurveArt(figure, width)
        case Timeline():
            return TimelineArt(figure, width)
        case Panels():
            return PanelsArt(figure, width)
        case Forest():
            return ForestArt(figure, width)
        case Survival():
            return SurvivalArt(figure, width)
        case Nomogram():
            return NomogramArt(figure, width)
        case Growth():
            return GrowthArt(figure, width)
        case Ranges():
            return RangesArt(figure, width)
        case Ecg():
            return EcgArt(figure, width)


def rasterize(art: Art) -> bytes:
    """PNG of a drawing at :data:`RASTER_DPI`; same drawing, same bytes."""
    page = io.BytesIO()
    canvas = Canvas(page, pagesize=(art.width, art.height), invariant=1)
    art.paint(canvas)
    canvas.save()
    with pymupdf.open(stream=page.getvalue(), filetype="pdf") as document:  # type: ignore[no-untyped-call]
        return bytes(document[0].get_pixmap(dpi=RASTER_DPI).tobytes("png"))


class FigureFlowable(Flowable):  # type: ignore[misc]
    """A figure as one block of fixed size (points)."""

    def __init__(self, figure: AnyFigure, width: float) -> None:
        super().__init__()
        self.art = lay_out(figure, width)
        self.raster = figure.raster
        self.width, self.height = width, self.art.height

    def wrap(self, available_width: float, available_height: float) -> tuple[float, float]:
        """Size in points, whatever is available."""
        return self.width, self.height

    def draw(self) -> None:
        """Draw on the flowable's canvas."""
        canvas: Any = self.canv
        canvas.saveState()
        if self.raster:
            canvas.drawImage(ImageReader(io.BytesIO(rasterize(self.art))), 0, 0, self.width, self.height)
        else:
            self.art.paint(canvas)
        canvas.restoreState()
