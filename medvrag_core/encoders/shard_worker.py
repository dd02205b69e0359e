"""A worker of a crew that encodes whole shards, from the pages on the disk to the published folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from medvrag_core.encoders.base import PageEncoder, PageInput, at_places
from medvrag_core.encoders.batched import BatchedPageEncoder
from medvrag_core.encoders.copies import PAGES_AT_ONCE
from medvrag_core.encoders.faults import fitting_pages, naming_pages
from medvrag_core.encoders.manifest import STATE, shard_folder
from medvrag_core.encoders.shards import write_shard
from medvrag_core.records import PageVectors
from medvrag_core.runs.crew import Crew
from medvrag_core.settings import Storage


@dataclass(frozen=True)
class Encoded:
    """What a published shard holds, counted."""

    pages: int
    vectors: int
    patches: int


@dataclass(frozen=True)
class ShardCrew:
    """A crew, and what its workers need to begin.

    Attributes
    ----------
    crew : what runs them
    make : gives an encoder that is not fitted
    pages : opens the pages of the corpus, in its order
    """

    crew: Crew
    make: Callable[[], PageEncoder]
    pages: Callable[[], Sequence[PageInput]]

    @property
    def processes(self) -> int:
        """How many encode side by side."""
        return self.crew.workers("encode")

    def encode(self, folder: Path, storage: Storage, shards: Sequence[tuple[int, Sequence[int]]]) -> Iterator[Encoded]:
        """Publish shards in ``folder``, each given by its number and the places of its pages, in any order."""
        make = partial(ShardWorker, self.make, self.pages, folder.absolute(), storage)
        return self.crew.work(make, shards, kind="encode")


class ShardWorker:
    """Encodes the pages of one shard after another, in the state that the build in ``folder`` began with.

    Pages go through the encoder in the batches in which one process or several copies would take them: four at a time,
    or those of a :class:`BatchedPageEncoder`, as long as its windows divide a shard. Then vectors are the same bit by
    bit on machines of one kind with as many threads.
    """

    def __init__(
        self,
        make: Callable[[], PageEncoder],
        pages: Callable[[], Sequence[PageInput]],
        folder: Path,
        storage: Storage,
    ) -> None:
        self._encoder, self._pages, self._folder, self._storage = make(), pages(), folder, storage
        self._encoder.load(folder / STATE)

    def __call__(self, shard: tuple[int, Sequence[int]]) -> Encoded:
        """Publish one shard; raises MedvragError that names the page for one that cannot be encoded."""
        number, places = shard
        made = list(fitting_pages(self._encode(places), self._encoder.dim))
        write_shard(shard_folder(self._folder, number), made, self._storage)
        return Encoded(len(made), sum(len(page.vectors) for page in made), sum(len(page.boxes) for page in made))

    def _encode(self, places: Sequence[int]) -> Iterator[PageVectors]:
        size = len(places) if isinstance(self._encoder, BatchedPageEncoder) else PAGES_AT_ONCE
        for start in range(0, len(places), size):
            given = at_places(self._pages, places[start : start + size])
            yield from naming_pages(iter(self._encoder.encode_pages(given)), given)
