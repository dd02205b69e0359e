"""Fixtures shared by all tests."""

from __future__ import annotations

from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real articles, questions and odd PDFs that lies beside the checkout."""
    folder = REPO.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"real test data not found at {folder}")
    return folder
