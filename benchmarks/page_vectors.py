"""Page vectors as an encoder would make them, in any number, for benchmarks of stage 1.

    python benchmarks/page_vectors.py --pages 20000 --queries 40 --check       # how hard is it?
    python benchmarks/page_vectors.py --pages 350000 --store work/vectors      # a store that `medvrag_core.index` reads

Nothing here was learned from real pages. What is modelled, since it decides how approximate search behaves:

- A page has about 103 rows, 128 wide and of unit length (paper section 3.2), 2 % of the pages under 12, none over 140.
- All rows share one direction a little, as the rows of trained encoders do.
- The patches of a page fall into regions (title, paragraphs, table, figure, references, ...). Those of a region share a
  direction: its kind, a concept of a topic, the article, and a part of its own.
- Articles of eight pages share a main topic and two others. Some topics have many more articles than others.
- A fifth of the patches is background that looks alike on all pages.
- A query of 12 to 30 rows looks at two places of a target page. Its rows are patches from there, drawn towards the
  concepts behind them and blurred, with words that any question has between them.

The rows of a page depend on the seed and its number alone, not on how many pages are made or in which blocks; so a
collection of 20,000 pages is the beginning of one of 350,000. Memory holds one block.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medvrag_core.encoders.base import PageEncoder, PageInput, PageInputs
from medvrag_core.encoders.encode import encode_corpus
from medvrag_core.encoders.identity import EncoderIdentity
from medvrag_core.encoders.minilm import unit_rows
from medvrag_core.encoders.shards import starts
from medvrag_core.encoders.vectors import VectorStore
from medvrag_core.index.maxsim import one_way_score_pages, score_pages
from medvrag_core.records import Page, PageLayout, PageVectors

DIM, BLOCK, ARTICLE_PAGES = 128, 64, 8
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Mixture:
    """What rows are mixed from: lengths of the parts before a row is scaled to unit length.

    Attributes
    ----------
    topics, concepts, kinds, backgrounds, words : directions of each sort; ``concepts`` is the number of those of one
        topic, ``words`` are those of any question
    common, kind, concept, article, region : parts of the center of a region
    patch : length of what a patch has for itself
    background_share, background_patch : how many regions are background, and how far its patches scatter
    short_share : of pages with under 12 rows
    query_patch, query_concept, query_blur : parts of a query row: a patch of the target, its concept, noise
    query_words : share of the query rows that any question has
    """

    topics: int = 300
    concepts: int = 20
    kinds: int = 10
    backgrounds: int = 12
    words: int = 60
    common: float = 0.5
    kind: float = 0.35
    concept: float = 0.6
    article: float = 0.35
    region: float = 0.45
    patch: float = 0.65
    background_share: float = 0.2
    background_patch: float = 0.3
    short_share: float = 0.02
    query_patch: float = 0.15
    query_concept: float = 0.35
    query_blur: float = 1.0
    query_words: float = 0.25


@dataclass(frozen=True)
class Block:
    """Some pages one after another: float16, shape (rows, 128), and int64 offsets, shape (pages + 1,)."""

    rows: NDArray[np.float16]
    offsets: NDArray[np.int64]


@dataclass(frozen=True)
class MadeQuery:
    """The rows of a query, float32, shape (m, 128), and the number of the page that it was made from."""

    target: int
    rows: Floats


class PageMaker:
    """Makes pages and queries from a seed."""

    def __init__(self, seed: int = 0, mixture: Mixture | None = None) -> None:
        self.seed, self.mixture = seed, mixture or Mixture()
        made, rng = self.mixture, self._rng(0)
        topics = directions(rng, made.topics)
        self._common = directions(rng, 1)[0]
        self._kinds = directions(rng, made.kinds)
        concepts = made.topics * made.concepts
        self._concepts = unit_rows(0.8 * np.repeat(topics, made.concepts, axis=0) + 0.6 * directions(rng, concepts))
        self._backgrounds = unit_rows(self._common + 0.9 * directions(rng, made.backgrounds))
        self._words = unit_rows(0.5 * self._common + directions(rng, made.words))

    def block(self, first: int, last: int) -> Block:
        """Pages ``first`` to ``last - 1``."""
        return self._block(first, last)[0]

    def blocks(self, pages: int) -> Iterator[Block]:
        """All of ``pages`` pages, a few at a time."""
        for first in range(0, pages, BLOCK):
            yield self.block(first, min(first + BLOCK, pages))

    def query(self, number: int, pages: int) -> MadeQuery:
        """Query ``number`` to a collection of ``pages`` pages, at least one of them not short."""
        made, rng = self.mixture, self._rng(3, number)
        while True:
            target = int(rng.integers(pages))
            block, concept_of_row = self._block(target, target + 1)
            named = np.flatnonzero(concept_of_row >= 0)
            if len(block.rows) >= 12 and len(named):
                break
        size = int(rng.integers(12, 31))
        places = rng.choice(named, 2)[rng.integers(2, size=size)] + rng.integers(-4, 5, size=size)
        near = named[np.abs(places[:, None] - named).argmin(axis=1)]
        start = made.query_patch * block.rows[near].astype(np.float32)
        start += made.query_concept * self._concepts[concept_of_row[near]]
        asked = rng.random(size) < made.query_words
        start[asked] = self._words[rng.integers(made.words, size=int(asked.sum()))]
        return MadeQuery(target, unit_rows(start + made.query_blur * noise(rng, size)))

    def _block(self, first: int, last: int) -> tuple[Block, NDArray[np.int64]]:
        """Pages, and the concept that each row speaks of, -1 for background."""
        drawn = [self._page(number) for number in range(first, last)]
        region_starts = starts(np.array([len(page.concepts) for page in drawn]))
        offsets = starts(np.array([len(page.region_of_row) for page in drawn]))
        concepts = np.concatenate([page.concepts for page in drawn])
        centers = np.concatenate([page.own for page in drawn])
        centers += self.mixture.common * self._common
        centers += self.mixture.kind * self._kinds[np.concatenate([page.kinds for page in drawn])]
        centers += self.mixture.concept * self._concepts[concepts]
        blank = concepts < 0
        which = np.concatenate([page.kinds for page in drawn])[blank] % len(self._backgrounds)
        centers[blank] = self._backgrounds[which]
        region = np.concatenate([page.region_of_row + start for page, start in zip(drawn, region_starts, strict=False)])
        rows = np.concatenate([page.noise for page in drawn])
        rows *= np.where(blank, self.mixture.background_patch, self.mixture.patch).astype(np.float32)[region][:, None]
        rows += centers[region]
        return Block(unit_rows(rows).astype(np.float16), offsets), concepts[region]

    def _page(self, number: int) -> _Drawn:
        made, rng = self.mixture, self._rng(1, number)
        concepts, article = self._article(number // ARTICLE_PAGES)
        if rng.random() < made.short_share:
            rows, regions = int(rng.integers(1, 12)), 1 + int(rng.integers(2))
        else:
            rows, regions = int(np.clip(rng.normal(105, 14), 50, 140)), int(rng.integers(4, 10))
        ends = np.cumsum(rng.random(regions) + 0.2)
        region_of_row = np.searchsorted(ends, (np.arange(rows) + 0.5) * (ends[-1] / rows))
        shown = concepts[rng.integers(len(concepts), size=regions)]
        shown[rng.random(regions) < made.background_share] = -1
        own = made.region * noise(rng, regions) + made.article * article
        return _Drawn(rng.integers(made.kinds, size=regions), shown, own, region_of_row, noise(rng, rows))

    def _article(self, number: int) -> tuple[NDArray[np.int64], Floats]:
        """Concepts that its regions choose from, half of them of its main topic, and what is its own."""
        made, rng = self.mixture, self._rng(2, number)
        main, second, third = (made.topics * rng.random(3) ** 2).astype(np.int64)
        topics = np.array([main, main, main, main, second, second, third, third])
        return topics * made.concepts + rng.integers(made.concepts, size=len(topics)), noise(rng, 1)[0]

    def _rng(self, *what: int) -> np.random.Generator:
        return np.random.default_rng((self.seed, *what))


@dataclass(frozen=True)
class _Drawn:
    """What is drawn for one page: kind, concept and own part of each region; region and own part of each row."""

    kinds: NDArray[np.int64]
    concepts: NDArray[np.int64]
    own: Floats
    region_of_row: NDArray[np.int64]
    noise: Floats


def noise(rng: np.random.Generator, count: int) -> Floats:
    """``count`` rows of random direction and a length of about 1."""
    return rng.standard_normal((count, DIM), dtype=np.float32) * np.float32(DIM**-0.5)


def directions(rng: np.random.Generator, count: int) -> Floats:
    """``count`` random unit rows."""
    return unit_rows(noise(rng, count))


class MadePages(PageEncoder):
    """Puts made pages into a :class:`VectorStore` the way that an encoder's are put there."""

    dim = DIM

    def __init__(self, maker: PageMaker) -> None:
        self.maker = maker

    @property
    def identity(self) -> EncoderIdentity:
        """See :class:`PageEncoder`."""
        more = {"seed": self.maker.seed, **asdict(self.maker.mixture)}
        return EncoderIdentity(encoder="made", version=1, model="none", dim=DIM, more=more)

    def encode_pages(self, pages: Iterable[PageInput]) -> Iterator[PageVectors]:
        """See :class:`PageEncoder`; the number of a page is told by its id."""
        steps = np.linspace(0, 1, 141, dtype=np.float32)
        lines = np.stack([np.zeros(140, np.float32), steps[:-1], np.ones(140, np.float32), steps[1:]], axis=1)
        numbers = (page_number(page.page.page_id) for page in pages)
        while some := list(islice(numbers, BLOCK)):
            block = self.maker.block(some[0], some[-1] + 1)
            rows = block.rows.astype(np.float32)
            for place, number in enumerate(some):
                one = rows[block.offsets[place] : block.offsets[place + 1]]
                yield PageVectors(page_id(number), one, lines[: len(one)], np.arange(len(one)))

    def encode_query(self, text: str) -> Floats:
        """See :class:`PageEncoder`; ``text`` is the number of a query and of the pages, as in ``3 of 20000``."""
        number, pages = text.split(" of ")
        return self.maker.query(int(number), int(pages)).rows


