from __future__ import annotations

import pytest

from medvrag_core.index.tune import TunedPoint, Tuning
from medvrag_core.views import index_view


def tuning(chosen: int | None) -> Tuning:
    points = tuple(
        TunedPoint(changed={"shortlist": 10 * n}, recall=0.9 + 0.05 * n, lowest=0.5, seconds=0.001 * n) for n in (1, 2)
    )
    return Tuning(
        mode="fast",
        at=100,
        wanted=0.99,
        queries=50,
        query_vectors=20.0,
        pages=5_000,
        segments="abc",
        exact_seconds=0.004,
        points=points,
        chosen=chosen,
    )


def test_the_chosen_setting_stands_out() -> None:
    figure = index_view.tuning_figure(tuning(1), caption="c")
    tried, chosen = figure.data
    assert (list(tried.x), list(tried.y), list(tried.text)) == ([1.0], [pytest.approx(0.95)], ["R = 10"])
    assert (list(chosen.x), chosen.text[0], chosen.name) == ([2.0], "R = 20", "chosen")
    assert tried.error_y.arrayminus[0] == pytest.approx(0.45)
    assert [a.text for a in figure.layout.annotations] == ["exact search", "wanted: 0.99"]
    assert "finds 0.99 of the best 100 pages in the mean is R = 20" in index_view.tuning_sentence(tuning(1))
    assert [t.name for t in index_view.tuning_figure(tuning(None)).data] == ["tried"]
    assert "No setting that was tried reaches 0.99" in index_view.tuning_sentence(tuning(None))
