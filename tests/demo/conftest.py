"""The typesetter of the demo corpus is not part of the package: make it importable and build once."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).resolve().parents[2] / "data" / "demo"
sys.path.insert(0, str(DEMO))


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole demo corpus, built from its sources."""
    from build import build

    out = tmp_path_factory.mktemp("demo") / "built"
    build(out)
    return out
