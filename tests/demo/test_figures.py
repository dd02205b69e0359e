"""Figures of every kind: nothing is printed over anything else, and points lie where the axes say."""

from __future__ import annotations

import io
import itertools
from itertools import pairwise
from typing import Any

import pymupdf
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from reportlab.pdfgen.canvas import Canvas
from typeset.axes import Labels, log_ticks, ticks_inside
from typeset.ecg import beats, trace
from typeset.figure_kinds import Ecg, read_figure
from typeset.figures import FigureFlowable, lay_out, rasterize

from medvrag_core.errors import InputError

WIDTHS = {"column of the journal": 193.0, "column of A4": 238.0, "page of the journal": 402.0, "page of A4": 493.0}
LINE = [[0, 1], [5, 4], [10, 2]]
FIGURES: dict[str, dict[str, Any]] = {
    "forest": {
        "rows": [["Women under 40 years", 0.72, 0.55, 0.94], ["Men", 0.95, 0.8, 1.13], ["All", 0.84, 0.74, 0.96]],
        "x_label": "Hazard ratio (log scale), below 1 favors treatment",
        "log_x": True,
    },
    "survival": {
        "x_label": "Months",
        "y_label": "Share without an event",
        "arms": {
            "Standard care": [[0, 1], [6, 0.7], [24, 0.4]],
            "A long name of an arm": [[0, 1], [18, 0.6], [24, 0.5]],
        },
        "times": [0, 6, 12, 24],
        "at_risk": {"Standard care": [1200, 80, 60, 30], "A long name of an arm": [118, 100, 90, 71]},
    },
    "tree": {
        "nodes": {"a": "Fever", "b": "Film positive", "c": "Film negative", "d": "Treat", "e": "Repeat after 12 h"},
        "edges": [["a", "b", "0.2"], ["a", "c", "0.8"], ["b", "d", "severe, or more than 2 %"], ["c", "e", "no rash"]],
    },
    "nomogram": {
        "x_label": "Hours",
        "y_label": "Level (mg/L)",
        "x": [4, 24],
        "y": [5, 500],
        "log_y": True,
        "lines": {"Treatment line": [[4, 150], [24, 6]], "Lower line": [[4, 100], [24, 5]]},
        "regions": [[16, 200, "Treat at once"], [7, 12, "No treatment"]],
        "points": [[8, 100, "Patient A"], [8.4, 95, "Patient B"], [20, 200, "Patient C"]],
    },
    "growth": {
        "x_label": "Age (months)",
        "y_label": "Weight (kg)",
        "curves": {name: [[0, 3 + at], [24, 11 + at]] for name, at in {"3rd": 0, "15th": 0.2, "97th": 3}.items()},
        "points": [[0, 3.2, "visit 1"], [12, 8, "visit 2"], [14, 8.1, "visit 3"]],
    },
    "ranges": {
        "rows": [
            {"name": "Sodium", "unit": "mmol/L", "low": 135, "high": 145, "min": 110, "max": 170, "value": 128},
            {"name": "Thyroid stimulating hormone", "unit": "mIU/L", "low": 0.1, "high": 2.5, "min": 0, "max": 100},
            {"name": "Lactate", "low": 0.5, "high": 2, "min": 0.5, "max": 20, "value": 20},
        ]
    },
    "ecg": {"rate": 72, "st_mm": 3, "seconds": 6},
    "bars": {
        "x": ["One", "Two words", "Three"],
        "series": {"Cases": [12, 37, 0], "Deaths": [1, 4, 2]},
        "x_label": "Month",
    },
    "curve": {
        "x_label": "Hours",
        "y_label": "Level",
        "lines": {"A": LINE, "B": [[0, 2], [10, 9]]},
        "marks": [[5, 4, "Peak"]],
    },
    "timeline": {"events": [["Week 0", "Blood count"], ["Week 12 of treatment", "Liver enzymes and a blood count"]]},
    "panels": {"panels": [{"title": "Phase 1", "lines": ["One thing"]}, {"title": "Phase 2", "lines": ["Another"]}]},
    "flowchart": {"nodes": {"a": "Start", "b": "Question?", "c": "End"}, "edges": [["a", "b"], ["b", "c", "yes"]]},
}
HIDDEN = ("forest", "bars", "curve")
CASES = [(kind, {}) for kind in FIGURES] + [(kind, {"values": "hidden"}) for kind in HIDDEN]


def figure(kind: str, **fields: Any) -> Any:
    given_fields = {"kind": kind, "anchor": "fig", "caption": "Caption."} | FIGURES[kind] | fields
    return read_figure(given_fields, "a figure")


