from __future__ import annotations

import base64
import io
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from medvrag_core.errors import InputError
from medvrag_core.views.pages import MAX_KB, page_heatmap, page_thumbnail


@pytest.fixture(params=["jpg", "png"])
def image(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / f"page.{request.param}"
    Image.effect_noise((1275, 1650), 120).save(path)
    return path


def decoded(uri: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(uri.split(",", 1)[1])))


def test_thumbnails_are_small_deterministic_jpegs_of_the_same_form(image: Path) -> None:
    uri = page_thumbnail(image, width=200)
    assert uri == page_thumbnail(image, width=200)
    assert len(uri) <= 14_000
    small = decoded(uri)
    assert small.format == "JPEG"
    assert small.width <= 200
    assert small.height / small.width == pytest.approx(1650 / 1275, rel=0.02)


def test_heatmap_keeps_within_its_size_even_on_noise(image: Path) -> None:
    boxes = np.array([[0, 0, 0.5, 0.25], [0.5, 0.25, 1, 0.5], [0, 0.5, 1, 1]], dtype=np.float32)
    html = page_heatmap(image, boxes, [0.1, 0.9, 0.5], title="<b>query</b>", labels=["<i>", "b", "c"]).html
    uri = re.search(r'href="([^"]+)"', html)
    assert uri is not None
    assert len(uri[1]) <= MAX_KB * 1000
    assert "<b>" not in html
    assert "<i>" not in html
    names = re.findall(r"<title>([^<]*)</title>", html)
    assert names[0].endswith("similarity 0.100")  # weakest first, strongest on top
    assert names[-1] == "b – similarity 0.900"
    assert html == page_heatmap(image, boxes, [0.1, 0.9, 0.5], title="<b>query</b>", labels=["<i>", "b", "c"]).html


def test_boxes_land_where_the_page_has_them(image: Path) -> None:
    html = page_heatmap(image, np.array([[0.25, 0.5, 0.75, 2.0]], dtype=np.float32), [1.0], width=400).html
    height = 400 * 1650 / 1275
    assert f'<rect x="100.0" y="{height / 2:.1f}" width="200.0" height="{height / 2:.1f}"' in html


def test_equal_scores_shade_nothing_and_no_box_is_a_bare_page(image: Path) -> None:
    boxes = np.array([[0, 0, 1, 1], [0, 0, 0.5, 1]], dtype=np.float32)
    assert page_heatmap(image, boxes, [0.3, 0.3]).html.count('fill-opacity="0.000"') == 2
    assert "<rect" not in page_heatmap(image, np.zeros((0, 4), dtype=np.float32), []).html


def test_unusable_images_and_numbers_are_refused(image: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such page image"):
        page_thumbnail(tmp_path / "none.jpg")
    (tmp_path / "bad.jpg").write_text("<svg onload=boom()>")
    with pytest.raises(InputError, match="not a usable page image"):
        page_thumbnail(tmp_path / "bad.jpg")
    boxes = np.array([[0, 0, 1, 1]], dtype=np.float32)
    with pytest.raises(InputError, match="1 boxes, 2 scores"):
        page_heatmap(image, boxes, [1.0, 2.0])
    with pytest.raises(InputError, match="not a finite number"):
        page_heatmap(image, boxes, [float("nan")])
