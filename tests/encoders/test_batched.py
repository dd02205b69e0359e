from __future__ import annotations

import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_pages import SizedEncoder, sized

from medvrag_core.encoders.base import PageInput, PageInputs
from medvrag_core.errors import MedvragError


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 40), max_size=50),
    batch_size=st.integers(1, 7),
    read_ahead=st.integers(1, 4),
    loaders=st.integers(1, 4),
)
def test_pages_come_out_as_if_each_were_encoded_alone_in_order(
    sizes: list[int], batch_size: int, read_ahead: int, loaders: int
) -> None:
    encoder = SizedEncoder(batch_size, read_ahead, loaders)
    made = list(encoder.encode_pages(sized(sizes)))
    assert [page.page_id for page in made] == [f"a{place}#p{size}" for place, size in enumerate(sizes)]
    assert [page.vectors[0, 0] for page in made] == sizes
    assert max(map(len, encoder.batches), default=0) <= batch_size
    assert encoder.tally.batches == len(encoder.batches)
    assert encoder.tally.filled == sum(sizes)
    assert encoder.tally.padded == sum(len(batch) * max(batch) for batch in encoder.batches)
    assert 0 <= encoder.tally.padding_share < 1


def test_pages_of_like_size_go_together() -> None:
    sizes = [1, 9, 2, 8, 1, 9, 2, 8]
    bucketed, in_order = SizedEncoder(2, 4), SizedEncoder(2, 1)
    list(bucketed.encode_pages(sized(sizes)))
    list(in_order.encode_pages(sized(sizes)))
    assert bucketed.batches == [[9, 9], [8, 8], [2, 2], [1, 1]]
    assert bucketed.tally.padding_share == 0.0
    assert in_order.tally.padding_share == pytest.approx(1 - 40 / 68)


def test_the_next_window_is_made_ready_while_the_model_runs_and_no_further_one() -> None:
    loaded: list[int] = []
    encoder = SizedEncoder(batch_size=2, read_ahead=2, loaders=4)
    encoder.loading = loaded.append
    seen: list[int] = []

    def encode(sizes: list[int]) -> None:
        if not seen:
            until = time.monotonic() + 20
            while len(loaded) < 8 and time.monotonic() < until:
                time.sleep(0.001)
            time.sleep(0.05)  # Time in which a ninth page could be loaded, were it asked for.
        seen.append(len(loaded))

    encoder.encoding = encode
    list(encoder.encode_pages(sized([1] * 20)))
    assert seen[0] == 8
    assert max(later - 4 * (batch // 2) for batch, later in enumerate(seen)) <= 8


def test_inputs_are_made_one_at_a_time_and_only_when_they_are_near() -> None:
    inputs, inside, most = sized([1] * 30), threading.Semaphore(1), 0

    def make(place: int) -> PageInput:
        nonlocal most
        assert inside.acquire(blocking=False), "two inputs were made at one time"
        most = max(most, place)
        time.sleep(0.001)
        inside.release()
        return inputs[place]

    encoder = SizedEncoder(batch_size=2, read_ahead=2, loaders=4)
    next(encoder.encode_pages(PageInputs(30, make)))
    assert most < 8


def test_a_page_that_cannot_be_read_is_named_with_its_image() -> None:
    def loading(size: int) -> None:
        if size == 5:
            raise OSError("cannot identify image file")

    encoder = SizedEncoder()
    encoder.loading = loading
    with pytest.raises(MedvragError, match=r"page a1#p5: OSError: cannot identify image file; look at .* x\.jpeg"):
        list(encoder.encode_pages(sized([1, 5, 2])))


def test_a_page_that_the_model_fails_on_is_found_in_its_batch() -> None:
    def encoding(sizes: list[int]) -> None:
        if 5 in sizes:
            raise RuntimeError("shape mismatch")

    encoder = SizedEncoder()
    encoder.encoding = encoding
    with pytest.raises(MedvragError, match=r"^page a1#p5: RuntimeError: shape mismatch$"):
        list(encoder.encode_pages(sized([4, 5, 6])))


def test_a_batch_that_only_fails_together_names_all_its_pages_and_the_setting() -> None:
    def encoding(sizes: list[int]) -> None:
        if len(sizes) > 1:
            raise RuntimeError("out of memory")

    encoder = SizedEncoder()
    encoder.encoding = encoding
    with pytest.raises(MedvragError, match=r"^pages a2#p6, a1#p5, a0#p4: .*out of memory; set encoder\.batch_size"):
        list(encoder.encode_pages(sized([4, 5, 6])))


def test_stopping_leaves_no_thread_behind() -> None:
    encoder = SizedEncoder()
    coming = encoder.encode_pages(sized([1] * 30))
    next(coming)
    coming.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("load-page")]