def drawn(kind: str, width: float, **fields: Any) -> pymupdf.Page:
    art = lay_out(figure(kind, **fields), width)
    target = io.BytesIO()
    canvas = Canvas(target, pagesize=(art.width, art.height), invariant=1)
    art.paint(canvas)
    canvas.save()
    return pymupdf.open(stream=target.getvalue(), filetype="pdf")[0]


def inked(page: pymupdf.Page) -> list[tuple[pymupdf.Rect, str]]:
    """Lines of text with the boxes of their ink: capitals and digits fill the middle of a line."""
    lines = [line for block in page.get_text("dict")["blocks"] for line in block.get("lines", ())]
    boxes = []
    for line in lines:
        x0, y0, x1, y1 = line["bbox"]
        high = y1 - y0
        text = "".join(span["text"] for span in line["spans"])
        boxes.append((pymupdf.Rect(x0, y0 + 0.2 * high, x1, y1 - 0.2 * high), text))
    return [(box, text) for box, text in boxes if text.strip()]


@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
@pytest.mark.parametrize(("kind", "fields"), CASES, ids=lambda case: str(case))
def test_no_label_lies_on_another_or_leaves_the_figure(kind: str, fields: dict[str, Any], width: float) -> None:
    page = drawn(kind, width, **fields)
    lines = inked(page)
    assert lines
    for (first, text), (second, other) in itertools.combinations(lines, 2):
        assert not first.intersects(second), (text, other)
    for box, text in lines:
        assert box.x0 >= -0.5 and box.y0 >= -0.5 and box.x1 <= page.rect.width + 0.5, text
        assert box.y1 <= page.rect.height + 0.5, text


@pytest.mark.parametrize("kind", FIGURES)
def test_a_raster_figure_is_as_large_as_the_drawing_and_its_picture_the_same_each_time(kind: str) -> None:
    open_one, closed = FigureFlowable(figure(kind), 238.0), FigureFlowable(figure(kind, raster=True), 238.0)
    assert open_one.wrap(0, 0) == closed.wrap(0, 0)
    assert rasterize(closed.art) == rasterize(lay_out(figure(kind), 238.0))


@pytest.mark.parametrize(
    ("kind", "printed"), [("forest", "0.72 (0.55 to 0.94)"), ("bars", "37"), ("bars", "12")], ids=str
)
def test_hidden_values_are_not_printed(kind: str, printed: str) -> None:
    assert printed in [text for _, text in inked(drawn(kind, 402.0))]
    assert printed not in [text for _, text in inked(drawn(kind, 402.0, values="hidden"))]


def test_intervals_have_as_many_decimals_as_they_need() -> None:
    rows = [["A", -2.5, -4, -1], ["B", 0.5, -1, 2]]
    texts = [text for _, text in inked(drawn("forest", 402.0, rows=rows, log_x=False, null=0))]
    assert "−2.5 (−4.0 to −1.0)" in texts and "0.5 (−1.0 to 2.0)" in texts


