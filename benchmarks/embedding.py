"""Encoding and storing page vectors at scale, each beside the naive way.

All cores, against one process (pages and encoder of a run; rounds of both alternate):

    python benchmarks/embedding.py processes --run runs/articles --pages 64

Pages loaded ahead, against a loop that loads a page and then encodes it. The images are those of a run; the model is
a stand-in that waits as long as a GPU would compute, so this measures the loader and no GPU:

    python benchmarks/embedding.py loader --run runs/articles --pages 64 --model-ms 100

Size of the store, change of the scores by storage, and growth of memory while vectors are written and an index is
made from them, on made-up pages of 103 rows, 128 wide, each size in a process of its own:

    python benchmarks/embedding.py store --pages 5000 50000
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from medvrag_core.corpus.store import CorpusStore
from medvrag_core.encoders.base import PageEncoder, PageInput, PageInputs
from medvrag_core.encoders.batched import BatchedPageEncoder
from medvrag_core.encoders.copies import Copies, encode_in_copies
from medvrag_core.encoders.encode import encode_corpus
from medvrag_core.encoders.factory import make_page_encoder
from medvrag_core.encoders.identity import EncoderIdentity
from medvrag_core.encoders.minilm import unit_rows
from medvrag_core.encoders.storage import pack, unpack
from medvrag_core.encoders.vectors import VectorStore
from medvrag_core.errors import MedvragError
from medvrag_core.index.build import write_index
from medvrag_core.index.maxsim import score_pages
from medvrag_core.profiles.load import load_profile
from medvrag_core.records import Page, PageLayout, PageVectors
from medvrag_core.runs.workspace import Workspace
from medvrag_core.settings import EncoderSettings, IndexSettings, Storage
from medvrag_core.systems.prepare import CorpusPages

ROWS, DIM, PATCH = 103, 128, 28
STORAGES: tuple[Storage, ...] = ("float32", "float16", "int8")


class DrawnEncoder(PageEncoder):
    """103 random rows a page; the grid of 744 patches that ColQwen2.5 has on an A4 page."""

    dim = DIM

    @property
    def identity(self) -> EncoderIdentity:
        """See :class:`PageEncoder`."""
        return EncoderIdentity(encoder="drawn", version=1, model="none", dim=DIM)

    def encode_pages(self, pages: Iterable[PageInput]) -> Iterator[PageVectors]:
        """See :class:`PageEncoder`."""
        y, x = np.divmod(np.arange(31 * 24), 24)
        grid = np.stack([x / 24, y / 31, (x + 1) / 24, (y + 1) / 31], axis=1).astype(np.float32)
        for number, page in enumerate(pages):
            rng = np.random.default_rng(number)
            rows = unit_rows(rng.normal(size=(ROWS, DIM)).astype(np.float32))
            # Clusters hang together, as those of patches that look alike do.
            centers = rng.choice(len(grid), ROWS, replace=False)
            vector_of = np.searchsorted(np.sort(centers)[1:], np.arange(len(grid)), side="right")
            yield PageVectors(page.page.page_id, rows, grid, vector_of)

    def encode_query(self, text: str) -> NDArray[np.float32]:
        """See :class:`PageEncoder`."""
        return unit_rows(np.random.default_rng(0).normal(size=(15, DIM)).astype(np.float32))


@dataclass(frozen=True)
class ReadyImage:
    """A page image as large as the model takes it."""

    page_id: str
    pixels: NDArray[np.uint8]


class StandIn(BatchedPageEncoder[ReadyImage]):
    """Reads and scales the image of a page as a vision encoder does, then waits in the place of the model."""

    dim = DIM

    def __init__(self, settings: EncoderSettings, page_s: float) -> None:
        super().__init__(settings)
        self._position_s = page_s / settings.max_visual_tokens

    @property
    def identity(self) -> EncoderIdentity:
        """See :class:`PageEncoder`."""
        return EncoderIdentity(encoder="stand-in", version=1, model="none", dim=DIM)

    def load_page(self, page: PageInput) -> ReadyImage:
        """See :class:`BatchedPageEncoder`."""
        with Image.open(page.image) as image:
            scale = (self.settings.max_visual_tokens * PATCH**2 / (image.width * image.height)) ** 0.5
            size = [max(1, int(side * scale / PATCH)) * PATCH for side in image.size]
            scaled = image.convert("RGB").resize((size[0], size[1]), Image.Resampling.BICUBIC)
        return ReadyImage(page.page.page_id, np.asarray(scaled))

    def page_size(self, ready: ReadyImage) -> int:
        """See :class:`BatchedPageEncoder`."""
        return ready.pixels.size // (3 * PATCH**2)

    def encode_batch(self, ready: Sequence[ReadyImage]) -> list[PageVectors]:
        """See :class:`BatchedPageEncoder`."""
        time.sleep(len(ready) * max(map(self.page_size, ready)) * self._position_s)
        one = np.eye(1, DIM, dtype=np.float32)
        box = np.array([[0, 0, 1, 1]], dtype=np.float32)
        return [PageVectors(page.page_id, one, box, np.zeros(1, dtype=np.int64)) for page in ready]

    def encode_query(self, text: str) -> NDArray[np.float32]:
        """See :class:`PageEncoder`."""
        return np.eye(1, DIM, dtype=np.float32)


def some_pages(run: Path, count: int) -> list[PageInput]:
    """Pages spread over the corpus of a run."""
    pages = CorpusPages(CorpusStore.open(Workspace(run).corpus))
    return [pages[int(place)] for place in np.linspace(0, len(pages) - 1, min(count, len(pages)))]


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def told(name: str, pages: int, times: Sequence[float], more: str = "") -> None:
    rounds = ", ".join(f"{one:.1f} s" for one in times)
    print(f"{name:24s} {pages / statistics.median(times):8.2f} pages/s (rounds: {rounds}){more}")


def compare_processes(options: argparse.Namespace) -> None:
    """One process against one a core, with the time that the processes take to start."""
    profile = load_profile(options.profile)
    pages, count = some_pages(options.run, options.pages), options.processes or profile.processes
    encoder = make_page_encoder(profile.encoder)
    encoder.fit(pages)
    alone, copied = [], []
    with tempfile.TemporaryDirectory() as folder:
        encoder.save(Path(folder))
        copies = Copies(partial(make_page_encoder, profile.encoder), count)
        for _ in range(options.rounds):
            # A fitted encoder may remember pages that it learned from; a loaded one remembers none.
            fresh = make_page_encoder(profile.encoder)
            fresh.load(Path(folder))
            alone.append(seconds(lambda fresh=fresh: list(fresh.encode_pages(pages))))  # type: ignore[misc]
            copied.append(seconds(lambda: list(encode_in_copies(copies, count, Path(folder), pages))))
    told("one process", len(pages), alone)
    ratios = [a / b for a, b in zip(alone, copied, strict=True)]
    told(f"{count} processes", len(pages), copied, f"; {statistics.median(ratios):.2f} times as fast")


def compare_loaders(options: argparse.Namespace) -> None:
    """Batches in the given order, loaded when they are due, against the loader."""
    settings = EncoderSettings(batch_size=options.batch_size, loaders=options.loaders)
    pages = some_pages(options.run, options.pages)
    naive, ahead, waiting = [], [], []

    def in_order(encoder: StandIn) -> None:
        for start in range(0, len(pages), settings.batch_size):
            encoder.encode_batch([encoder.load_page(page) for page in pages[start : start + settings.batch_size]])

    for _ in range(options.rounds):
        encoder = StandIn(settings, options.model_ms / 1000)
        naive.append(seconds(partial(in_order, encoder)))
        ahead.append(seconds(lambda encoder=encoder: list(encoder.encode_pages(pages))))  # type: ignore[misc]
        waiting.append(encoder.tally.waiting_s / ahead[-1])
    told("load, then encode", len(pages), naive)
    share = f"; the model waits {statistics.median(waiting):.0%} of the time, padding {encoder.tally.padding_share:.1%}"
    told("loaded ahead", len(pages), ahead, share)
    print(f"{'bound by the model':24s} {1000 / options.model_ms:8.2f} pages/s")


def measure_store(options: argparse.Namespace) -> None:
    """Bytes, scores and memory."""
    rng = np.random.default_rng(1)
    vectors = unit_rows(rng.normal(size=(1_000 * ROWS, DIM)).astype(np.float32))
    query, offsets = DrawnEncoder().encode_query(""), np.arange(1_001) * ROWS
    exact = score_pages(query, vectors, offsets)
    for storage in STORAGES:
        moved = np.abs(score_pages(query, unpack(pack(vectors, storage)), offsets) - exact)
        print(f"{storage:8s} scores of 1,000 pages move by {moved.mean():.1e} on average, by {moved.max():.1e} at most")
    for count in options.pages:
        process = multiprocessing.get_context("spawn").Process(target=build_store, args=(count, options.storage))
        process.start()
        process.join()
        if process.exitcode:
            raise MedvragError(f"the build of {count} pages ended with {process.exitcode}")


def build_store(count: int, storage: Storage) -> None:
    """Encode, index and open ``count`` made-up pages; print how much the process grew at each step."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        before = peak_mb()
        spent = seconds(
            lambda: encode_corpus(
                PageInputs(count, made_page),
                DrawnEncoder(),
                folder / "vectors",
                corpus_fingerprint="made up",
                storage=storage,
                progress=False,
            )
        )
        encoded = peak_mb()
        store = VectorStore.open(folder / "vectors")
        spent_index = seconds(lambda: write_index(store, IndexSettings(), folder / "index", near_duplicate=0.97))
        indexed = peak_mb()
        print(
            f"{count:7d} pages as {storage}: {store.bytes / count / 1000:.2f} kB a page; peak memory grew by "
            f"{encoded - before:.0f} MB while encoding ({spent:.0f} s), {indexed - encoded:.0f} MB more while indexing "
            f"({spent_index:.0f} s); all vectors as float32 are {count * ROWS * DIM * 4 / 1e6:.0f} MB",
            flush=True,
        )


