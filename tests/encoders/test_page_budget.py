from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from medvrag_core.encoders.page_budget import (
    NATIVE_WIDTH,
    PAPERS,
    page_budget,
    reading_budgets,
    resolution_budgets,
)
from medvrag_core.encoders.pooling import pool_vectors
from medvrag_core.errors import SettingsError
from medvrag_core.settings import EncoderSettings

SETTINGS = EncoderSettings(name="colqwen2.5")


def test_resolution_does_not_change_the_number_of_vectors_above_96_dpi() -> None:
    for paper, patches, at_72 in (("US Letter", 744, 616), ("A4", 736, 630)):
        pages = resolution_budgets(SETTINGS, (72, 96, 150, 300, 600))
        found = {page.dpi: page.budget for page in pages if page.paper == paper}
        assert {page.patches for dpi, page in found.items() if dpi >= 96} == {patches}
        assert found[72].patches == at_72, "below the cap on visual tokens the page is shown as it is"
        assert found[300].pixels == {"US Letter": (2550, 3300), "A4": (2480, 3508)}[paper]


def test_the_default_gives_about_103_vectors_and_the_native_width() -> None:
    for page in (page.budget for page in resolution_budgets(SETTINGS, (300,))):
        assert abs(page.vectors - 103) <= 5
        assert page.dim == NATIVE_WIDTH == 128
        assert page.bytes == page.vectors * 128 * 2


def test_readings_differ_as_their_settings_say() -> None:
    native, pooled, small, rotated, halved = reading_budgets(SETTINGS)
    for reading in (native, pooled, small, rotated, halved):
        assert [page.paper for page in reading.pages] == list(PAPERS)
        assert set(reading.settings) <= set(EncoderSettings.model_fields)
    for letter in range(len(PAPERS)):
        pages = [reading.pages[letter].budget for reading in (native, pooled, small, rotated, halved)]
        assert pages[0].vectors == pages[0].patches == pages[1].patches > 700
        assert pages[1].vectors == pages[0].patches // 7
        assert pages[2].vectors == pages[2].patches <= 128
        assert pages[3] == pages[1], "128 to 128 is a rotation"
        assert pages[4].vectors == pages[1].vectors and 2 * pages[4].bytes == pages[1].bytes


def test_the_grid_has_a_cell_a_patch() -> None:
    page = page_budget(SETTINGS, 2480, 3508)
    assert page.grid == (32, 23) and page.grid[0] * page.grid[1] == page.patches


def test_pooling_really_leaves_as_many() -> None:
    page = page_budget(SETTINGS, 2480, 3508)
    made = np.random.default_rng(0).standard_normal((page.patches, 8)).astype(np.float32)
    assert len(pool_vectors(made, page.vectors).vectors) == page.vectors


@pytest.mark.parametrize(("storage", "size"), [("float32", 512), ("float16", 256), ("int8", 132)])
def test_bytes_follow_the_storage(storage: str, size: int) -> None:
    page = page_budget(SETTINGS.model_copy(update={"storage": storage}), 2480, 3508)
    assert page.bytes == page.vectors * size


def test_another_encoder_is_refused() -> None:
    with pytest.raises(SettingsError, match="sizes of 'embedded' are not known"):
        page_budget(EncoderSettings(), 2480, 3508)


@pytest.mark.gpu_path
@pytest.mark.parametrize("cap", [128, 768])
@pytest.mark.parametrize("pixels", [(2550, 3300), (1240, 1754), (612, 792), (900, 300)])
def test_the_processor_of_colqwen_cuts_a_page_as_computed(cap: int, pixels: tuple[int, int], tmp_path: Path) -> None:
    from tiny_models import make_colqwen2_5, need

    need("colpali_engine")
    from colpali_engine.models import ColQwen2_5_Processor

    folder = make_colqwen2_5(tmp_path)
    processor = ColQwen2_5_Processor.from_pretrained(folder, max_num_visual_tokens=cap)
    given = processor.process_images([Image.new("RGB", pixels, "white")])
    page = page_budget(SETTINGS.model_copy(update={"max_visual_tokens": cap, "pool_factor": 1}), *pixels)
    assert int(processor.get_image_mask(given).sum()) == page.patches == page.vectors
    assert tuple((given["image_grid_thw"][0, 1:] // 2).tolist()) == page.grid
