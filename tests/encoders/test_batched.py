from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from medvrag_core.encoders.base import PageInput, PageInputs
from medvrag_core.encoders.batched import BatchedPageEncoder
from medvrag_core.encoders.identity import EncoderIdentity
from medvrag_core.errors import MedvragError
from medvrag_core.records import Page, PageLayout, PageVectors
from medvrag_core.settings import EncoderSettings


@dataclass(frozen=True)
class Ready:
    page_id: str
    size: int


class SizedEncoder(BatchedPageEncoder[Ready]):
    """Pages of as many rows as their number says; notes what is asked of it."""

    dim = 2

    def __init__(self, batch_size: int = 3, read_ahead: int = 2, loaders: int = 3) -> None:
        super().__init__(EncoderSettings(batch_size=batch_size, read_ahead=read_ahead, loaders=loaders))
        self.batches: list[list[int]] = []
        self.loading: Callable[[int], None] = lambda size: None
        self.encoding: Callable[[list[int]], None] = lambda sizes: None

    @property
    def identity(self) -> EncoderIdentity:
        return EncoderIdentity(encoder="sized", version=1, model="none", dim=2)

    def load_page(self, page: PageInput) -> Ready:
        self.loading(page.page.number)
        return Ready(page.page.page_id, page.page.number)

    def page_size(self, ready: Ready) -> int:
        return ready.size

    def encode_batch(self, ready: Sequence[Ready]) -> list[PageVectors]:
        self.encoding([page.size for page in ready])
        self.batches.append([page.size for page in ready])
        rows = [np.full((page.size, 2), page.size, dtype=np.float32) for page in ready]
        boxes = [np.zeros((page.size, 4), dtype=np.float32) for page in ready]
        return [
            PageVectors(page.page_id, v, b, np.arange(page.size)) for page, v, b in zip(ready, rows, boxes, strict=True)
        ]

    def encode_query(self, text: str) -> NDArray[np.float32]:
        return np.eye(2, dtype=np.float32)


def sized(sizes: Sequence[int]) -> list[PageInput]:
    made = []
    for place, size in enumerate(sizes):
        page = Page(
            page_id=f"a{place}#p{size}", article_id=f"a{place}", number=size, width_pt=1, height_pt=1, image="x",
            image_width=1, image_height=1, dpi=72, text_source="pdf", text="",
        )  # fmt: skip
        made.append(PageInput(page, PageLayout(page_id=page.page_id, words=(), regions=()), Path("x.jpeg")))
    return made


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