def made_page(number: int) -> PageInput:
    page = Page(
        page_id=f"a{number:06d}#p1", article_id=f"a{number:06d}", number=1, width_pt=595, height_pt=842, image="",
        image_width=1, image_height=1, dpi=72, text_source="none", text="",
    )  # fmt: skip
    return PageInput(page, PageLayout(page_id=page.page_id, words=(), regions=()), Path())


def peak_mb() -> float:
    """Most memory that this process has had, in MB."""
    if sys.platform == "darwin":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    # What getrusage tells on Linux begins with the memory of the process that started this one.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) / 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(required=True)
    for name, work in (("processes", compare_processes), ("loader", compare_loaders)):
        part = parts.add_parser(name)
        part.set_defaults(work=work)
        part.add_argument("--run", type=Path, required=True, help="run folder with a corpus")
        part.add_argument("--pages", type=int, default=64)
        part.add_argument("--rounds", type=int, default=3)
    parts.choices["processes"].add_argument("--profile", default="cpu")
    parts.choices["processes"].add_argument("--processes", type=int, default=0, help="0: as the profile says")
    loader = parts.choices["loader"]
    loader.add_argument("--model-ms", type=float, default=100.0, help="time of the model for a page of full size")
    loader.add_argument("--batch-size", type=int, default=8)
    loader.add_argument("--loaders", type=int, default=4)
    store = parts.add_parser("store")
    store.set_defaults(work=measure_store)
    store.add_argument("--pages", type=int, nargs="+", default=[5_000, 50_000])
    store.add_argument("--storage", choices=STORAGES, default="int8")
    options = parser.parse_args()
    try:
        options.work(options)
    except MedvragError as error:
        parser.exit(2, f"{error}\n")


if __name__ == "__main__":
    main()