def middles(page: pymupdf.Page) -> dict[str, tuple[float, float]]:
    return {text: ((box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2) for box, text in inked(page)}


def dots(page: pymupdf.Page) -> list[tuple[float, float]]:
    """Centers of filled circles."""
    found = [item["rect"] for item in page.get_drawings() if item["type"] == "f" and item["items"][0][0] == "c"]
    return [((box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2) for box in found]


@pytest.mark.parametrize(
    ("kind", "fields", "x", "y"),
    [
        ("nomogram", {"points": [[8, 100, "A"]]}, "8", "100"),
        ("nomogram", {"points": [[20, 20, "A"]]}, "20", "20"),
        ("growth", {"points": [[12, 8, "A"]]}, "12", "8"),
        ("curve", {"marks": [[4, 2, "A"]]}, "4", "2"),
    ],
)
def test_a_point_stands_over_its_number_on_one_axis_and_beside_that_on_the_other(
    kind: str, fields: dict[str, Any], x: str, y: str
) -> None:
    page = drawn(kind, 402.0, **fields)
    ((across, down),) = dots(page)
    boxes = inked(page)
    below = [box for box, text in boxes if text == x]
    beside = [box for box, text in boxes if text == y]
    assert min(abs((box.x0 + box.x1) / 2 - across) for box in below) < 0.5
    assert min(abs((box.y0 + box.y1) / 2 - down) for box in beside) < 1.5


def test_a_square_of_a_forest_plot_stands_at_its_estimate() -> None:
    rows = [["A", 1.0, 0.5, 2.0]]
    page = drawn("forest", 402.0, rows=rows)
    lines = [item["rect"] for item in page.get_drawings()]
    at = {text: x for text, (x, _) in middles(page).items()}
    square = next(box for box in lines if 4.5 < box.width < 5.1 and 4.5 < box.height < 5.1)
    assert abs((square.x0 + square.x1) / 2 - at["1"]) < 0.5
    ends = next(box for box in lines if abs(box.height) < 0.1 and abs((box.y0) - (square.y0 + square.y1) / 2) < 0.5)
    assert abs(ends.x0 - at["0.5"]) < 0.5 and abs(ends.x1 - at["2"]) < 0.5


def test_survival_falls_in_steps_from_the_first_time_to_the_last() -> None:
    page = drawn("survival", 402.0)
    curves = [item for item in page.get_drawings() if item["width"] and abs(item["width"] - 1.3) < 0.01]
    pieces = [[piece for piece in item["items"] if piece[0] == "l"] for item in curves]
    steps = [drawn_pieces for drawn_pieces in pieces if len(drawn_pieces) > 1]
    assert len(steps) == 2
    for lines in steps:
        assert all(abs(a.x - b.x) < 0.01 or abs(a.y - b.y) < 0.01 for _, a, b in lines)
        assert len({round(a.y, 1) for _, a, _ in lines} | {round(lines[-1][2].y, 1)}) == 3


def test_a_result_stands_where_its_track_says() -> None:
    row = {"name": "Sodium", "low": 130, "high": 150, "min": 110, "max": 170, "value": 150}
    at = {text: x for text, (x, _) in middles(drawn("ranges", 402.0, rows=[row])).items()}
    page = drawn("ranges", 402.0, rows=[row])
    (first, second) = [x for text, (x, _) in [(t, ((b.x0 + b.x1) / 2, 0)) for b, t in inked(page)] if text == "150"]
    assert abs(first - second) < 0.5
    assert at["110"] < at["130"] < at["150"] < at["170"]
    assert abs((at["130"] - at["110"]) - (at["170"] - at["150"])) < 0.5


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.floats(10, 190), st.floats(10, 140)), min_size=1, max_size=6))
def test_labels_stay_in_the_frame_and_off_each_other_and_off_all_points(points: list[tuple[float, float]]) -> None:
    labels = Labels("fig", (0, 0, 200, 150), points, [[(0, 0), (200, 150)]])
    boxes = []
    for number, (x, y) in enumerate(points):
        try:
            boxes.append(labels.place(x, y, f"Patient {number}")[1])
        except InputError:
            assert len(points) > 1, "a single label always finds a place"
    for left, bottom, right, top in boxes:
        assert left > 0 and bottom > 0 and right < 200 and top < 150
        assert not [point for point in points if left < point[0] < right and bottom < point[1] < top]
    for a, b in itertools.combinations(boxes, 2):
        assert a[2] < b[0] or b[2] < a[0] or a[3] < b[1] or b[3] < a[1]


@given(st.floats(0.01, 100), st.floats(1.5, 1000), st.integers(3, 9))
def test_marks_of_axes_are_in_order_and_inside(low: float, factor: float, wanted: int) -> None:
    for marks in (log_ticks(low, low * factor, wanted), ticks_inside(low, low * factor, wanted)):
        assert marks == sorted(set(marks))
        assert all(low * 0.998 <= mark <= low * factor * 1.002 for mark in marks)
    assert len(ticks_inside(low, low * factor, wanted)) >= 1


# --- electrocardiograms -----------------------------------------------------------------


def ecg(**fields: Any) -> Ecg:
    made = figure("ecg", **fields)
    assert isinstance(made, Ecg)
    return made


def peaks(strip: Ecg) -> list[float]:
    """Seconds at which the lead crosses half a millivolt upward."""
    return [b[0] for a, b in pairwise(trace(strip)) if a[1] < 0.6 <= b[1]]


@pytest.mark.parametrize("rate", [50, 75, 150])
def test_the_rate_is_what_a_ruler_finds(rate: int) -> None:
    found = peaks(ecg(rate=rate, st_mm=0, qt_ms=300))
    assert all(abs(b - a - 60 / rate) < 0.01 for a, b in pairwise(found))
    assert len(found) >= 6 * rate // 60 - 1


def test_beats_of_fibrillation_differ_and_have_no_p_wave() -> None:
    strip = beats(ecg(rhythm="fibrillation", rate=110))
    gaps = [b - a for a, b in pairwise(strip.qrs)]
    assert not strip.p and max(gaps) - min(gaps) > 0.2
    assert abs(sum(gaps) / len(gaps) - 60 / 110) < 0.06


