"""Made-up pages and an encoder for them, in a module of its own so that other processes can import it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from medvrag_core.encoders.base import PageEncoder, PageInput
from medvrag_core.encoders.identity import EncoderIdentity
from medvrag_core.records import Page, PageLayout, PageVectors


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


def made_page(number: int) -> PageInput:
    """A page without a word."""
    page = Page(
        page_id=f"a{number:04d}#p{number}", article_id=f"a{number:04d}", number=number, width_pt=1, height_pt=1,
        image="x", image_width=1, image_height=1, dpi=72, text_source="pdf", text="",
    )  # fmt: skip
    return PageInput(page, PageLayout(page_id=page.page_id, words=(), regions=()), Path("x.jpeg"))


def made_pages(count: int) -> list[PageInput]:
    """Pages numbered from 0."""
    return [made_page(number) for number in range(count)]
