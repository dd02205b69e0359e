from __future__ import annotations

import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medvrag_core.runs.side_by_side import side_by_side


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(), max_size=40), st.integers(1, 12))
def test_every_item_is_done_once_whatever_the_number_of_threads(items: list[int], at_once: int) -> None:
    done = dict(side_by_side(lambda x: x * 2, items, at_once=at_once))
    assert [done[place] for place in range(len(items))] == [x * 2 for x in items]


def test_no_more_threads_than_told() -> None:
    now, most, lock = [0], [0], threading.Lock()

    def work(_: int) -> None:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        time.sleep(0.01)
        with lock:
            now[0] -= 1

    list(side_by_side(work, range(20), at_once=4))
    assert most[0] == 4


@pytest.mark.parametrize("kind", [KeyboardInterrupt, ValueError])
def test_after_a_fault_nothing_begins_and_what_is_under_way_is_kept(kind: type[BaseException]) -> None:
    begun: list[int] = []
    stopped: list[bool] = []
    gate = threading.Event()

    def work(item: int) -> int:
        begun.append(item)
        if item == 1:
            raise kind
        gate.wait(5)
        return item

    def stop() -> None:
        stopped.append(True)
        gate.set()

    kept: list[int] = []
    with pytest.raises(kind):
        for _, result in side_by_side(work, range(50), at_once=2, stop=stop, drain_s=5):
            kept.append(result)
    assert kept == [0] and stopped == [True] and len(begun) <= 3


def test_draining_has_an_end() -> None:
    def work(item: int) -> int:
        if item == 0:
            raise ValueError
        threading.Event().wait(30)
        return item

    start = time.monotonic()
    with pytest.raises(ValueError):
        list(side_by_side(work, range(2), at_once=2, drain_s=0.2))
    assert time.monotonic() - start < 15, "the stuck item would have taken half a minute"
