"""Made-up pages and an encoder for them, in a module of its own so that other processes can import it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from medvrag_core.encoders.base import PageEncoder, PageInput
from medvrag_core.encoders.batched import BatchedPageEncoder
from medvrag_core.encoders.identity import EncoderIdentity
from medvrag_core.records import Page, PageLayout, PageVectors
from medvrag_core.settings import EncoderSettings


class HashEncoder(PageEncoder):
    """Vectors drawn from the page id and from what was learned; counts what it encodes and can be told to fail.

    Parameters
    ----------
    fail_at : number of the page at which it raises an error
    end_at : number of the page at which its process ends
    """

    def __init__(
        self, name: str = "hash", fail_at: int | None = None, end_at: int | None = None, rows: int = 5, dim: int = 8
    ) -> None:
        self.name, self.fail_at, self.end_at, self.rows, self.dim = name, fail_at, end_at, rows, dim
        self.encoded = 0
        self.learned = 0

    @property
    def identity(self) -> EncoderIdentity:
        return EncoderIdentity(encoder=self.name, version=1, model="drawn", dim=self.dim)

    def fit(self, pages: Iterable[PageInput]) -> None:
        self.learned = sum(1 for _ in pages)

    def save(self, folder: Path) -> None:
        np.save(folder / "learned.npy", np.array([self.learned]))

    def load(self, folder: Path) -> None:
        self.learned = int(np.load(folder / "learned.npy", allow_pickle=False)[0])

    def encode_pages(self, pages: Iterable[PageInput]) -> Iterator[PageVectors]:
        for given in pages:
            if given.page.number == self.fail_at:
                raise RuntimeError("no such luck")
            if given.page.number == self.end_at:
                os._exit(1)
            self.encoded += 1
            rng = np.random.default_rng([self.learned, given.page.number])
            rows = rng.normal(size=(int(rng.integers(1, self.rows + 1)), self.dim)).astype(np.float32)
            rows /= np.linalg.norm(rows, axis=1, keepdims=True)
            boxes = rng.random((len(rows) + 2, 4), dtype=np.float32)
            yield PageVectors(given.page.page_id, rows, boxes, rng.integers(0, len(rows), len(boxes)))

    def encode_query(self, text: str) -> NDArray[np.float32]:
        return np.eye(self.dim, dtype=np.float32)[:1]


class SlowEncoder(HashEncoder):
    """Takes a hundredth of a second a page."""

    def encode_pages(self, pages: Iterable[PageInput]) -> Iterator[PageVectors]:
        for page in super().encode_pages(pages):
            time.sleep(0.01)
            yield page


class ThreadsEncoder(HashEncoder):
    """Tells in the place of a page id how many threads its process is to use."""

    def encode_pages(self, pages: Iterable[PageInput]) -> Iterator[PageVectors]:
        for page in super().encode_pages(pages):
            told = os.environ.get("OMP_NUM_THREADS", "as it likes")
            yield PageVectors(f"threads {told}", page.vectors, page.boxes, page.vector_of)


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


def made_page(number: int, page_id: str = "") -> PageInput:
    """A page without a word."""
    page_id = page_id or f"a{number:04d}#p{number}"
    page = Page(
        page_id=page_id, article_id=page_id.partition("#")[0], number=number, width_pt=1, height_pt=1, image="x",
        image_width=1, image_height=1, dpi=72, text_source="pdf", text="",
    )  # fmt: skip
    return PageInput(page, PageLayout(page_id=page_id, words=(), regions=()), Path("x.jpeg"))


def made_pages(count: int) -> list[PageInput]:
    """Pages numbered from 0."""
    return [made_page(number) for number in range(count)]


def sized(sizes: Sequence[int]) -> list[PageInput]:
    """Pages of these numbers, which :class:`SizedEncoder` takes for their sizes."""
    return [made_page(size, f"a{place}#p{size}") for place, size in enumerate(sizes)]
