from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from medvrag_core.encoders.minilm import unit_rows
from medvrag_core.encoders.page_budget import page_budget
from medvrag_core.index.similarity_maps import score_parts
from medvrag_core.records import PageVectors
from medvrag_core.settings import EncoderSettings
from medvrag_core.views.encoder_view import grid_view, patches_view, query_maps


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "page.png"
    Image.new("RGB", (600, 900), "white").save(path)
    return path


def made_page(vectors: int = 3) -> PageVectors:
    """Four stripes; the last two share a vector."""
    boxes = np.array([[0, k / 4, 1, (k + 1) / 4] for k in range(4)], dtype=np.float32)
    made = np.abs(np.random.default_rng(3).standard_normal((vectors, 8))).astype(np.float32)
    return PageVectors("a#p1", unit_rows(made), boxes, np.array([0, 1, 2, 2]))


def rows_of(html: str) -> dict[str, list[str]]:
    """Cells of the table by word."""
    found = re.findall(r"<span>([^<]*)</span></label></th>((?:<td>[^<]*</td>)*)</tr>", html)
    return {word: re.findall(r"<td>([^<]*)</td>", cells) for word, cells in found}


def test_patches_of_one_vector_have_one_color_and_the_counts_are_told(image: Path) -> None:
    html = patches_view(image, made_page()).html
    colors = re.findall(r'<rect [^>]*fill="(#\w+)"', html)
    assert colors[2] == colors[3] and len(set(colors)) == 3
    assert "patch 4, vector 3, shared with 1 more" in html and "patch 1, vector 1<" in html
    assert html.count("a#p1: 4 patches, 3 vectors of width 8") == 2, (
        "once as the caption, once for those who do not see the picture"
    )


def test_the_grid_of_colqwen_covers_the_page(image: Path) -> None:
    html = grid_view(image, page_budget(EncoderSettings(name="colqwen2.5", pool_factor=7), 2550, 3300)).html
    boxes = re.findall(r'<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"', html)
    assert len(boxes) == 744
    assert sum(float(w) * float(h) for _, _, w, h in boxes) == pytest.approx(560 * 560 * 900 / 600, rel=0.02)
    assert "row 31, column 24" in html
    assert html.count("672 × 868 pixels: 31 × 24 = 744 patches; 106 vectors of width 128") == 2


def test_the_parts_in_the_table_add_up_to_the_score(image: Path) -> None:
    page = made_page()
    query = unit_rows(np.abs(np.random.default_rng(5).standard_normal((3, 8))).astype(np.float32))
    parts = score_parts(query, page)
    table = rows_of(query_maps(image, page, parts, ["one", "<two>", "three"], query="q").html)
    assert list(table) == ["the score S", "whatever fits best", "one", "&lt;two&gt;", "three"]
    words = list(table.values())[2:]
    whole = table["the score S"]
    for column in (0, 1):
        assert sum(float(cells[column]) for cells in words) == pytest.approx(float(whole[column]), abs=0.002)
    assert float(whole[0]) + float(whole[1]) == pytest.approx(parts.score, abs=0.002)
    assert whole[2] == "100.0%"
    assert sum(float(cells[2].rstrip("%")) for cells in words) == pytest.approx(100, abs=0.2)


def test_the_best_patches_of_a_word_are_outlined_and_told(image: Path) -> None:
    page = made_page()
    query = page.vectors[[2, 0]]
    html = query_maps(image, page, score_parts(query, page), ["last", "first"], query="q").html
    groups = re.findall(r'<g class="map">(.*?)</g>', html)
    outlined = [re.findall(r'class="best" d="([^"]+)"', group) for group in groups]
    assert outlined == [[], [], ["M0 750H1000V1125H0ZM0 1125H1000V1500H0Z"], ["M0 0H1000V375H0Z"]]
    for group in groups[2:]:
        shaded = "".join(re.findall(r'class="cell"[^>]* d="([^"]+)"', group)).count("M")
        assert 1 <= shaded <= 2, "half of the four patches stay clear"
    assert "outlined: the best, 2 patches that share a vector, 1.000." in html
    assert "outlined: the best, patch 1, 1.000." in html
    assert "<title>patch 1 adds" in html and "; first 1.00, last" in html


def test_a_lighter_backward_half_is_told(image: Path) -> None:
    page = made_page()
    told = query_maps(image, page, score_parts(page.vectors[:1], page, backward_weight=0.5), ["word"], query="q").html
    assert " (weight 0.5)." in told
    assert "(weight" not in query_maps(image, page, score_parts(page.vectors, page), list("abc"), query="q").html


def test_a_score_below_zero_has_no_shares(image: Path) -> None:
    page = made_page()
    html = query_maps(image, page, score_parts(-page.vectors[:1], page), ["word"], query="q").html
    assert rows_of(html)["word"][2] == rows_of(html)["the score S"][2] == "–"
