from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from medvrag_core.evaluation.retrieval.paired import PairedRetrieval
from medvrag_core.evaluation.retrieval.pooling_curve import PooledMap, PoolingCurve, PoolingRow, Way
from medvrag_core.evaluation.statistics.means import Estimate
from medvrag_core.views.pooling_view import pooled_maps_view, pooling_figure, pooling_sentence, pooling_table


def estimate(value: float) -> Estimate:
    return Estimate(value=value, low=value - 0.1, high=value + 0.1)


def row(name: str, way: Way, vectors: float, ndcg: float, agreement: float | None) -> PoolingRow:
    return PoolingRow(
        name=name,
        way=way,
        vectors_per_page=vectors,
        bytes_per_page=256 * vectors,
        ndcg_at_10=estimate(ndcg),
        agreement=None if agreement is None else estimate(agreement),
        patches_behind_best=None if agreement is None else 4.25,
    )


def test_of(a: str, b: str, difference: float, p: float, metric: str = "nDCG@10") -> PairedRetrieval:
    return PairedRetrieval(
        a=a, b=b, metric=metric, n=9, mean_a=0.5, mean_b=0.5 + difference, won=1, lost=2, difference=difference,
        low=-0.1, high=0.1, confidence=0.95, p_value=p, p_adjusted=p, family=3,
    )  # fmt: skip


test_of.__test__ = False  # type: ignore[attr-defined]
CURVE = PoolingCurve(
    pages=40,
    of_pages=1_400,
    questions=9,
    rows=(
        row("unpooled", "unpooled", 453, 0.8, 1.0),
        row("as stored", "stored", 103, 0.7, None),
        row("similarity 12", "similarity", 12, 0.6, 0.4),
        row("position 12", "position", 12, 0.5, 0.3),
    ),
    paired=(
        test_of("unpooled", "as stored", -0.01, 1.0),
        test_of("unpooled", "similarity 12", -0.2, 0.001),
        test_of("position 12", "similarity 12", 0.1, 0.06),
    ),
    paired_maps=(test_of("position 12", "similarity 12", 0.1, 0.049, "agreement of maps"),),
)


def test_the_table_has_a_row_a_size_and_says_what_was_left_out() -> None:
    table = pooling_table(CURVE, caption="profile cpu")
    assert [r[0] for r in table.rows] == ["unpooled", "as stored", "similarity 12", "position 12"]
    assert table.rows[0][1:4] == ("453", "116.0", "0.800 [0.700, 0.900]")
    assert table.rows[1][4:] == ("–", "–")
    assert table.rows[2][4:] == ("0.400 [0.300, 0.500]", "4.2")
    assert "9 questions on 40 of 1,400 pages" in table.caption


def test_the_figure_has_a_series_a_way_with_intervals() -> None:
    figure = pooling_figure(CURVE, caption="c")
    series = {trace.name: (list(trace.x), list(trace.y)) for trace in figure.data}
    assert series["merged by similarity"] == ([pytest.approx(12, rel=0.05)], [0.6])
    assert series["as stored in this run"] == ([103], [0.7])
    assert len(series) == 4
    assert figure.data[0].error_y.array[0] == pytest.approx(0.1)
    assert "40 of 1,400 pages" in figure.layout.title.text


def test_the_sentence_follows_the_tests() -> None:
    told = pooling_sentence(CURVE)
    assert "1 of 2 differences is clear (similarity 12 over unpooled -0.200)." in told
    assert "at the same size, none of 1 differences is clear." in told
    assert "with those before, 1 of 1 differences is clear (similarity 12 over position 12 +0.100)." in told


def test_each_size_has_its_own_scale(tmp_path: Path) -> None:
    Image.new("RGB", (60, 90), "white").save(tmp_path / "page.png")
    maps = [
        PooledMap("unpooled", 4, 1.25, np.array([0.1, 0.2, 0.3, 0.9], dtype=np.float32), 1.0),
        PooledMap("similarity 1", 1, 0.5, np.array([0.4] * 4, dtype=np.float32), 0.0),
    ]
    boxes = np.array([[0, k / 4, 1, (k + 1) / 4] for k in range(4)], dtype=np.float32)
    html = pooled_maps_view(tmp_path / "page.png", boxes, maps, query="<q>").html
    groups = re.findall(r'<g class="map">(.*?)</g>', html)
    assert groups[0].count("<path") == 2, "half of the patches stay clear"
    assert groups[1] == ""
    assert "<td>4</td><td>1.250</td><td>1.00</td>" in html and "<td>1</td><td>0.500</td><td>0.00</td>" in html
    assert "1 vectors for 4 patches" in html and "&lt;q&gt;" in html
