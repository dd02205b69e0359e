"""Confidence against outcomes: reliability, risk and coverage, thresholds, and sentences that follow from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from medvrag_core.evaluation.calibration.reliability import CalibrationReport
from medvrag_core.evaluation.calibration.selective import Abstention, SelectiveReport
from medvrag_core.views.markup import escape
from medvrag_core.views.tables import HtmlTable, Number, counted, p_text
from medvrag_core.views.theme import GRAY, PALETTE, interval_bars, titled
from medvrag_core.views.trace_text import plain

if TYPE_CHECKING:
    import plotly.graph_objects as go

SOURCES = {"option_scores": "share of the answer in the last reply", "vote_share": "share of runs that agree"}


def reliability_figure(report: CalibrationReport, *, caption: str = "") -> go.Figure:
    """Accuracy of each bin against its mean confidence, with counts and intervals; the diagonal is calibrated."""
    import plotly.graph_objects as go

    bins = report.bins
    figure = go.Figure()
    figure.add_scatter(
        x=[0, 1], y=[0, 1], mode="lines", name="calibrated", line={"dash": "dot", "color": GRAY}, hoverinfo="skip"
    )
    figure.add_scatter(
        x=[b.confidence for b in bins],
        y=[b.accuracy for b in bins],
        mode="markers+text",
        name=f"{escape(report.system)} (ECE {report.ece:.3f}, by chance {report.ece_by_chance:.3f})",
        text=[f"{b.correct}/{b.n}" for b in bins],
        textposition="middle right",
        textfont={"size": 11},
        marker={"size": 9, "color": PALETTE[0]},
        error_y=interval_bars([(b.low, b.accuracy, b.high) for b in bins], PALETTE[0]),
        customdata=[[b.least, b.most, b.low, b.high] for b in bins],
        hovertemplate="confidence %{customdata[0]:.2f} to %{customdata[1]:.2f}: %{text} right, "
        "[%{customdata[2]:.2f}, %{customdata[3]:.2f}]<extra></extra>",
    )
    figure.update_xaxes(title=f"confidence: {SOURCES[report.source]}", range=[0, 1.04])
    figure.update_yaxes(title="share right, with interval", range=[0, 1.04])
    return titled(figure, "Reliability", caption, height=460)


def risk_coverage_figure(report: SelectiveReport, *, caption: str = "") -> go.Figure:
    """Share of wrong answers among the surest questions, intervals as a band; dotted: a confidence without meaning."""
    import plotly.graph_objects as go

    points = report.points
    coverage = [100 * p.coverage for p in points]
    figure = go.Figure()
    figure.add_scatter(
        x=[*coverage, *coverage[::-1]],
        y=[*(100 * (1 - p.low) for p in points), *(100 * (1 - p.high) for p in points[::-1])],
        fill="toself",
        fillcolor=PALETTE[0],
        opacity=0.15,
        line={"width": 0},
        hoverinfo="skip",
        showlegend=False,
    )
    figure.add_scatter(
        x=coverage,
        y=[100 * (1 - p.accuracy) for p in points],
        mode="lines+markers",
        name=f"{escape(report.system)} (AURC {report.aurc:.3f}, by chance {report.aurc_by_chance:.3f})",
        line={"color": PALETTE[0]},
        showlegend=True,
        customdata=[[p.n, p.threshold] for p in points],
        hovertemplate="%{x:.0f}% answered (%{customdata[0]}, confidence from %{customdata[1]:.2f}): "
        "%{y:.1f}% wrong<extra>%{fullData.name}</extra>",
    )
    figure.add_hline(y=100 * report.aurc_by_chance, line={"dash": "dot", "color": GRAY})
    figure.update_xaxes(title="questions answered, the surest first (%)", range=[0, 103])
    figure.update_yaxes(title="wrong among the answered (%)", range=[0, 103])
    return titled(figure, "Risk and coverage", caption, height=460)


def calibration_table(report: CalibrationReport, *, caption: str = "") -> HtmlTable:
    """Every measure of one arm; two arms side by side would need a paired test of each."""
    rows = [[name, Number(value)] for name, value in _measures(report)]
    return HtmlTable(["measure", report.system], rows, caption=caption)


def coverage_table(report: SelectiveReport, *, caption: str = "") -> HtmlTable:
    """Accuracy on the surest questions, by their share."""
    rows = [
        [
            Number(f"{100 * p.coverage:.0f}%"),
            Number(f"{p.threshold:.3f}"),
            Number(f"{p.correct} of {p.n}"),
            Number(f"{100 * p.accuracy:.1f}%"),
            Number(f"[{100 * p.low:.1f}%, {100 * p.high:.1f}%]"),
        ]
        for p in report.points
    ]
    return HtmlTable(["answered", "confidence from", "right", "accuracy", "interval"], rows, caption=caption)


def abstention_table(report: SelectiveReport, *, caption: str = "") -> HtmlTable:
    """The thresholds of both halves: what they reached where they were chosen, and what on the other half."""
    rows = []
    for found in report.abstention:
        if found.threshold is None or found.chosen_accuracy is None or found.answered is None:
            none = f"none reaches {report.target:.0%}"
            rows.append([f"{'AB'[found.half]} ({found.chosen_n})", none, *["–"] * 6])
            continue
        refused = found.tested_n - found.answered
        interval = "–" if found.low is None or found.high is None else f"[{found.low:.0%}, {found.high:.0%}]"
        rows.append(
            [
                f"{'AB'[found.half]} ({found.chosen_n})",
                Number(f"{found.threshold:.3f}"),
                Number(f"{found.chosen_accuracy:.1%}"),
                Number(f"{found.answered} of {found.tested_n}"),
                Number("–" if found.accuracy is None else f"{found.accuracy:.1%}"),
                Number(interval),
                Number(f"{found.refused_correct} of {refused}"),
                Number(p_text(found.p_value)),
            ]
        )
    columns = [
        "chosen on half (questions)",
        "confidence from",
        "right there",
        "other half: answered",
        "right of these",
        "interval",
        "right of the refused",
        "exact p",
    ]
    return HtmlTable(columns, rows, caption=caption)


def source_sentence(reports: Sequence[CalibrationReport]) -> str:
    """Where the confidence is from, or how to get one."""
    if not reports:
        return (
            "The reader of this run tells no share of its options, so one run says nothing about confidence: run the "
            "arm several times (seeds) and count votes, with medvrag calibration --run RUN --run RUN."
        )
    return f"Confidence: {', '.join(dict.fromkeys(SOURCES[r.source] for r in reports))}."


def calibration_sentence(report: CalibrationReport, *, alpha: float = 0.05) -> str:
    """Whether the run shows miscalibration, from the test against a calibrated system of the same size."""
    found = (
        f"ECE {report.ece:.3f} on {counted(report.n, 'question')}; a calibrated system of the same confidences would "
        f"show {report.ece_by_chance:.3f} on average, and more than {report.ece_by_chance_high:.3f} only rarely "
        f"(p {p_text(report.ece_p)})"
    )
    if report.ece_p >= alpha:
        return f"'{report.system}' is not shown to be miscalibrated: {found}."
    lean = "too sure" if report.gap_low > 0 else "not sure enough" if report.gap_high < 0 else ""
    gap = f", {lean} by {100 * abs(report.gap):.0f} points on average" if lean else ""
    return f"'{report.system}' is miscalibrated{gap}: {found}."


def ranking_sentence(report: SelectiveReport, *, alpha: float = 0.05) -> str:
    """Whether the confidence tells right from wrong, from the permutation test."""
    said = (
        f"AURC {report.aurc:.3f}, interval {report.aurc_low:.3f} to {report.aurc_high:.3f}, against "
        f"{report.aurc_by_chance:.3f} for a confidence that tells nothing; permutation p {p_text(report.p_value)}"
    )
    if report.p_value < alpha and report.aurc < report.aurc_by_chance:
        return f"The confidence of '{report.system}' ranks right answers above wrong ones ({said})."
    if report.p_value < alpha:
        return f"The confidence of '{report.system}' ranks wrong answers above right ones ({said})."
    return f"It is not shown that the confidence of '{report.system}' tells right from wrong ({said})."


def _measures(r: CalibrationReport) -> list[tuple[str, str]]:
    return [
        ("confidence", SOURCES[r.source]),
        ("questions with an answer", f"{r.n} (without: {r.unanswered})"),
        ("accuracy", f"{r.accuracy:.3f}"),
        ("mean confidence", f"{r.mean_confidence:.3f}"),
        ("confidence less accuracy [interval]", f"{r.gap:+.3f} [{r.gap_low:+.3f}, {r.gap_high:+.3f}]"),
        ("ECE, bins of equal mass [interval]", f"{r.ece:.3f} [{r.ece_low:.3f}, {r.ece_high:.3f}]"),
        ("bins", str(len(r.bins))),
        ("ECE if calibrated: mean, limit", f"{r.ece_by_chance:.3f}, {r.ece_by_chance_high:.3f}"),
        ("ECE beyond chance", f"{r.ece_beyond_chance:.3f}"),
        ("p-value, against calibrated", p_text(r.ece_p)),
        ("Brier score", f"{r.brier.score:.3f}"),
        ("its reliability (0 is best)", f"{r.brier.reliability:.3f}"),
        ("less its resolution (more is better)", f"{r.brier.resolution:.3f}"),
        ("its uncertainty", f"{r.brier.uncertainty:.3f}"),
        ("what varies within bins", f"{r.brier.within:+.3f}"),
        ("log loss (nats)", "infinite" if r.log_loss is None else f"{r.log_loss:.3f}"),
    ]


def calibration_text(report: CalibrationReport, selective: SelectiveReport) -> str:
    """Everything for the terminal."""
    lines = [f"{plain(report.system)}, {SOURCES[report.source]}"]
    lines += [f"  {name:40}{value}" for name, value in _measures(report)[1:]]
    lines.append(f"  {'AURC [interval]; by chance, best':40}{_aurc(selective)}")
    lines.append(f"  {'confidence':>12}{'right':>12}{'accuracy':>10}  interval")
    lines += [
        f"  {f'{b.least:.2f}-{b.most:.2f}':>12}{f'{b.correct} of {b.n}':>12}{b.accuracy:>10.3f}"
        f"  [{b.low:.3f}, {b.high:.3f}]"
        for b in report.bins
    ]
    lines += [_threshold_text(found, selective.target) for found in selective.abstention]
    return "\n".join([*lines, plain(calibration_sentence(report)), plain(ranking_sentence(selective))])


def _aurc(r: SelectiveReport) -> str:
    return f"{r.aurc:.3f} [{r.aurc_low:.3f}, {r.aurc_high:.3f}]; {r.aurc_by_chance:.3f}, {r.aurc_best:.3f}"


def _threshold_text(found: Abstention, target: float) -> str:
    place = f"threshold for {target:.0%} chosen on half {'AB'[found.half]}"
    if found.threshold is None:
        return f"{place}: none reaches it"
    right = "" if found.accuracy is None else f", {found.answered_correct} right"
    return f"{place}: {found.threshold:.3f}; on the other half it answers {found.answered} of {found.tested_n}{right}"
