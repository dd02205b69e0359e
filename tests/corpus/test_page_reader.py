"""How large a page may become is known before anything is allocated, whatever its size; past the limits it is one page
that is lost."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pymupdf
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medvrag_core.corpus.build import build_corpus
from medvrag_core.corpus.job import Job
from medvrag_core.corpus.lines import PageLines
from medvrag_core.corpus.page_reader import Engines, PageReader, capped_dpi
from medvrag_core.settings import CorpusSettings

SIDES = st.floats(0.5, 200_000)  # points; PDF 2.0 allows pages of any size


@given(wide=SIDES, high=SIDES, dpi=st.integers(36, 600), cap=st.integers(10_000, 10**8))
def test_bc33_no_page_goes_beyond_the_caps_and_none_is_enlarged(wide: float, high: float, dpi: int, cap: int) -> None:
    found = capped_dpi(wide, high, dpi, cap)
    assert 0 < found <= dpi
    pixels = [math.ceil(side * found / 72) for side in (wide, high)]
    assert math.prod(pixels) <= cap or found <= 1
    assert max(pixels) <= 30_001
    if (wide * dpi / 72 + 2) * (high * dpi / 72 + 2) <= cap and max(wide, high) * dpi / 72 < 29_000:
        assert found == dpi, "a page that fits is left as it is"


class Sizes:
    """A document of one page that only tells how it is rendered."""

    def __init__(self, wide: float, high: float) -> None:
        self.width, self.height, self.rotation, self.metadata = wide, high, 0, {}
        self.asked: list[float] = []

    def page(self, number: int) -> Any:
        return self

    def render(self, dpi: float, clip: Any = None) -> Any:
        self.asked.append(dpi)
        return np.zeros((20, 20, 3), dtype=np.uint8)

    def text_layer(self) -> PageLines:
        return PageLines((), (0.0, 0.0, self.width, self.height), lambda box: None)

    def close(self) -> None:
        pass


@settings(max_examples=25, deadline=None)
@given(wide=st.one_of(SIDES, st.sampled_from([math.inf, math.nan])), high=SIDES)
def test_a_renderer_is_asked_for_no_more_than_the_cap_and_never_for_a_page_without_a_size(
    tmp_path_factory: pytest.TempPathFactory, wide: float, high: float
) -> None:
    document, chosen = Sizes(wide, high), CorpusSettings(ocr="off", max_pixels=1_000_000)
    folder = tmp_path_factory.mktemp("pages")
    job = Job(path="a.pdf", folder=str(folder), article_id="a", image_prefix="x", settings=chosen)
    told = PageReader(job, lambda _: None, Engines()).read(document, 1)
    if not math.isfinite(wide):
        assert document.asked == [] and [(n.state, n.reason) for n in told.notes] == [("dropped", "damaged")]
    else:
        assert document.asked == [capped_dpi(wide, high, 300, 1_000_000)]


@pytest.mark.parametrize("renderer", ["pymupdf", "pypdfium2"])
def test_a_page_beyond_the_memory_of_the_child_is_the_only_one_lost(tmp_path: Path, renderer: str) -> None:
    (tmp_path / "p").mkdir()
    with pymupdf.open() as document:
        for wide, high in ((300, 200), (3421, 1890), (300, 210)):
            document.new_page(width=wide, height=high).insert_text((50, 50), f"Page of {wide} x {high} points")
        document.save(tmp_path / "p" / "poster.pdf")
    # 112 million pixels take 336 MB, and more once they are an image.
    chosen = CorpusSettings.model_validate(
        {"ocr": "off", "max_pixels": 10**9, "memory_mb": 640, "renderer": renderer, "image_format": "png"}
    )
    store = build_corpus(tmp_path / "p", tmp_path / "c", chosen, workers=1, progress=False)
    assert [page.page_id for page in store.pages] == ["poster#p1", "poster#p3"]
    (lost,) = [entry for entry in store.ledger if entry.page_id == "poster#p2"]
    assert (lost.state, lost.reason) == ("quarantined", "memory_limit")
