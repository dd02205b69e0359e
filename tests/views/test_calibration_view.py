"""Figures and tables of confidence: what is drawn is what was computed, and sentences follow from the numbers."""

from __future__ import annotations

import numpy as np
import pytest

from medvrag_core.evaluation.calibration.confidence import Confidences
from medvrag_core.evaluation.calibration.reliability import CalibrationReport, calibration_report
from medvrag_core.evaluation.calibration.selective import SelectiveReport, selective_report
from medvrag_core.settings import EvaluationSettings
from medvrag_core.views import calibration_view

QUICK = EvaluationSettings(bootstrap_samples=300)
HOSTILE = "<img src=x>"


def reports(*, bias: float = 0.0, informative: bool = True, n: int = 200) -> tuple[CalibrationReport, SelectiveReport]:
    rng = np.random.default_rng(1)
    confidence = rng.uniform(0.3, 1.0, n)
    right = rng.random(n) < (confidence - bias if informative else 0.65)
    given = Confidences(HOSTILE, "vote_share", tuple(f"q{i}" for i in range(n)), confidence, right, 3)
    return calibration_report(given, QUICK), selective_report(given, QUICK, target=0.7)


def test_the_reliability_figure_draws_every_bin_with_its_interval() -> None:
    report, _ = reports()
    diagonal, points = calibration_view.reliability_figure(report, caption="<b>").data
    assert list(diagonal.x) == list(diagonal.y) == [0, 1]
    assert list(points.text) == [f"{b.correct}/{b.n}" for b in report.bins]
    for number, b in enumerate(report.bins):
        assert points.y[number] - points.error_y.arrayminus[number] == pytest.approx(b.low)
        assert points.y[number] + points.error_y.array[number] == pytest.approx(b.high)
    assert "<img" not in points.name and "&lt;img" in points.name


def test_the_risk_figure_draws_the_points_inside_their_band() -> None:
    _, report = reports()
    band, line = calibration_view.risk_coverage_figure(report).data
    assert list(line.y) == pytest.approx([100 * (1 - p.accuracy) for p in report.points])
    half = len(report.points)
    assert all(band.y[i] >= line.y[i] >= band.y[2 * half - 1 - i] for i in range(half))
    assert line.x[-1] == pytest.approx(100)


def test_tables_hold_every_number_and_escape_names() -> None:
    report, selective = reports()
    html = calibration_view.calibration_table(report).html
    for value in (report.ece, report.ece_by_chance_high, report.brier.score, report.gap):
        assert f"{value:.3f}" in html
    assert "200 (without: 3)" in html and "<img" not in html
    assert len(calibration_view.coverage_table(selective).rows) == len(selective.points)
    a, b = calibration_view.abstention_table(selective).rows
    assert a[0] == f"A ({selective.abstention[0].chosen_n})" and b[0].startswith("B")
    assert f"{selective.abstention[0].threshold:.3f}" in a
    none = selective_report(
        Confidences("m", "vote_share", ("a", "b", "c"), np.full(3, 0.5), np.zeros(3, dtype=bool), 0), QUICK
    )
    assert [row[1] for row in calibration_view.abstention_table(none).rows] == ["none reaches 80%"] * 2


def test_without_shares_the_reader_is_told_what_to_do() -> None:
    assert "medvrag calibration --run RUN --run RUN" in calibration_view.source_sentence([])
    assert "share of runs that agree" in calibration_view.source_sentence([reports()[0]])


def test_sentences_follow_from_the_numbers() -> None:
    good, ranked = reports()
    assert "is not shown to be miscalibrated" in calibration_view.calibration_sentence(good)
    assert "ranks right answers above wrong ones" in calibration_view.ranking_sentence(ranked)
    sure, _ = reports(bias=0.3)
    assert "is miscalibrated, too sure by" in calibration_view.calibration_sentence(sure)
    shy, _ = reports(bias=-0.3)
    assert "not sure enough by" in calibration_view.calibration_sentence(shy)
    _, blind = reports(informative=False)
    assert "It is not shown that the confidence" in calibration_view.ranking_sentence(blind)
    turned = ranked.model_copy(update={"aurc": 0.9})
    assert "ranks wrong answers above right ones" in calibration_view.ranking_sentence(turned)
    unsure = ranked.model_copy(update={"p_value": 0.05})
    assert "It is not shown that the confidence" in calibration_view.ranking_sentence(unsure)


def test_the_text_says_what_the_tables_say() -> None:
    report, selective = reports()
    text = calibration_view.calibration_text(report, selective)
    for part in (f"{report.ece:.3f}", f"{selective.aurc:.3f}", "share of runs that agree", "chosen on half B"):
        assert part in text
    assert text.count(" of ") >= len(report.bins)
    assert calibration_view.calibration_sentence(report) in text
