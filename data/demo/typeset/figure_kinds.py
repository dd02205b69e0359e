"""The fields of every kind of figure, and what must hold among them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from medvrag_core.errors import InputError
from medvrag_core.records import Record

Span = Literal["column", "page"]
Number = Annotated[float, Field(allow_inf_nan=False)]
Point = tuple[Number, Number]
Mark = tuple[Number, Number, str]
Line = Annotated[tuple[Point, ...], Field(min_length=2)]
Values = Literal["shown", "hidden"]
"""Hidden values are not printed: they are read off the axis, which gets grid lines."""


class Figure(Record):
    """What all kinds of figure share."""

    anchor: str
    caption: str
    raster: bool = False
    span: Span = "column"
    number: int = 0


class _Boxes(Figure):
    """Boxes joined by arrows; an edge is ``(from, to)`` or ``(from, to, label)``."""

    nodes: dict[str, str] = Field(min_length=2)
    edges: tuple[Annotated[tuple[str, ...], Field(min_length=2, max_length=3)], ...] = Field(min_length=1)
    shape: dict[str, Literal["process", "decision", "terminal"]] = Field(default_factory=dict)


class Flowchart(_Boxes):
    """Boxes in layers from the top down."""

    kind: Literal["flowchart"]


class Tree(_Boxes):
    """Boxes that branch from left to right; every box but the first hangs on exactly one other."""

    kind: Literal["tree"]


class Bars(Figure):
    """Grouped bars; every series has one value for each label of ``x``."""

    kind: Literal["bars"]
    x: tuple[str, ...] = Field(min_length=1)
    series: dict[str, tuple[Number, ...]] = Field(min_length=1)
    unit: str = ""
    y_label: str = ""
    x_label: str = ""
    values: Values = "shown"


class Curve(Figure):
    """Lines through points, with labeled marks."""

    kind: Literal["curve"]
    x_label: str
    y_label: str
    lines: dict[str, Line] = Field(min_length=1)
    log_y: bool = False
    marks: tuple[Mark, ...] = ()
    values: Values = "shown"


class Timeline(Figure):
    """Dated events in order."""

    kind: Literal["timeline"]
    events: tuple[tuple[str, str], ...] = Field(min_length=2)


class Panel(Record):
    """One box of a panels figure."""

    title: str
    lines: tuple[str, ...]


class Panels(Figure):
    """Titled boxes side by side."""

    kind: Literal["panels"]
    panels: tuple[Panel, ...] = Field(min_length=2)


class Forest(Figure):
    """Estimates with intervals; a row is ``(label, estimate, low, high)``."""

    kind: Literal["forest"]
    rows: tuple[tuple[str, Number, Number, Number], ...] = Field(min_length=1)
    x_label: str
    null: Number = 1.0
    log_x: bool = False
    values: Values = "shown"


class Survival(Figure):
    """Step curves of shares from 0 to 1, with the number at risk below."""

    kind: Literal["survival"]
    x_label: str
    y_label: str
    arms: dict[str, Line] = Field(min_length=1)
    times: tuple[Number, ...] = ()
    at_risk: dict[str, tuple[int, ...]] = Field(default_factory=dict)


class Nomogram(Figure):
    """Lines that part a plane into zones, and patients in it."""

    kind: Literal["nomogram"]
    x_label: str
    y_label: str
    x: Point
    y: Point
    lines: dict[str, Line] = Field(min_length=1)
    regions: tuple[Mark, ...] = ()
    points: tuple[Mark, ...] = ()
    log_y: bool = False


class Growth(Figure):
    """Percentile curves named at their ends, and the visits of a child."""

    kind: Literal["growth"]
    x_label: str
    y_label: str
    curves: dict[str, Line] = Field(min_length=1)
    points: tuple[Mark, ...] = ()


class Range(Record):
    """One quantity of a reference-range panel; ``value`` is a patient's result."""

    name: str
    unit: str = ""
    low: Number
    high: Number
    min: Number
    max: Number
    value: Number | None = None


class Ranges(Figure):
    """Reference ranges on tracks, one below the other."""

    kind: Literal["ranges"]
    rows: tuple[Range, ...] = Field(min_length=1)