def page_id(number: int) -> str:
    """Ids in the order of the numbers.

    >>> page_id(17), page_number("a000002#p2")
    ('a000002#p2', 17)
    """
    article, place = divmod(number, ARTICLE_PAGES)
    return f"a{article:06d}#p{place + 1}"


def page_number(page_id: str) -> int:
    """The number of a page."""
    article, place = page_id[1:].split("#p")
    return int(article) * ARTICLE_PAGES + int(place) - 1


def made_store(maker: PageMaker, pages: int, folder: Path) -> VectorStore:
    """The first ``pages`` pages as float16 in a store; one that is there is opened, one begun is finished."""

    def made(number: int) -> PageInput:
        page = Page(
            page_id=page_id(number), article_id=page_id(number)[:7], number=number % ARTICLE_PAGES + 1, width_pt=595,
            height_pt=842, image="", image_width=1, image_height=1, dpi=72, text_source="none", text="",
        )  # fmt: skip
        return PageInput(page, PageLayout(page_id=page.page_id, words=(), regions=()), Path())

    return encode_corpus(PageInputs(pages, made), MadePages(maker), folder, corpus_fingerprint=f"made {pages}")


def difficulty(one_way: Floats, both: Floats, targets: Sequence[int], lengths: NDArray[np.int64]) -> dict[str, Any]:
    """How hard queries are: where exact search puts targets, how close scores lie, how alike both kinds rank.

    Parameters
    ----------
    one_way, both : exact scores by the first half of S and by both, float32, shape (queries, pages)
    targets : page of each query
    lengths : rows of each page
    """
    at = np.array(targets)
    ranks = (both > both[np.arange(len(at)), at][:, None]).sum(axis=1) + 1
    order, other = (np.argsort(-scores, axis=1, kind="stable")[:, :1_000] for scores in (both, one_way))
    ordered = np.take_along_axis(both, order, axis=1)
    places = [place for place in (1, 10, 100, 1_000) if place <= ordered.shape[1]]
    alike = [len(np.intersect1d(a[:100], b[:100])) / len(a[:100]) for a, b in zip(order, other, strict=True)]
    return {
        "target_first": float(np.mean(ranks == 1)),
        "target_among_100": float(np.mean(ranks <= 100)),
        "mean_score_at": {str(place): round(float(ordered[:, place - 1].mean()), 4) for place in places},
        "median_score": round(float(np.median(both)), 4),
        "two_way_top_100_in_one_way": float(np.mean(alike)),
        "pages_under_12_rows": float(np.mean(lengths < 12)),
        "pages_under_12_rows_in_top_10": float(np.mean(lengths[order[:, :10]] < 12)),
    }


