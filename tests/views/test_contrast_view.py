"""Tables and figures of contrasts: what is printed is what was computed, and nothing needed to judge it is left out."""

from __future__ import annotations

import json

import numpy as np
import pytest

from medvrag_core.evaluation.contrasts import Contrast, Rules, contrast_family
from medvrag_core.evaluation.estimands import Arm
from medvrag_core.views.contrast_view import contrast_figure, contrasts_table
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
    assert [row[5] for row in table.rows] == ["-0.5", "+3.6", "+9.0", "-10.0"]
    assert [row[1] for row in contrasts_table(found, sets=False).rows] == ["sets", "questions"]
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


def test_no_contrast_is_an_empty_table_and_figure() -> None:
    assert contrasts_table([]).rows == () and "no comparison" in contrasts_table([]).caption
    assert not contrast_figure([]).data
