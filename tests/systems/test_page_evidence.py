"""How many searches are under way at one time, here and where other processes search."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from medvrag_core.index.base import PageIndex
from medvrag_core.profiles.load import load_profile
from medvrag_core.records import SearchResult
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.medvrag import PageEvidence
from medvrag_core.systems.resources import Resources


class CountingIndex(PageIndex):
    """Takes a moment, and counts the searches under way."""

    def __init__(self, elsewhere: bool) -> None:
        self.elsewhere = elsewhere
        self.now = self.most = 0
        self._lock = threading.Lock()

    def search(self, query: Any, k: int) -> SearchResult:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(0.05)
        with self._lock:
            self.now -= 1
        return SearchResult(hits=(), times=())


class CountingEncoder:
    """Encodes one query at a time, or fails."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def encode_query(self, text: str) -> Any:
        assert self._lock.acquire(blocking=False), "two queries are encoded at one time"
        time.sleep(0.002)
        self._lock.release()
        return np.ones((1, 4), np.float32)


@pytest.mark.parametrize(("elsewhere", "most"), [(False, {1}), (True, {2, 3, 4})])
def test_searches_go_side_by_side_where_other_processes_do_them(
    made_run: Workspace, monkeypatch: pytest.MonkeyPatch, elsewhere: bool, most: set[int]
) -> None:
    index = CountingIndex(elsewhere)
    encoder = CountingEncoder()
    monkeypatch.setattr(Resources, "index", index)
    monkeypatch.setattr(Resources, "encoder", encoder)
    source = PageEvidence(Resources(made_run, load_profile("test")))
    with ThreadPoolExecutor(4) as pool:
        assert len(list(pool.map(source.search, map(str, range(12))))) == 12
    assert index.most in most
