"""Tables and figures of contrasts: what is printed is what was computed, and nothing needed to judge it is left out."""

from __future__ import annotations

import json

import numpy as np
import pytest

from medvrag_core.evaluation.scoring import AccuracyReport
from medvrag_core.evaluation.statistics.contrasts import Contrast, Rules, Variant, contrast_family
from medvrag_core.evaluation.statistics.estimands import Arm
from medvrag_core.evaluation.statistics.near_duplicates import StemClusters
from medvrag_core.evaluation.statistics.power import FlipRate
from medvrag_core.views.contrast_view import (
    accuracy_by_arm,
    contrast_figure,
    contrasts_table,
    flips_table,
    sensitivity_table,
)
from medvrag_core.views.markup import escape

QUICK = Rules(resamples=500, permutations=2_000)


def made(**counts: tuple[int, int, int, int]) -> list[Contrast]:
    """A family of one contrast, by questions that both, only b, only a, and neither answer right in every set."""
    sets = tuple(name for name, cells in counts.items() for _ in range(sum(cells)))
    ids = tuple(f"q{i}" for i in range(len(sets)))

    def arm(name: str, pattern: tuple[bool, ...]) -> Arm:
        right = np.concatenate([np.repeat(pattern, cells) for cells in counts.values()])[None]
        return Arm(name, ids, sets, right, np.where(right, "x", "y"), ("x",) * len(ids), ("f",))

    arms = {"<i>a</i>": arm("<i>a</i>", (True, False, True, False)), "b": arm("b", (True, True, False, False))}
    return list(contrast_family(arms, {"one": ("<i>a</i>", "b")}, QUICK, family="<f>").values())


def test_one_set_stands_once_and_says_so() -> None:
    found = made(all=(60, 12, 3, 25))
    table = contrasts_table(found)
    assert "mean over" not in table.columns
    assert len(table.rows) == 1 and "mean of sets is the mean of questions" in table.caption
    effect = found[0].estimates[1]
    for part in ("12 / 3", "+9.0", f"[{effect.low:+.1f}, {effect.high:+.1f}]", "0.0352", "63.0 → 72.0", "100"):
        assert part in table.rows[0], part
    assert "exact McNemar" in table.caption and "exploratory" in table.caption
    assert len(contrast_figure(found).data) == 1


def test_two_sets_show_both_means_and_each_set() -> None:
    found = made(medqa=(60, 12, 3, 25), mmlu=(20, 2, 6, 12))
    table = contrasts_table(found)
    assert [row[1] for row in table.rows] == ["sets", "questions", "medqa", "mmlu"]
    points = table.columns.index("points")
    assert [row[points] for row in table.rows] == ["-0.5", "+3.6", "+9.0", "-10.0"]
    beside = contrasts_table(found, sets=False, beside=("other answers", ["7 of 140"]))
    assert [row[1] for row in beside.rows] == ["sets", "questions"]
    assert [row[beside.columns.index("other answers")] for row in beside.rows] == ["7 of 140"] * 2
    assert "coincide" not in table.caption and "sign flips" in table.caption
    assert "<i>" not in table.html and escape("family '<f>'") in table.html
    macro, weighted = contrast_figure(found).data
    assert (list(macro.x), list(weighted.x)) == ([pytest.approx(-0.5)], [pytest.approx(100 * 5 / 140)])
    assert macro.y[0] != weighted.y[0]


def test_the_figure_draws_the_interval_and_the_margin() -> None:
    found = made(all=(60, 12, 3, 25))
    effect = found[0].estimates[1]
    figure = contrast_figure(found, caption="run <x>")
    (points,) = figure.data
    assert points.x[0] - points.error_x.arrayminus[0] == pytest.approx(effect.low)
    assert points.x[0] + points.error_x.array[0] == pytest.approx(effect.high)
    assert "won 12, lost 3" in points.text[0]
    (band,) = (shape for shape in figure.layout.shapes if shape.type == "rect")
    assert (band.x0, band.x1) == (-1, 1)
    text = json.dumps(json.loads(figure.to_json()), ensure_ascii=False)
    assert "<i>" not in text and "<x>" not in text and "n = 100" in text


