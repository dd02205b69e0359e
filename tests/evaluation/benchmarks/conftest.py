"""The real files, and small ones in the same forms."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from medvrag_core.evaluation.benchmarks.faults import QuestionFaults, check_questions
from medvrag_core.evaluation.benchmarks.load import BENCHMARK_SETS, load_sets
from medvrag_core.records import Question


@pytest.fixture(scope="session")
def real(shared_data: Path) -> Path:
    """The data folder of `medvrag benchmarks fetch`, with packed files."""
    return shared_data / "benchmarks"


@pytest.fixture(scope="session")
def asked(real: Path) -> list[Question]:
    """All 7,663 questions of MIRAGE."""
    return load_sets(BENCHMARK_SETS, real)


@pytest.fixture(scope="session")
def found(asked: list[Question]) -> QuestionFaults:
    """What is wrong with them."""
    return check_questions(asked)


@pytest.fixture
def lines(tmp_path: Path) -> Callable[..., Path]:
    """A file of JSON lines."""

    def write(name: str, *rows: object) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return path

    return write


@pytest.fixture
def document(tmp_path: Path) -> Callable[[str, object], Path]:
    """A file of one JSON value."""

    def write(name: str, value: object) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value), encoding="utf-8")
        return path

    return write
