"""A font for typesetting tests that every checkout has: it comes from a package of the lock."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from medvrag_core.corpus.text_pages import TextPageSettings


@pytest.fixture(scope="session")
def as_printed() -> TextPageSettings:
    """The settings of the paper in that font, its words taken as they are set."""
    spec = importlib.util.find_spec("font_source_sans_pro")
    assert spec is not None and spec.submodule_search_locations
    folder = Path(next(iter(spec.submodule_search_locations))) / "files"
    return TextPageSettings(font="SourceSansPro-Regular.ttf", font_folder=str(folder), reader="typesetter")
