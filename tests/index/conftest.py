"""torch for the tests of what runs on it."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def torch() -> Iterator[ModuleType]:
    found = pytest.importorskip("torch", reason="needs torch: `python3 run.py test --gpu-path`")
    threads = found.get_num_threads()
    found.set_num_threads(1)  # products this small only wait for further threads
    yield found
    found.set_num_threads(threads)
