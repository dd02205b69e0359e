"""The typesetter of the demo corpus is not part of the package: make it importable, build once, and make articles."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

DEMO = Path(__file__).resolve().parents[2] / "data" / "demo"
sys.path.insert(0, str(DEMO))


@pytest.fixture(scope="session")
def built(pytestconfig: pytest.Config) -> Path:
    """The whole demo corpus, built from its sources; what has not changed stays from the last run of the tests."""
    from build import build

    out = pytestconfig.cache.mkdir("demo") / "built"
    build(out)
    return out


@pytest.fixture
def make_article(tmp_path: Path) -> Callable[..., Path]:
    """A function that writes ``source/articles/NAME.md`` with a body and front matter, and returns ``source``."""

    def make(body: str, name: str = "sample", **head: str) -> Path:
        folder = tmp_path / "source" / "articles"
        folder.mkdir(parents=True, exist_ok=True)
        (tmp_path / "source" / "questions").mkdir(exist_ok=True)
        fields = {"id": name, "title": "A title", "running": "Running", "abstract": "Short.", "keywords": "[one]"}
        matter = "\n".join(f"{key}: {value}" for key, value in (fields | head).items())
        (folder / f"{name}.md").write_text(f"---\n{matter}\n---\n\n{body}\n", encoding="utf-8")
        return tmp_path / "source"

    return make