def test_arms_are_drawn_with_the_contrast_that_they_invite() -> None:
    found = made(all=(60, 12, 3, 25))
    reports = [
        AccuracyReport(
            system=name, profile="cpu", n=100, expected=102, missing=2, correct=k, wrong=100 - k, unparsed=0, errors=0,
            accuracy=k / 100, unparsed_rate=0, error_rate=0, low=0.5, high=0.83, complete=False,
        )
        for name, k in (("<i>a</i>", 63), ("b", 72))
    ]  # fmt: skip
    figure = accuracy_by_arm(reports, found, chance=0.25, caption="machinery <x>")
    (arms,) = figure.data
    assert list(arms.x) == [63.0, 72.0] and arms.error_x.array[1] == pytest.approx(11.0)
    assert "63 of 100, incomplete" in arms.text[0]
    effect = found[0].estimates[1]
    assert "over" not in arms.y[0] and arms.y[1].startswith("b<br>over ")
    for part in ("+9.0", f"[{effect.low:+.1f}, {effect.high:+.1f}]", "won 12, lost 3", "adjusted p 0.0352"):
        assert part in arms.y[1]
    assert "<i>" not in figure.to_json() and "<x>" not in figure.to_json()


def test_of_several_sets_an_arm_carries_both_means() -> None:
    (found,) = made(medqa=(60, 12, 3, 25), mmlu=(20, 2, 6, 12))
    reports = [
        AccuracyReport(
            system=name, profile="test", n=140, expected=140, correct=70, wrong=70, unparsed=0, errors=0, accuracy=0.5,
            unparsed_rate=0, error_rate=0, low=0.4, high=0.6, complete=True,
        )
        for name in (found.a, found.b)
    ]  # fmt: skip
    macro, questions = found.estimates
    assert macro.difference != questions.difference
    label = accuracy_by_arm(reports, [found]).data[0].y[1]
    assert f": {questions.difference:+.1f} [" in label and f"mean of sets: {macro.difference:+.1f} [" in label


def test_other_readings_carry_everything_that_a_contrast_needs() -> None:
    found = made(medqa=(60, 12, 3, 25), mmlu=(20, 2, 6, 12))[0]
    stems = StemClusters(threshold=0.8, questions=140, clusters=139, repeated=2, largest=2)
    turned = tuple(e.model_copy(update={"won": e.lost, "lost": e.won}) for e in found.estimates)
    variants = tuple(
        Variant(name=name, n=140, estimates=estimates)
        for name, estimates in (("strict", found.estimates), ("mirage", turned), ("lenient", found.estimates))
    )
    table = sensitivity_table([found.model_copy(update={"variants": variants, "stems": stems})])
    assert [row[1:3] for row in table.rows] == [
        ("strict, lenient", "sets"),
        ("strict, lenient", "questions"),
        ("MIRAGE's rule", "sets"),
        ("MIRAGE's rule", "questions"),
    ]
    counts = table.columns.index("won / lost")
    assert [row[counts] for row in table.rows] == ["14 / 9", "14 / 9", "9 / 14", "9 / 14"]
    whole = contrasts_table([found], sets=False)
    assert [row[2:] for row in table.rows[:2]] == [row[1:] for row in whole.rows]
    assert table.columns[2:] == whole.columns[1:]
    assert {"n", "won / lost", "points", "95% interval", "p", "adjusted p"} <= set(table.columns)
    assert "2 of 140 questions" in table.caption
    assert sensitivity_table([found]).rows == ()
    odd = variants[1].model_copy(update={"estimates": tuple(e.model_copy(update={"agree": False}) for e in turned)})
    starred = sensitivity_table([found.model_copy(update={"variants": (odd,)})])
    interval = starred.columns.index("95% interval")
    assert starred.rows[0][interval].endswith("*") and "* test and bootstrap disagree" in starred.caption
    assert "*" not in table.caption + whole.caption
    agreed = found.model_copy(update={"variants": (variants[0], variants[2])})
    assert [row[1] for row in sensitivity_table([agreed]).rows] == ["every reading"] * 2


def test_noise_is_shown_or_how_to_measure_it() -> None:
    rate = FlipRate(system="<x>", runs=2, n=200, right_or_wrong=0.055, low=0.03, high=0.09, label=0.1)
    table = flips_table([rate])
    assert table.rows == (("<x>", "2", "200", "5.5%", "[3.0%, 9.0%]", "10.0%"),)
    assert "no second run" not in table.caption and "<x>" not in table.html
    assert flips_table([]).rows == () and "no second run: answer the same questions again" in flips_table([]).caption


def test_no_contrast_is_an_empty_table_and_figure() -> None:
    assert contrasts_table([]).rows == () and "no comparison" in contrasts_table([]).caption
    assert not contrast_figure([]).data