def test_wenckebach_lengthens_pr_until_a_beat_is_dropped() -> None:
    strip = beats(ecg(rhythm="wenckebach", rate=80))
    waits = [min((beat - wave for beat in strip.qrs if beat > wave), default=9.0) for wave in strip.p][:4]
    assert waits[0] < waits[1] < waits[2] < 0.4 < waits[3]
    assert len(strip.qrs) == len(strip.p) - len(strip.p) // 4


def test_in_complete_block_atria_and_ventricles_keep_their_own_time() -> None:
    strip = beats(ecg(rhythm="complete_block", rate=36))
    assert {round(b - a, 3) for a, b in pairwise(strip.qrs)} == {round(60 / 36, 3)}
    waits = [min((beat - wave for beat in strip.qrs if beat > wave), default=0.0) for wave in strip.p]
    assert max(waits) - min(waits) > 0.5


def test_st_elevation_and_broad_complexes_can_be_measured() -> None:
    flat, raised = ecg(st_mm=0, rate=60), ecg(st_mm=3, rate=60)
    first = beats(flat).qrs[0]
    at = round((first + 0.09 + 0.06) / 0.004)
    assert abs(trace(raised)[at][1] - trace(flat)[at][1] - 0.3) < 0.02

    def width(strip: Ecg) -> int:
        return sum(level > 0.3 for _, level in trace(strip))

    assert width(ecg(rhythm="wide_tachycardia", qrs_ms=180, st_mm=0)) > 1.7 * width(ecg(qrs_ms=90, st_mm=0))


# --- what an author is told ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "fields", "said"),
    [
        ("forest", {"rows": [["A", 2, 0.5, 1]]}, "'rows': 'A' has an estimate outside its interval"),
        ("forest", {"rows": [["A", 0.5, 0, 1]]}, "log_x needs values above zero"),
        ("survival", {"arms": {"Standard care": [[0, 1], [3, 1.2]]}, "at_risk": {}}, "shares from 0 to 1"),
        ("survival", {"at_risk": {"Nobody": [1, 2, 3, 4]}}, "'Nobody' is not among the arms"),
        ("survival", {"at_risk": {"Standard care": [1, 2]}}, "2 numbers for 4 times"),
        ("tree", {"edges": [["a", "b"], ["a", "c"], ["b", "d"], ["c", "d"], ["c", "e"]]}, "'d' has 2 incoming edges"),
        ("tree", {"edges": [["a", "b"], ["c", "d"], ["d", "e"], ["e", "c"]]}, "they close a circle"),
        ("tree", {"edges": [["a", "x"]]}, "node 'x' is not among the nodes"),
        ("nomogram", {"points": [[2, 100, "Early"]]}, r"\(2, 100\) of 'Early' lies outside x and y"),
        ("nomogram", {"y": [0, 500]}, "log_y needs values above zero"),
        ("nomogram", {"x": [24, 4]}, r"give \[min, max\]"),
        ("ranges", {"rows": [{"name": "K", "low": 5, "high": 3, "min": 2, "max": 8}]}, "min <= low < high <= max"),
        (
            "ranges",
            {"rows": [{"name": "K", "low": 3, "high": 5, "min": 2, "max": 8, "value": 9}]},
            "outside min and max",
        ),
        ("bars", {"series": {"Cases": [1]}}, "'Cases' has 1 values for 3 labels"),
    ],
)
def test_faults_of_a_figure(kind: str, fields: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=rf"^a figure, field .*{said}"):
        figure(kind, **fields)


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("ecg", {"rhythm": "asystole"}),
        ("ecg", {"rate": 900}),
        ("forest", {"values": "secret"}),
        ("growth", {"color": "red"}),
    ],
)
def test_forms_of_fields_are_checked(kind: str, fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=next(iter(fields))):
        figure(kind, **fields)


@pytest.mark.parametrize(
    ("kind", "fields", "said"),
    [
        ("forest", {"rows": [["W" * 30, 1, 0.5, 2]]}, "has no room for its plot"),
        (
            "ranges",
            {"rows": [{"name": "W" * 30, "low": 3, "high": 5, "min": 2, "max": 8}]},
            "has no room for its tracks",
        ),
        ("tree", {"nodes": dict.fromkeys("abcde", "W" * 20)}, "layers do not fit side by side"),
        ("nomogram", {"points": [[8 + at / 100, 100, f"Patient {at}"] for at in range(30)]}, "finds no free place"),
    ],
)
def test_a_figure_that_does_not_fit_says_so(kind: str, fields: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        lay_out(figure(kind, **fields), 193.0)
