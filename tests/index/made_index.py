"""Indexes over made-up page vectors, in memory and on disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from made_pages import made_page

from medvrag_core.encoders.base import PageEncoder, PageInput
from medvrag_core.encoders.encode import encode_corpus
from medvrag_core.encoders.identity import EncoderIdentity
from medvrag_core.encoders.shards import starts
from medvrag_core.encoders.storage import Stored
from medvrag_core.encoders.vectors import VectorStore
from medvrag_core.index.coarse_to_fine import Centroids, CoarseToFineIndex, make_ann
from medvrag_core.index.coded_index import IndexedPages
from medvrag_core.index.coded_pages import CodedPages
from medvrag_core.index.maxsim import gather_pages
from medvrag_core.index.segments import open_segments, write_segment
from medvrag_core.records import PageVectors
from medvrag_core.settings import IndexSettings, Storage


def made_pages(pages: int, seed: int = 0, dim: int = 16) -> list[np.ndarray]:
    """Pages around topics of their own, of 1 to 40 vectors, so that neighbors mean something."""
    rng = np.random.default_rng(seed)
    found = [rng.normal(size=(1, dim)) * 1.5 + rng.normal(size=(int(n), dim)) for n in rng.integers(1, 41, size=pages)]
    return [(page / np.linalg.norm(page, axis=1, keepdims=True)).astype(np.float32) for page in found]


def made_rows(seed: int, lengths: Sequence[int], dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Unit rows of random direction, and the offsets of pages of these lengths."""
    rows = np.random.default_rng(seed).normal(size=(sum(lengths), dim)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True), starts(np.array(lengths))


def page_ids(count: int, first: int = 0) -> list[str]:
    """Ids whose order is not that of the pages."""
    return [f"doc{(7 * k) % 11}-{k}#p1" for k in range(first, first + count)]


def flat(pages: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Vectors of all pages and their offsets."""
    return np.concatenate(pages), starts(np.array([len(page) for page in pages]))


def indexed(pages: Sequence[np.ndarray], folder: Path, settings: IndexSettings, *, cut: int = 0) -> IndexedPages:
    """Pages as codes, in two segments where ``cut`` is given, with their vectors in memory."""
    vectors, offsets = flat(pages)
    segments = []
    for number, part in enumerate(part for part in (pages[:cut], pages[cut:]) if len(part)):
        home = folder / str(number)
        home.mkdir(parents=True)
        write_segment(home, *flat(part), settings.centroids)
        segments += open_segments([home])

    def read(places: np.ndarray) -> tuple[Stored, np.ndarray]:
        rows, inner = gather_pages(vectors, offsets, places)
        return Stored(rows), inner

    return IndexedPages(
        page_ids(len(pages)),
        CodedPages(segments, backward=settings.backward_weight, threads=settings.threads),
        read,
        np.arange(len(pages), dtype=np.int64),
        vectors.shape[1],
        settings.rescore,
    )


def paper_index(pages: Sequence[np.ndarray], folder: Path, settings: IndexSettings) -> tuple[CoarseToFineIndex, Any]:
    """Mode ``paper`` over pages, and its ANN as it was before it was put on a device."""
    made = indexed(pages, folder, settings)
    centroids = Centroids.of(made.coded.segments, made.dim)
    ann = make_ann(centroids.vectors, settings)
    return CoarseToFineIndex(made, centroids, ann, settings), ann


class GivenEncoder(PageEncoder):
    """Gives the pages that it was made with."""

    def __init__(self, pages: Sequence[np.ndarray], name: str = "given") -> None:
        self.pages, self.name, self.dim = pages, name, pages[0].shape[1]

    @property
    def identity(self) -> EncoderIdentity:
        return EncoderIdentity(encoder=self.name, version=1, model="none", dim=self.dim)

    def encode_pages(self, pages: Iterable[PageInput]) -> Iterator[PageVectors]:
        for given in pages:
            yield page_vectors(given.page.page_id, self.pages[given.page.number - 1])

    def encode_query(self, text: str) -> np.ndarray:
        raise NotImplementedError


def page_vectors(page_id: str, vectors: np.ndarray) -> PageVectors:
    """One page, a patch a vector."""
    return PageVectors(page_id, vectors, np.zeros((len(vectors), 4), dtype=np.float32), np.arange(len(vectors)))


def made_store(
    folder: Path,
    pages: Sequence[np.ndarray],
    *,
    ids: Sequence[str] | None = None,
    storage: Storage = "float32",
    name: str = "given",
) -> VectorStore:
    """A store of these pages."""
    given = [made_page(number, page_id) for number, page_id in enumerate(ids or page_ids(len(pages)), start=1)]
    encoder = GivenEncoder(pages, name)
    return encode_corpus(given, encoder, folder, corpus_fingerprint="made", storage=storage, progress=False)