class Ecg(Figure):
    """One lead on millimeter paper, 25 mm/s and 10 mm/mV; ``st_mm`` above zero is elevation."""

    kind: Literal["ecg"]
    rate: Annotated[float, Field(ge=20, le=300)] = 75.0
    rhythm: Literal["sinus", "fibrillation", "flutter", "wenckebach", "complete_block", "wide_tachycardia"] = "sinus"
    pr_ms: Annotated[float, Field(ge=80, le=400)] = 160.0
    qrs_ms: Annotated[float, Field(ge=60, le=240)] = 90.0
    qt_ms: Annotated[float, Field(ge=200, le=700)] = 380.0
    st_mm: Annotated[float, Field(ge=-4, le=6)] = 0.0
    seconds: Annotated[float, Field(ge=2, le=10)] = 6.0


AnyFigure = Flowchart | Tree | Bars | Curve | Timeline | Panels | Forest | Survival | Nomogram | Growth | Ranges | Ecg
_FIGURE: TypeAdapter[AnyFigure] = TypeAdapter(Annotated[AnyFigure, Field(discriminator="kind")])


def read_figure(data: dict[str, Any], where: str) -> AnyFigure:
    """A figure of the given fields.

    Raises
    ------
    pydantic.ValidationError : a field is missing, unknown or of the wrong form
    InputError : fields that do not fit each other; the message begins with ``where`` and names the field
    """
    figure = _FIGURE.validate_python(data)
    fault = _fault(figure)
    if fault:
        raise InputError(f"{where}, field {fault}")
    return figure


def _fault(figure: AnyFigure) -> str:
    match figure:
        case Flowchart() | Tree():
            return _fault_of_boxes(figure)
        case Bars():
            for name, values in figure.series.items():
                if len(values) != len(figure.x):
                    return f"'series': '{name}' has {len(values)} values for {len(figure.x)} labels"
        case Forest():
            for label, estimate, low, high in figure.rows:
                if not low <= estimate <= high:
                    return f"'rows': '{label}' has an estimate outside its interval"
                if figure.log_x and min(low, figure.null) <= 0:
                    return f"'rows': log_x needs values above zero, '{label}' has {low:g}"
        case Survival():
            return _fault_of_survival(figure)
        case Nomogram():
            return _fault_of_nomogram(figure)
        case Ranges():
            for row in figure.rows:
                if not row.min <= row.low < row.high <= row.max:
                    return f"'rows': '{row.name}' needs min <= low < high <= max"
                if row.value is not None and not row.min <= row.value <= row.max:
                    return f"'rows': the value of '{row.name}' lies outside min and max"
    return ""


def _fault_of_boxes(figure: Flowchart | Tree) -> str:
    named = {name for edge in figure.edges for name in edge[:2]} | set(figure.shape)
    if unknown := sorted(named - set(figure.nodes)):
        return f"'edges': node '{unknown[0]}' is not among the nodes"
    if isinstance(figure, Tree):
        first = next(iter(figure.nodes))
        children = [edge[1] for edge in figure.edges]
        for name in figure.nodes:
            if children.count(name) != (name != first):
                return (
                    f"'edges': box '{name}' has {children.count(name)} incoming edges; in a tree the first box has "
                    "none and every other one; repeat a box that several lead to, or use flowchart"
                )
        reached, ahead = {first}, [first]
        while ahead:
            ahead = [edge[1] for edge in figure.edges if edge[0] in ahead]
            reached |= set(ahead)
        if len(reached) < len(figure.nodes):
            return "'edges': they close a circle"
    return ""


def _fault_of_survival(figure: Survival) -> str:
    for name, points in figure.arms.items():
        times = [time for time, _ in points]
        if times != sorted(times) or not all(0 <= share <= 1 for _, share in points):
            return f"'arms': '{name}' needs times in order and shares from 0 to 1"
    for name, numbers in figure.at_risk.items():
        if name not in figure.arms:
            return f"'at_risk': '{name}' is not among the arms"
        if len(numbers) != len(figure.times):
            return f"'at_risk': '{name}' has {len(numbers)} numbers for {len(figure.times)} times"
    return ""


def _fault_of_nomogram(figure: Nomogram) -> str:
    if figure.x[0] >= figure.x[1] or figure.y[0] >= figure.y[1]:
        return "'x' or 'y': give [min, max]"
    if figure.log_y and figure.y[0] <= 0:
        return "'y': log_y needs values above zero"
    inside = [(x, y, name) for name, line in figure.lines.items() for x, y in line]
    for x, y, name in (*inside, *figure.regions, *figure.points):
        if not (figure.x[0] <= x <= figure.x[1] and figure.y[0] <= y <= figure.y[1]):
            return f"'lines', 'regions' or 'points': ({x:g}, {y:g}) of '{name}' lies outside x and y"
    return ""