def made_difficulty(maker: PageMaker, pages: int, queries: int) -> dict[str, Any]:
    """The same of a collection that is made for it, a block at a time."""
    asked = [maker.query(number, pages) for number in range(queries)]
    one_way, both = (np.empty((queries, pages), dtype=np.float32) for _ in range(2))
    lengths = np.empty(pages, dtype=np.int64)
    for first, block in zip(range(0, pages, BLOCK), maker.blocks(pages), strict=True):
        some = slice(first, first + len(block.offsets) - 1)
        lengths[some], rows = np.diff(block.offsets), block.rows.astype(np.float32)
        for number, query in enumerate(asked):
            one_way[number, some] = one_way_score_pages(query.rows, rows, block.offsets)
            both[number, some] = score_pages(query.rows, rows, block.offsets)
    return difficulty(one_way, both, [query.target for query in asked], lengths)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--store", type=Path, help="folder that the vectors are written to")
    parser.add_argument("--check", action="store_true", help="print how hard the collection is")
    parser.add_argument("--queries", type=int, default=40)
    options = parser.parse_args()
    maker = PageMaker(options.seed)
    if options.store is not None:
        started = time.process_time()
        store = made_store(maker, options.pages, options.store)
        spent = time.process_time() - started
        print(f"{len(store)} pages, {store.bytes / len(store) / 1000:.1f} kB each, {spent:.0f} CPU seconds")
    if options.check:
        for name, value in made_difficulty(maker, options.pages, options.queries).items():
            print(f"{name.replace('_', ' '):30s} {value}")


if __name__ == "__main__":
    main()
