"""Threads that score pages side by side: every page once, and no fault lost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from made_index import indexed, made_pages

from medvrag_core.index.coded_pages import CodedPages
from medvrag_core.index.kernels.code_scores import Kernels
from medvrag_core.settings import IndexSettings

QUERY = made_pages(1, seed=3)[0][:5]


class Watched(Kernels):
    """Kernels that call ``before(pages)`` first, in the thread that scores."""

    def __init__(self, before: Callable[[list[int]], None]) -> None:
        super().__init__()
        self.before = before

    def pages(self, query: Any, coded: Any, chosen: np.ndarray, backward: float, out: np.ndarray) -> None:
        self.before(chosen.tolist())
        super().pages(query, coded, chosen, backward, out)


@pytest.fixture(scope="module")
def coded(tmp_path_factory: pytest.TempPathFactory) -> CodedPages:
    return indexed(made_pages(97), tmp_path_factory.mktemp("i"), IndexSettings(threads=2), cut=40).coded


def watched(coded: CodedPages, threads: int, before: Callable[[list[int]], None]) -> CodedPages:
    return replace(coded, threads=threads, kernels=Watched(before))


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_page_is_scored_once(coded: CodedPages, threads: int) -> None:
    seen: list[int] = []
    places = np.arange(1, 97, dtype=np.int64)
    found = watched(coded, threads, seen.extend).scores(QUERY, places)
    assert sorted(seen) == [*range(1, 97)]
    assert np.array_equal(found, coded.scores(QUERY, np.arange(97))[1:])


def test_the_calling_thread_scores_while_others_do(coded: CodedPages) -> None:
    """Two that are at work at the same time meet; one alone would wait in vain."""
    both = threading.Barrier(2, timeout=10)
    names: set[str] = set()

    def meet(pages: list[int]) -> None:
        name = threading.current_thread().name
        if name not in names:
            names.add(name)
            both.wait()

    watched(coded, 2, meet).scores(QUERY, np.arange(97))
    assert threading.current_thread().name in names
    assert len(names) == 2


@pytest.mark.parametrize("at_fault", ["caller", "other"])
def test_a_fault_in_any_thread_is_told(coded: CodedPages, at_fault: str) -> None:
    caller, failed = threading.current_thread(), threading.Event()

    def fail(pages: list[int]) -> None:
        here = "caller" if threading.current_thread() is caller else "other"
        if here == at_fault:
            failed.set()
            raise MemoryError(here)
        assert failed.wait(10)

    with pytest.raises(MemoryError, match=at_fault):
        watched(coded, 2, fail).scores(QUERY, np.arange(97))
